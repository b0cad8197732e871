"""Fetches windows from whichever endpoint returns complete ones, and proves what can be proven.

An endpoint that contradicts its own headers, or omits logs that another one has, is replaced by
the next one for this window. An answer that contradicts a proven feature, and that no endpoint
can prove, is refused, however many endpoints agree. See docs/explanation/verification.md.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from oracle.chain.fetch.fetcher import BlockWindow, WindowFetcher, WindowRequest
from oracle.chain.fetch.limit_memory import LimitMemory
from oracle.chain.fetch.log_query import LogQuery
from oracle.chain.log_filter import Filter
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.verification.bloom_check import Blooms
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import FullHeader, chained
from oracle.chain.verification.header_check import is_hashed_right
from oracle.chain.verification.header_samples import CalibrationUndecidedError, Sampler
from oracle.chain.verification.proven_lies import Lies
from oracle.chain.verification.refused_blocks import CALIBRATION, BlockRefusal, RefusalError
from oracle.chain.verification.verification_policy import LevelShortfall, VerificationPolicy
from oracle.chain.verification.verifier import WindowVerifier
from oracle.chain.verification.window_check import ContradictionError, OmissionError
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import Level
from oracle.domain.ids import Hash
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.learned_limits import LearnedLimits
from oracle.rpc.endpoints.range_sizer import (
    MOST_BLOCKS,
    MOST_LINKED,
    MOST_WITH_HEADERS,
)
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Rounds through the endpoints for one window: request not understood, feature refuted, retry.
_ROUNDS = 4


@dataclass(slots=True)
class _Round:
    """One round through the endpoints, and the errors that occurred in it."""

    fetcher: WindowFetcher
    endpoints: EndpointPool
    order: WindowRequest
    contradictions: list[ContradictionError] = field(default_factory=list)
    is_unknown: bool = False

    def __call__(self, endpoint: Endpoint) -> BlockWindow:
        try:
            return self.fetcher.window(endpoint, self.order)
        except ContradictionError as error:
            self.contradictions.append(error)
            self.endpoints.deprioritise(endpoint, error.feature)
            raise
        except OmissionError:
            self.endpoints.deprioritise(endpoint, "logs")
            raise
        except RpcError as error:
            self.is_unknown |= error.kind is ErrorKind.UNKNOWN
            raise


class WindowSource:
    """Fetches the windows of one reader; may be used by several threads at once."""

    def __init__(
        self,
        endpoints: EndpointPool,
        reader: EventReader,
        policy: VerificationPolicy,
        calibration: Calibration,
    ) -> None:
        self._endpoints = endpoints
        self.policy = policy
        self.calibration = calibration
        self._memory = LimitMemory(endpoints, calibration.keeper)
        wanted = Filter(frozenset(reader.addresses), frozenset(reader.topics))
        for endpoint in endpoints:
            endpoint.limits = LearnedLimits()
        self._query = LogQuery(wanted, calibration.clock)
        blooms = Blooms(wanted, calibration, self._fetch_logs_of_other_witness)
        accuse = endpoints.deprioritise
        whole = self._reads_blocks = bool(reader.selectors)
        sampler = Sampler(calibration, self._others, self._other_providers, accuse, whole)
        self._verifier = WindowVerifier(wanted, calibration, blooms, sampler, accuse)
        self._lies = Lies(endpoints, self._is_provable)
        self._fetcher = WindowFetcher(reader, self._query, self._verifier, self._lies.weigh)
        # The endpoint of the last window: its limits size the next range.
        self._last = next(iter(endpoints))

    def cut(self, blocks: BlockRange, *, with_headers: bool) -> BlockRange:
        """Return the first part of the range, as large as one window can be."""
        most = MOST_BLOCKS
        if with_headers or self._reads_blocks:
            most = MOST_WITH_HEADERS
        elif self._fetcher.reads_headers(self.policy.top(is_history=True)):
            most = MOST_LINKED
        self._memory.recall()
        return self._last.limits.sizer.cut(blocks, most=most)

    def window(self, blocks: BlockRange, *, with_headers: bool) -> BlockWindow:
        """Return the window of these blocks, verified as far as the policy requires.

        Raises:
            TransientError: no endpoint gives a complete and consistent answer now.
            InputError: an endpoint is on another chain.
        """
        top = self.policy.top(is_history=not with_headers)
        every = with_headers or self.policy.every_header
        return self._fetched(WindowRequest(blocks, every, top))

    def from_one(self, blocks: BlockRange, endpoint: str) -> BlockWindow:
        """Return a window of final blocks from one endpoint, verified like `fetch_window` does.

        Raises:
            TransientError: the endpoint gives no complete and consistent answer now.
        """
        request = WindowRequest(blocks, self.policy.every_header, self.policy.top(is_history=True))
        return self._fetched(request, only=endpoint)

    def facts(self) -> dict[str, dict[str, str]]:
        """Return what is known of the chain, under an empty name, and of each endpoint's limits."""
        self._memory.recall()
        return {"": self.calibration.facts(), **self._memory.facts()}

    def is_settled(self) -> bool:
        """Return whether no more samples are needed for the verification of history."""
        is_wanted = self.policy.top(is_history=True) >= Level.BLOOMED
        return not is_wanted or not self.calibration.is_any_open(self._verifier.sampler.features)

    def keep_newest(self, latest: BlockRef) -> None:
        """Drop the cached newest headers of endpoints whose head is not `latest`."""
        for endpoint in self._endpoints:
            endpoint.forget_newest_header(unless=latest.hash)

    def of(self, endpoint: Endpoint, blocks: BlockRange) -> BlockWindow:
        """Return the window of these blocks, with headers, from this endpoint only.

        Raises:
            RpcError: the endpoint gives no complete and consistent answer.
        """
        order = WindowRequest(blocks, with_headers=True, top=self.policy.top(is_history=False))
        return self._fetcher.window(endpoint, order)

    def verified(
        self, blocks: BlockRange, level: Level, endpoint: str | None, than: str | None
    ) -> BlockWindow:
        """Fetch blocks again and verify them; see `ChainReader.fetch_verified_window`."""
        top = min(level, Level.PROVEN)
        part = self.cut_verified(blocks, level)
        order = WindowRequest(part, top >= Level.PINNED, top, whole=top >= Level.PROVEN)
        quorum = self._endpoints.witness_quorum
        avoid = frozenset() if than is None else quorum.same_witness(than)
        return self._fetched(order, only=endpoint, avoid=avoid)

    def cut_verified(self, blocks: BlockRange, level: Level) -> BlockRange:
        """Return the first part of the range that `fetch_verified_window` reads at once."""
        if level < Level.PINNED:
            return self.cut(blocks, with_headers=False)
        return BlockRange(blocks.first, min(blocks.last, blocks.first + MOST_WITH_HEADERS - 1))

    def allowed(self) -> Level:
        """Return the highest level that policy and chain allow now."""
        return self._verifier.allowed(self.policy.top(is_history=False))

    def of_history(self) -> Level:
        """Return the level that every historical block reaches now."""
        return self._verifier.of_history(self.policy.top(is_history=True))

    def shortfall(self) -> LevelShortfall | None:
        """Return why history cannot reach the requested level, or None if it can or may."""
        wanted = self.policy.top(is_history=True)
        refuted = self._verifier.refuted(wanted)
        if not refuted:
            return None
        lower = Level.PINNED if self.policy.every_header else Level.SEAMED
        if wanted > Level.BLOOMED and not self._verifier.refuted(Level.BLOOMED):
            lower = Level.BLOOMED
        # Without a valid header hash, a lying endpoint can make any root fit.
        below = Level.AUDITED if HeaderFeature.HEADER in refuted else wanted
        return LevelShortfall(wanted, lower, refuted, below)

    def calibrate(self) -> None:
        """Sample the chain's headers if samples are needed and none were taken recently.

        Raises:
            TransientError: no endpoint gives its newest headers.
        """
        is_wanted = self.policy.top(is_history=True) >= Level.BLOOMED
        if is_wanted and self.calibration.wants_scan(self._verifier.sampler.features):
            self._endpoints.use(self._fetcher.calibrate)

    def is_linked(self, endpoint: str, blocks: BlockRange) -> bool:
        """Return whether an endpoint's headers of the range link, and hash to the block hashes.

        The blocks directly before and after the range are included if the endpoint has them.

        Raises:
            RpcError: the endpoint does not answer.
        """
        beyond = BlockRange(max(0, blocks.first - 1), blocks.last + 1)
        try:
            found = self._endpoints.use(lambda one: chained(one, beyond), only=endpoint)
        except RpcError as error:
            if error.kind is ErrorKind.INVALID:
                return False
            raise
        is_hashed = not self.calibration.has(HeaderFeature.HEADER)
        return bool(found) and (is_hashed or all(map(is_hashed_right, found)))

    def _fetched(
        self, order: WindowRequest, *, only: str | None = None, avoid: Collection[str] = ()
    ) -> BlockWindow:
        self._memory.recall()
        blocks = order.blocks
        is_alone = only is not None or len(self._endpoints) - len(avoid) <= 1
        order = replace(order, divides_unknown=is_alone)
        for _ in range(_ROUNDS - 1):
            attempt, demotions = _Round(self._fetcher, self._endpoints, order), self._demotions
            try:
                window = self._endpoints.use(attempt, only=only, avoid=avoid)
                return self._accept(window, attempt)
            except CalibrationUndecidedError as error:
                raise error if only or avoid else _waits_for(error, blocks.first) from None
            except RpcError as error:
                self._refute_unproven(attempt)
                if attempt.is_unknown and not order.divides_unknown:
                    # No endpoint understood the request: a smaller range may be accepted.
                    order = replace(order, divides_unknown=True)
                elif demotions == self._demotions:
                    refused = None if only or avoid else self._lowest_refusal(attempt)
                    if refused is None:
                        raise
                    raise refused from error
        last = _Round(self._fetcher, self._endpoints, order)
        return self._endpoints.use(last, only=only, avoid=avoid)

    def _lowest_refusal(self, attempt: _Round) -> RefusalError | None:
        """Return the lowest contradiction as a refusal, or None."""
        if not attempt.contradictions:
            return None
        lowest = min(
            attempt.contradictions,
            key=lambda error: (error.number, error.feature, error.endpoint),
        )
        words = f"{lowest.endpoint}: {lowest.words}, and no endpoint proves it"
        block_hash = Hash(lowest.block_hash)
        return RefusalError(BlockRefusal(lowest.number, block_hash, lowest.feature, words))

    def _accept(self, window: BlockWindow, attempt: _Round) -> BlockWindow:
        if attempt.contradictions:
            self._lies.look_again(attempt.contradictions, window.endpoint)
        self._last = self._endpoints.listed.of(window.endpoint)
        self._memory.keep(self._last)
        return window

    def _is_provable(self, endpoint: Endpoint, number: int) -> bool:
        order = WindowRequest(
            BlockRange(number, number), with_headers=True, top=Level.PROVEN, whole=True
        )
        window = self._fetcher.window(endpoint, order)
        return window.level >= Level.PROVEN and window.last.number == number

    @property
    def _demotions(self) -> int:
        return self.calibration.demotions

    def _refute_unproven(self, attempt: _Round) -> None:
        """Refute an unproven feature if every provider gives the same answer against it.

        For a feature that blocks have proven, agreement is no proof.
        """
        providers_by_claim: dict[tuple[HeaderFeature, str, str], set[str]] = defaultdict(set)
        provider = self._endpoints.providers()
        for error in attempt.contradictions:
            if not self.calibration.has(error.feature):
                claim = error.feature, error.block_hash, error.said
                providers_by_claim[claim].add(provider[error.endpoint])
        all_providers = set(provider.values())
        for (feature, block_hash, _), providers in providers_by_claim.items():
            if providers == all_providers and len(providers) > 1:
                self.calibration.demote(feature, f"block {block_hash}, of every provider")

    def _fetch_logs_of_other_witness(self, than: str, header: FullHeader) -> list[Log] | None:
        for endpoint in self._proven(self._endpoints.other_witnesses(than)):
            try:
                logs = self._query.pinned(endpoint, [header.block])
            except RpcError:
                continue
            if logs is not None:
                return logs
        return None

    def _others(self, than: str) -> Iterator[Endpoint]:
        return self._proven(self._endpoints.others(than))

    def _proven(self, endpoints: Iterable[Endpoint]) -> Iterator[Endpoint]:
        """Yield those of the endpoints that are proven to be on our chain."""
        for endpoint in endpoints:
            try:
                self._endpoints.prove(endpoint)
            except RpcError:
                continue
            yield endpoint

    def _other_providers(self, than: Endpoint) -> set[str]:
        """Return the providers other than that of the endpoint, without quarantined ones."""
        return {
            endpoint.provider
            for endpoint in self._endpoints
            if endpoint.provider != than.provider and endpoint.status.quarantined is None
        }


def _waits_for(error: CalibrationUndecidedError, first: int) -> RefusalError:
    """Return the refusal of a window from `first_block` on, until a provider answers."""
    block_hash = Hash(error.question.block_hash)
    return RefusalError(BlockRefusal(first, block_hash, CALIBRATION, str(error)))
