"""Fetches and verifies windows from any endpoint that returns them completely.

If an endpoint contradicts its own headers, or omits logs that another endpoint has, the window is
read from the next endpoint. If an answer contradicts a header feature that is proven for the
chain, and no endpoint can prove the block, the block is refused, however many endpoints agree. See
docs/explanation/verification.md.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from oracle.chain.fetch.fetcher import BlockWindow, WindowFetcher, WindowRequest
from oracle.chain.fetch.limit_memory import LimitStore
from oracle.chain.fetch.log_query import LogQuery
from oracle.chain.log_filter import LogFilter
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.verification.calibration import (
    Calibration,
    CalibrationUndecidedError,
    HeaderFeature,
)
from oracle.chain.verification.full_headers import FullHeader, fetch_linked_headers
from oracle.chain.verification.header_check import BloomChecker, has_valid_hash
from oracle.chain.verification.header_samples import HeaderSampler
from oracle.chain.verification.proven_lies import MisbehaviourDetector
from oracle.chain.verification.refused_blocks import (
    CALIBRATION_CHECK,
    BlockRefusal,
    BlockRefusedError,
)
from oracle.chain.verification.verification_policy import LevelShortfall, VerificationPolicy
from oracle.chain.verification.verifier import WindowVerifier
from oracle.chain.verification.window_check import ContradictionError, OmissionError
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Hash
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.learned_limits import (
    MAX_BLOCKS,
    MAX_BLOCKS_WITH_HEADERS,
    MAX_LINKED_BLOCKS,
    LearnedLimits,
)
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Maximum number of passes over all endpoints per window. A later pass may use a smaller range.
_MAX_ROUNDS = 4


class WindowSource:
    """Fetches the windows of one reader, and is thread-safe."""

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
        self._limit_store = LimitStore(endpoints, calibration.capability_store)
        log_filter = LogFilter(frozenset(reader.addresses), frozenset(reader.topics))
        for endpoint in endpoints:
            endpoint.limits = LearnedLimits()
        self._log_query = LogQuery(log_filter, calibration.clock)
        blooms = BloomChecker(log_filter, calibration, self._fetch_logs_from_other_witness)
        deprioritise_endpoint = endpoints.deprioritise
        reads_transactions = self._reads_transactions = bool(reader.selectors)
        sampler = HeaderSampler(
            calibration,
            self._iterate_other_endpoints,
            self._find_other_providers,
            deprioritise_endpoint,
            reads_transactions,
        )
        self._verifier = WindowVerifier(
            log_filter, calibration, blooms, sampler, deprioritise_endpoint
        )
        self._misbehaviour_detector = MisbehaviourDetector(endpoints, self._can_prove_block)
        self._fetcher = WindowFetcher(
            reader,
            self._log_query,
            self._verifier,
            self._misbehaviour_detector.check_repaired_logs,
        )
        # The limits of the endpoint that served the last window determine the size of the next
        # range.
        self._last_endpoint = next(iter(endpoints))

    def limit_range(self, blocks: BlockRange, *, with_headers: bool) -> BlockRange:
        """Return the longest part of the range, from its start, that fits into one window."""
        max_blocks = MAX_BLOCKS
        if with_headers or self._reads_transactions:
            max_blocks = MAX_BLOCKS_WITH_HEADERS
        elif self._fetcher.needs_all_headers(self.policy.get_max_level(is_history=True)):
            max_blocks = MAX_LINKED_BLOCKS
        self._limit_store.restore_limits()
        return self._last_endpoint.limits.range_sizer.limit_range(blocks, max_blocks=max_blocks)

    def fetch_window(self, blocks: BlockRange, *, with_headers: bool) -> BlockWindow:
        """Fetch the window of these blocks, verified as the policy requires.

        Raises:
            TransientError: no endpoint gives a complete and consistent answer.
            InputError: an endpoint is on another chain.
        """
        max_level = self.policy.get_max_level(is_history=not with_headers)
        reads_every_header = with_headers or self.policy.every_header
        return self._fetch_from_any_endpoint(WindowRequest(blocks, reads_every_header, max_level))

    def fetch_history_window(self, blocks: BlockRange, endpoint_name: str) -> BlockWindow:
        """Fetch a verified window of final blocks from one endpoint.

        Raises:
            TransientError: the endpoint gives no complete and consistent answer.
        """
        request = WindowRequest(
            blocks, self.policy.every_header, self.policy.get_max_level(is_history=True)
        )
        return self._fetch_from_any_endpoint(request, only_endpoint=endpoint_name)

    def collect_facts(self) -> dict[str, dict[str, str]]:
        """Return the learned limits by endpoint name.

        Facts about the chain have the name "".
        """
        self._limit_store.restore_limits()
        return {"": self.calibration.collect_facts(), **self._limit_store.collect_facts()}

    def is_calibrated(self) -> bool:
        """Return whether there are enough samples to verify history."""
        is_wanted = self.policy.get_max_level(is_history=True) >= VerificationLevel.BLOOMED
        return not is_wanted or not self.calibration.needs_any_samples(
            self._verifier.sampler.features
        )

    def discard_stale_headers(self, latest_block: BlockRef) -> None:
        """Discard every endpoint's newest header unless its block is `latest_block`."""
        for endpoint in self._endpoints:
            endpoint.discard_newest_header(expected_hash=latest_block.hash)

    def fetch_head_window(self, endpoint: Endpoint, blocks: BlockRange) -> BlockWindow:
        """Fetch the window of these blocks, with headers, from this endpoint only.

        Raises:
            RpcError: the endpoint gives no complete and consistent answer.
        """
        request = WindowRequest(
            blocks, with_headers=True, max_level=self.policy.get_max_level(is_history=False)
        )
        return self._fetcher.fetch_window(endpoint, request)

    def fetch_verified_window(
        self,
        blocks: BlockRange,
        level: VerificationLevel,
        endpoint_name: str | None,
        excluded_endpoint: str | None,
    ) -> BlockWindow:
        """Fetch blocks again and verify them.

        See `ChainSource.fetch_verified_window`.
        """
        max_level = min(level, VerificationLevel.PROVEN)
        first_range = self.limit_range_to_one_fetch(blocks, level)
        request = WindowRequest(
            first_range,
            max_level >= VerificationLevel.PINNED,
            max_level,
            proves_all_blocks=max_level >= VerificationLevel.PROVEN,
        )
        quorum = self._endpoints.witness_quorum
        excluded_endpoints = (
            frozenset()
            if excluded_endpoint is None
            else quorum.list_endpoints_of_same_witness(excluded_endpoint)
        )
        return self._fetch_from_any_endpoint(
            request, only_endpoint=endpoint_name, excluded_endpoints=excluded_endpoints
        )

    def limit_range_to_one_fetch(self, blocks: BlockRange, level: VerificationLevel) -> BlockRange:
        """Return the first part of the range that a single fetch can verify.

        `fetch_verified_window` reads this part in one call.
        """
        if level < VerificationLevel.PINNED:
            return self.limit_range(blocks, with_headers=False)
        return blocks.take_first(MAX_BLOCKS_WITH_HEADERS)

    def get_max_allowed_level(self) -> VerificationLevel:
        """Return the highest level that the policy and the chain currently allow."""
        return self._verifier.get_max_allowed_level(self.policy.get_max_level(is_history=False))

    def get_reachable_level(self) -> VerificationLevel:
        """Return the highest level that the policy allows and the chain may reach later."""
        return self._verifier.get_reachable_level(self.policy.get_max_level(is_history=False))

    def get_history_level(self) -> VerificationLevel:
        """Return the level that every block of history currently reaches."""
        return self._verifier.get_history_level(self.policy.get_max_level(is_history=True))

    def find_level_shortfall(self) -> LevelShortfall | None:
        """Return why history cannot reach the configured level.

        The result is None if history reaches the level, or may reach it later.
        """
        wanted_level = self.policy.get_max_level(is_history=True)
        unsupported_features = self._verifier.find_unsupported_features(wanted_level)
        if not unsupported_features:
            return None
        lower_level = (
            VerificationLevel.PINNED if self.policy.every_header else VerificationLevel.SEAMED
        )
        if (
            wanted_level > VerificationLevel.BLOOMED
            and not self._verifier.find_unsupported_features(VerificationLevel.BLOOMED)
        ):
            lower_level = VerificationLevel.BLOOMED
        # Without valid header hashes, an endpoint can forge a header with any root.
        unproven_below = (
            VerificationLevel.AUDITED
            if HeaderFeature.HEADER in unsupported_features
            else wanted_level
        )
        return LevelShortfall(wanted_level, lower_level, unsupported_features, unproven_below)

    def calibrate(self) -> None:
        """Sample the chain's headers, unless there are enough or recent samples.

        Raises:
            TransientError: no endpoint returns its newest headers.
        """
        is_wanted = self.policy.get_max_level(is_history=True) >= VerificationLevel.BLOOMED
        if is_wanted and self.calibration.is_scan_due(self._verifier.sampler.features):
            self._endpoints.run_with_endpoint(self._fetcher.calibrate)

    def has_linked_headers(self, endpoint_name: str, blocks: BlockRange) -> bool:
        """Return whether an endpoint's headers for a range are linked and valid.

        A header is valid if it hashes to its block hash. The blocks directly before and after the
        range are included if the endpoint has them.

        Raises:
            RpcError: the endpoint does not answer.
        """
        extended_range = BlockRange(max(0, blocks.first - 1), blocks.last + 1)
        try:
            headers = self._endpoints.run_with_endpoint(
                lambda candidate: fetch_linked_headers(candidate, extended_range),
                only_endpoint=endpoint_name,
            )
        except RpcError as error:
            if error.kind is ErrorKind.INVALID:
                return False
            raise
        skips_hash_check = not self.calibration.is_proven(HeaderFeature.HEADER)
        return bool(headers) and (skips_hash_check or all(map(has_valid_hash, headers)))

    def _fetch_from_any_endpoint(
        self,
        request: WindowRequest,
        *,
        only_endpoint: str | None = None,
        excluded_endpoints: Collection[str] = (),
    ) -> BlockWindow:
        self._limit_store.restore_limits()
        blocks = request.blocks
        is_single_endpoint = (
            only_endpoint is not None or len(self._endpoints) - len(excluded_endpoints) <= 1
        )
        request = replace(request, divides_unknown=is_single_endpoint)
        for _ in range(_MAX_ROUNDS - 1):
            errors: list[RpcError] = []
            demotions_before = self.calibration.demotion_count
            try:
                window = self._endpoints.run_with_endpoint(
                    partial(self._fetch_from_endpoint, request=request, errors=errors),
                    only_endpoint=only_endpoint,
                    avoided_endpoints=excluded_endpoints,
                )
                return self._record_fetched_window(window, _select_contradictions(errors))
            except CalibrationUndecidedError as error:
                raise (
                    error
                    if only_endpoint or excluded_endpoints
                    else _build_undecided_refusal(error, blocks.first)
                ) from None
            except RpcError as error:
                contradictions = _select_contradictions(errors)
                self._mark_contradicted_features_unsupported(contradictions)
                if not request.divides_unknown and any(
                    failure.kind is ErrorKind.UNKNOWN for failure in errors
                ):
                    # No endpoint understood the request, but one may accept a smaller range.
                    request = replace(request, divides_unknown=True)
                elif demotions_before == self.calibration.demotion_count:
                    if only_endpoint or excluded_endpoints or not contradictions:
                        raise
                    raise _build_lowest_block_refusal(contradictions) from error
        return self._endpoints.run_with_endpoint(
            partial(self._fetch_from_endpoint, request=request, errors=[]),
            only_endpoint=only_endpoint,
            avoided_endpoints=excluded_endpoints,
        )

    def _fetch_from_endpoint(
        self, endpoint: Endpoint, *, request: WindowRequest, errors: list[RpcError]
    ) -> BlockWindow:
        """Fetch a window from this endpoint, and collect the error if this fails.

        The error is added to `errors` and raised.
        """
        try:
            return self._fetcher.fetch_window(endpoint, request)
        except RpcError as error:
            errors.append(error)
            if isinstance(error, ContradictionError):
                self._endpoints.deprioritise(endpoint, error.feature)
            elif isinstance(error, OmissionError):
                self._endpoints.deprioritise(endpoint, "logs")
            raise

    def _record_fetched_window(
        self, window: BlockWindow, contradictions: Sequence[ContradictionError]
    ) -> BlockWindow:
        if contradictions:
            self._misbehaviour_detector.recheck_contradictions(contradictions, window.endpoint)
        self._last_endpoint = self._endpoints.endpoint_list.get(window.endpoint)
        self._limit_store.store_limits(self._last_endpoint)
        return window

    def _can_prove_block(self, endpoint: Endpoint, number: int) -> bool:
        request = WindowRequest(
            BlockRange(number, number),
            with_headers=True,
            max_level=VerificationLevel.PROVEN,
            proves_all_blocks=True,
        )
        window = self._fetcher.fetch_window(endpoint, request)
        return window.level >= VerificationLevel.PROVEN and window.last.number == number

    def _mark_contradicted_features_unsupported(
        self, contradictions: Sequence[ContradictionError]
    ) -> None:
        """Mark an unproven feature as unsupported if all providers contradict it alike.

        A feature that blocks have proven stays proven, even if all providers contradict it.
        """
        providers_by_claim: dict[tuple[HeaderFeature, str, str], set[str]] = defaultdict(set)
        provider_by_endpoint = self._endpoints.providers()
        for error in contradictions:
            if not self.calibration.is_proven(error.feature):
                claim = error.feature, error.block_hash, error.computed_value
                providers_by_claim[claim].add(provider_by_endpoint[error.endpoint])
        all_providers = set(provider_by_endpoint.values())
        for (feature, block_hash, _), providers in providers_by_claim.items():
            if providers == all_providers and len(providers) > 1:
                self.calibration.mark_unsupported(
                    feature, f"all providers contradict it at {block_hash}"
                )

    def _fetch_logs_from_other_witness(
        self, excluded_endpoint: str, header: FullHeader
    ) -> list[Log] | None:
        for endpoint in self._iterate_proven_endpoints(
            self._endpoints.list_endpoints_of_other_witnesses(excluded_endpoint)
        ):
            try:
                logs = self._log_query.fetch_logs_by_block_hash(endpoint, [header.block])
            except RpcError:
                continue
            if logs is not None:
                return logs
        return None

    def _iterate_other_endpoints(self, excluded_endpoint: str) -> Iterator[Endpoint]:
        return self._iterate_proven_endpoints(
            self._endpoints.list_other_endpoints(excluded_endpoint)
        )

    def _iterate_proven_endpoints(self, endpoints: Iterable[Endpoint]) -> Iterator[Endpoint]:
        """Yield the endpoints that have been proven to serve the configured chain."""
        for endpoint in endpoints:
            try:
                self._endpoints.prove_chain(endpoint)
            except RpcError:
                continue
            yield endpoint

    def _find_other_providers(self, endpoint_to_exclude: Endpoint) -> set[str]:
        """Return the other providers with at least one endpoint that is not quarantined."""
        return {
            endpoint.provider
            for endpoint in self._endpoints
            if endpoint.provider != endpoint_to_exclude.provider
            and endpoint.status.quarantine_reason is None
        }


def _select_contradictions(errors: Sequence[RpcError]) -> list[ContradictionError]:
    return [error for error in errors if isinstance(error, ContradictionError)]


def _build_lowest_block_refusal(contradictions: Sequence[ContradictionError]) -> BlockRefusedError:
    """Return a refusal of the lowest block that contradicts its header."""
    lowest_contradiction = min(
        contradictions, key=lambda error: (error.number, error.feature, error.endpoint)
    )
    message = (
        f"{lowest_contradiction.endpoint}: {lowest_contradiction.detail}; no endpoint can prove "
        "the block"
    )
    block_hash = Hash(lowest_contradiction.block_hash)
    return BlockRefusedError(
        BlockRefusal(
            lowest_contradiction.number, block_hash, lowest_contradiction.feature, message
        ),
        {error.endpoint for error in contradictions},
    )


def _build_undecided_refusal(
    error: CalibrationUndecidedError, first_block: int
) -> BlockRefusedError:
    """Return a refusal of a window because another provider has not answered yet.

    The window starts at `first_block`. The window is refused until another provider answers.
    """
    block_hash = Hash(error.block_hash)
    return BlockRefusedError(BlockRefusal(first_block, block_hash, CALIBRATION_CHECK, str(error)))
