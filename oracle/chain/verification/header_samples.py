"""Samples which features of a chain's headers are valid.

Samples are taken before the first window is read, and then from blocks with logs. An invalid
sample is checked with every other provider, because the endpoint that gave it may have lied.
While one of them does not answer, nothing is decided and no window is read.
See docs/explanation/verification.md#calibration.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from oracle.chain.verification.calibration import (
    SAMPLES,
    Calibration,
    HeaderFeature,
    UndecidedSample,
)
from oracle.chain.verification.full_headers import FullHeader, full_headers_of
from oracle.chain.verification.header_check import judged
from oracle.chain.verification.receipt_fetch import Receipts, receipts
from oracle.chain.verification.transaction_check import is_complete
from oracle.errors import TransientError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Batch size of samples: the first batch is usually sufficient.
_SAMPLED_TOGETHER = 10
# How many headers are fetched in one batch, without and with transactions.
_SCANNED, _SCANNED_WHOLE = 100, 40
# How many older ranges are sampled if the newest blocks are too few.
_PLACES = 4

# Whether each feature of a block is valid.
Found = dict[HeaderFeature, bool]
# Errors of endpoints without receipts, or without old ones, for which sampling does not wait.
_HAS_NONE = frozenset({ErrorKind.UNSUPPORTED, ErrorKind.PRUNED, ErrorKind.NOT_THERE})


class CalibrationUndecidedError(TransientError):
    """A block contradicts its header, and a provider that may differ does not answer."""

    def __init__(self, question: UndecidedSample) -> None:
        self.question = question
        providers = ", ".join(question.unanswered_providers) or "another provider"
        super().__init__(
            f"block {question.block_hash} does not fit its header ({question.feature}), and "
            f"{providers} does not answer: whether the chain's headers prove anything is not "
            "decided without it"
        )


@dataclass(frozen=True, slots=True)
class Sampler:
    """Takes the samples of one `Calibration`."""

    calibration: Calibration
    # Yields the endpoints other than the named one; each is proven to be on our chain.
    others: Callable[[str], Iterable[Endpoint]]
    # Returns the providers other than that of the endpoint, all of which have to be queried.
    other_providers: Callable[[Endpoint], Collection[str]]
    # Called with an endpoint that gave a wrong answer, and the check that found it.
    accuse: Callable[[Endpoint, str], None]
    # Whether blocks are fetched with their transactions.
    reads_whole: bool = False

    @property
    def features(self) -> frozenset[HeaderFeature]:
        """The features that are sampled on this chain."""
        kinds = {HeaderFeature.RECEIPTS, HeaderFeature.BLOOM, HeaderFeature.HEADER}
        return frozenset(kinds | {HeaderFeature.TRANSACTIONS} if self.reads_whole else kinds)

    def scan(self, endpoint: Endpoint) -> None:
        """Sample the newest blocks, and older ones if those are too few.

        Nothing is done unless samples are needed and the last scan is not recent. If several
        threads read windows, all of them wait for the scan, so that the level of a window does not
        depend on timing.

        Raises:
            RpcError: the endpoint does not return its newest headers.
            CalibrationUndecidedError: see `sample_blocks`.
        """
        if self.calibration.wants_scan(self.features):
            self._scan(endpoint)
        self._check_decided()

    def _scan(self, endpoint: Endpoint) -> None:
        with self.calibration.scanning:
            if not self.calibration.wants_scan(self.features):
                return
            newest, *older = _places(endpoint.highest_block, self._most)
            self._look_at(endpoint, newest, 2 * SAMPLES)
            for place in older:
                if not self.calibration.is_any_open(self.features):
                    break
                try:
                    self._look_at(endpoint, place, _SAMPLED_TOGETHER)
                except RpcError:
                    # An endpoint without old blocks may still be good for new ones.
                    break
            self.calibration.decide()
            self.calibration.scanned()

    def learn(self, endpoint: Endpoint, blocks: Iterable[FullHeader]) -> None:
        """Take samples from blocks that were read.

        Raises:
            CalibrationUndecidedError: a block contradicts its header, and a provider does not
                answer.
        """
        self._sample(endpoint, blocks, 2 * SAMPLES)
        self.calibration.decide()
        self._check_decided()

    def _check_decided(self) -> None:
        question = self.calibration.open_question()
        if question is not None:
            raise CalibrationUndecidedError(question)

    @property
    def _most(self) -> int:
        return _SCANNED_WHOLE if self.reads_whole else _SCANNED

    def _look_at(self, endpoint: Endpoint, heights: range, most: int) -> None:
        recent = full_headers_of(endpoint, heights, full=self.reads_whole)
        chosen = [one for one in reversed(recent) if one and not one.is_without_transactions]
        self._sample(endpoint, chosen, most)

    def _sample(self, endpoint: Endpoint, blocks: Iterable[FullHeader], most: int) -> None:
        """Check the headers of these blocks against their receipts, and record the results.

        An endpoint that returns no receipts yields no samples.
        """
        fresh = [one for one in blocks if self.calibration.is_new(one.block.hash, self.features)][
            :most
        ]
        for first in range(0, len(fresh), _SAMPLED_TOGETHER):
            part = fresh[first : first + _SAMPLED_TOGETHER]
            try:
                self._judge(endpoint, list(self._found(endpoint, part)))
            except RpcError:
                return
            if not self.calibration.is_any_open(self.features):
                return

    def _found(
        self, endpoint: Endpoint, blocks: Sequence[FullHeader]
    ) -> Iterator[tuple[FullHeader, Found]]:
        """Yield the blocks with logs, and which of their features match the receipts."""
        for one, given in receipts(endpoint, blocks):
            if any(receipt.logs for receipt in given):
                yield one, self._judged(one, given)

    def _judged(self, one: FullHeader, given: Receipts) -> Found:
        found = judged(one, given)
        return (
            {**found, HeaderFeature.TRANSACTIONS: is_complete(one)} if self.reads_whole else found
        )

    def _judge(self, endpoint: Endpoint, samples: Sequence[tuple[FullHeader, Found]]) -> None:
        """Count samples; an invalid one counts only if no provider shows it to be valid."""
        wanted = [feature for feature in self.features if self.calibration.is_open(feature)]
        wrong = [one for one, found in samples if not all(found[feature] for feature in wanted)]
        answers = self._ask_others(endpoint, wrong, wanted)
        for one, found in samples:
            better = answers.found.get(one.block.hash, {})
            for feature in wanted:
                if better.get(feature) and not found[feature]:
                    self.accuse(endpoint, feature)
            made = {feature: found[feature] or better.get(feature, False) for feature in found}
            self.calibration.record_sample(
                one.block.hash, made, answers.unanswered_providers.get(one.block.hash, frozenset())
            )

    def _ask_others(
        self, than: Endpoint, blocks: Sequence[FullHeader], wanted: Collection[HeaderFeature]
    ) -> "_Answers":
        """Query other endpoints about blocks, until each feature is shown to be valid."""
        answers = _Answers()
        if not blocks:
            return answers
        expected = frozenset(self.other_providers(than))
        answers.unanswered_providers = {one.block.hash: expected for one in blocks}
        left = list(blocks)
        for other in self.others(than.name):
            try:
                numbers = [one.block.number for one in left]
                theirs = full_headers_of(other, numbers, full=self.reads_whole)
                ours = {one.block.hash for one in left}
                same = [one for one in theirs if one is not None and one.block.hash in ours]
                for one, found in self._found(other, same):
                    answers.add(one.block.hash, found)
                # This also applies if the receipts are gone: the provider answered without result.
                answers.record_answer(other.provider, [one.block.hash for one in same])
            except RpcError as error:
                if error.kind in _HAS_NONE:
                    answers.record_answer(other.provider, answers.unanswered_providers)
                continue
            left = [one for one in left if not answers.shows_all(one.block.hash, wanted)]
            if not left:
                break
        return answers


@dataclass(slots=True)
class _Answers:
    """The results of other endpoints by block hash, and the providers that did not answer."""

    found: dict[str, Found] = field(default_factory=dict)
    unanswered_providers: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, block_hash: str, found: Found) -> None:
        """Add one result: a feature that one endpoint shows to be valid is valid."""
        known = self.found.setdefault(block_hash, dict.fromkeys(found, False))
        for feature, is_right in found.items():
            known[feature] = known[feature] or is_right

    def record_answer(self, provider: str, hashes: Collection[str]) -> None:
        """Record that a provider answered about these blocks, or has no receipts of them."""
        self.unanswered_providers = {
            block_hash: left - {provider} if block_hash in hashes else left
            for block_hash, left in self.unanswered_providers.items()
        }

    def shows_all(self, block_hash: str, wanted: Collection[HeaderFeature]) -> bool:
        """Return whether each of the features was shown to be valid."""
        found = self.found.get(block_hash, {})
        return all(found.get(feature) for feature in wanted)


def _places(newest: int, most: int) -> list[range]:
    """Return the newest heights, and ranges of older ones spread evenly below them."""
    ends = [newest - newest * place // (_PLACES + 1) for place in range(_PLACES + 1)]
    places = [range(max(0, end - most + 1), end + 1) for end in ends]
    # On a short chain, ranges that overlap the newest one are left out.
    return [place for nth, place in enumerate(places) if nth == 0 or place.stop < places[0].start]
