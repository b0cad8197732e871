"""Takes samples of a chain: which seals of its headers come out right.

Before the first window is believed, and then of whatever blocks with logs come by. A sample that
is wrong is asked of another endpoint: who gave it may have lied, and the chain is not to blame.
See docs/explanation/verification.md#calibration.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from oracle.chain.verification.calibration import SAMPLES, Calibration, HeaderFeature
from oracle.chain.verification.full_headers import FullHeader, full_headers_of
from oracle.chain.verification.header_check import judged
from oracle.chain.verification.receipt_fetch import Receipts, receipts
from oracle.chain.verification.transaction_check import is_complete
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import RpcError

# Samples are fetched so many at a time: most often the first ones tell.
_SAMPLED_TOGETHER = 10
# How many headers are looked at in one batch.
_SCANNED, _SCANNED_WHOLE = 100, 40
# Where the newest blocks are too few, the chain is looked at in so many other places.
_PLACES = 4

# Which of a block's features came out right.
Found = dict[HeaderFeature, bool]


@dataclass(frozen=True, slots=True)
class Sampler:
    """Fills one `Calibration`."""

    calibration: Calibration
    # Who may be asked besides the endpoint of this name; each is known to be on our chain.
    others: Callable[[str], Iterable[Endpoint]]
    # Called with an endpoint and what it was found out by.
    accuse: Callable[[Endpoint, str], None]
    # Whether blocks are read with their transactions.
    reads_whole: bool = False

    @property
    def features(self) -> frozenset[HeaderFeature]:
        """What there is to prove of the chain."""
        kinds = {HeaderFeature.RECEIPTS, HeaderFeature.BLOOM, HeaderFeature.HEADER}
        return frozenset(kinds | {HeaderFeature.TRANSACTIONS} if self.reads_whole else kinds)

    def scan(self, endpoint: Endpoint) -> None:
        """Take samples of the newest blocks, and of older ones where those are too few.

        Only where they are wanted and it was not done lately. Several threads read windows: none
        goes on before it is done, so that what is believed of a window is no matter of luck.

        Raises:
            RpcError: it does not give its newest headers.
        """
        if not self.calibration.wants_scan(self.features):
            return
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
                    # Who has forgotten the beginning may be good for what is new.
                    break
            self.calibration.conclude()
            self.calibration.scanned()

    def learn(self, endpoint: Endpoint, blocks: Iterable[FullHeader]) -> None:
        """Take samples of blocks that came by."""
        self._sample(endpoint, blocks, 2 * SAMPLES)
        self.calibration.conclude()

    @property
    def _most(self) -> int:
        return _SCANNED_WHOLE if self.reads_whole else _SCANNED

    def _look_at(self, endpoint: Endpoint, heights: range, most: int) -> None:
        recent = full_headers_of(endpoint, heights, full=self.reads_whole)
        chosen = [one for one in reversed(recent) if one and not one.is_without_transactions]
        self._sample(endpoint, chosen, most)

    def _sample(self, endpoint: Endpoint, blocks: Iterable[FullHeader], most: int) -> None:
        """Recompute what these blocks' headers say of their receipts, and remember what was right.

        An endpoint that gives no receipts shows nothing.
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
        """Yield the blocks with logs, and which features come out right of their receipts."""
        for one, given in receipts(endpoint, blocks):
            if any(receipt.logs for receipt in given):
                yield one, self._judged(one, given)

    def _judged(self, one: FullHeader, given: Receipts) -> Found:
        found = judged(one, given)
        return (
            {**found, HeaderFeature.TRANSACTIONS: is_complete(one)} if self.reads_whole else found
        )

    def _judge(self, endpoint: Endpoint, samples: Sequence[tuple[FullHeader, Found]]) -> None:
        """Count samples; what is wrong of one is the chain's only if nobody shows it right."""
        wanted = [feature for feature in self.features if self.calibration.is_open(feature)]
        wrong = [one for one, found in samples if not all(found[feature] for feature in wanted)]
        right = self._elsewhere(endpoint, wrong)
        for one, found in samples:
            better = right.get(one.block.hash, {})
            for feature in wanted:
                if better.get(feature) and not found[feature]:
                    self.accuse(endpoint, feature)
            made = {feature: found[feature] or better.get(feature, False) for feature in found}
            self.calibration.judge(one.block.hash, made)

    def _elsewhere(self, than: Endpoint, blocks: Sequence[FullHeader]) -> dict[str, Found]:
        """Return by hash what the first other endpoint that tells makes of the same blocks."""
        if not blocks:
            return {}
        ours = {one.block.hash for one in blocks}
        for other in self.others(than.name):
            try:
                numbers = [one.block.number for one in blocks]
                theirs = full_headers_of(other, numbers, full=self.reads_whole)
                same = [one for one in theirs if one is not None and one.block.hash in ours]
                return {one.block.hash: found for one, found in self._found(other, same)}
            except RpcError:
                continue
        return {}


def _places(newest: int, most: int) -> list[range]:
    """Return the newest heights, and others spread evenly below them, each not so many."""
    ends = [newest - newest * place // (_PLACES + 1) for place in range(_PLACES + 1)]
    places = [range(max(0, end - most + 1), end + 1) for end in ends]
    # A short chain is looked at once.
    return [place for nth, place in enumerate(places) if nth == 0 or place.stop < places[0].start]
