"""Fetches and verifies one window from one endpoint (docs/explanation/verification.md).

There are two methods. A fetch by range reads only parent links and the headers of blocks with
logs, which is sufficient for the history of a chain whose headers cannot serve as proofs. A linked
fetch reads every header. It requests the logs of non-final blocks by block hash, and the logs of
history by range.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from oracle.chain.fetch.log_query import LogQuery, set_log_timestamps
from oracle.chain.fetch.skipped_heights import (
    check_endpoint_has_height,
    fetch_linked_headers_or_next,
)
from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.chain.verification.calibration import HeaderFeature
from oracle.chain.verification.full_headers import (
    FullHeader,
    fetch_full_headers,
    take_newest_header,
)
from oracle.chain.verification.transaction_check import SenderChecker, extract_watched_calls
from oracle.chain.verification.verifier import WindowVerifier
from oracle.chain.verification.window_check import VerifiedWindow
from oracle.chain.watched_calls import set_call_outcomes
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.learned_limits import (
    MAX_BLOCKS_WITH_HEADERS,
    MAX_LINKED_BLOCKS,
    SAMPLED_HEADERS,
)
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import VERIFIED_BLOCKS, WINDOW_BLOCKS
from oracle.telemetry.tracing import start_span


@dataclass(frozen=True, slots=True)
class BlockWindow:
    """The relevant logs and calls in a block range, as one endpoint returned them.

    Logs are in order of (block, index). `first_parent` is the parent hash of the first block,
    which links the window to the previous one. `headers` contains every block of the range, or is
    empty.
    """

    range: BlockRange
    first_parent: Hash
    last: BlockRef
    headers: list[BlockRef]
    logs: Sequence[Log]
    calls: list[Call]
    # The lowest verification level among the blocks.
    level: VerificationLevel = VerificationLevel.SEAMED
    # The displayed name of the endpoint that returned the window.
    endpoint: str = ""
    # The blocks whose logs and calls were proven, in order, even if `level` as a whole is lower.
    proven: tuple[int, ...] = ()
    # The decoded events of the logs and calls, or None before decoding.
    decoded: DecodedEvents | None = None


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """A request for a window of blocks.

    `max_level` is the highest verification level to reach. With `with_headers`, every header is
    fetched with its parent link, and logs are requested by block hash. With `proves_all_blocks`,
    every block is proven, not only blocks with logs or calls. With `divides_unknown`, smaller
    ranges are requested if the endpoint returns an unknown error.
    """

    blocks: BlockRange
    with_headers: bool
    max_level: VerificationLevel
    proves_all_blocks: bool = False
    divides_unknown: bool = True


@dataclass(frozen=True, slots=True)
class WindowFetcher:
    """Fetches windows of the logs and calls that one reader decodes."""

    reader: EventReader
    query: LogQuery
    verifier: WindowVerifier
    # This is called with an endpoint, the logs it returned, and the proven logs that replaced
    # them.
    check_repaired_logs: Callable[[Endpoint, Sequence[Log], Sequence[Log]], None]

    def fetch_window(self, endpoint: Endpoint, request: WindowRequest) -> BlockWindow:
        """Fetch the window of the requested blocks, or of the first part of their range.

        The window ends earlier if the chain has no blocks at the last heights, or if fewer headers
        fit into one batch. If the chain has no block at any of the heights, the window ends with
        the next block, which proves this.

        A fork between two requests is detected (docs/explanation/verification.md#l1). Either
        headers are read after the logs, or the logs are requested by block hash from an endpoint
        that returns an error for unknown blocks.

        Raises:
            RpcError: the endpoint gives no complete and consistent answer.
        """
        span_fields = {
            "endpoint": endpoint.name,
            "first": request.blocks.first,
            "last": request.blocks.last,
        }
        with start_span("fetch", **span_fields):
            check_endpoint_has_height(endpoint, request.blocks.last)
            if request.max_level >= VerificationLevel.BLOOMED:
                self.verifier.sampler.scan_chain_for_samples(endpoint)
            if request.with_headers or self.needs_all_headers(request.max_level):
                verified_window = self._fetch_linked_window(endpoint, request)
            else:
                verified_window = self._fetch_window_by_range(endpoint, request)
        with start_span("verify", **span_fields) as verify_span:
            window = self._verify_window(endpoint, request, verified_window)
            verify_span.record_result(
                {"level": window.level.name.lower(), "last_hash": window.last.hash}
            )
        return window

    def calibrate(self, endpoint: Endpoint) -> None:
        """Sample headers to find out which of their features are valid.

        This comes before the first window is read.

        Raises:
            RpcError: the endpoint does not return its newest headers.
        """
        check_endpoint_has_height(endpoint, 0)
        self.verifier.sampler.scan_chain_for_samples(endpoint)

    def needs_all_headers(self, max_level: VerificationLevel) -> bool:
        """Return whether every header is needed to verify history at this level.

        The result may change when the calibration changes.
        """
        return (
            bool(self.reader.selectors)
            or self.verifier.get_history_level(max_level) >= VerificationLevel.BLOOMED
        )

    def _fetch_window_by_range(self, endpoint: Endpoint, request: WindowRequest) -> VerifiedWindow:
        """Fetch logs by range, with only those headers that are needed for checks.

        Headers are needed to check links and logs. In a sample of windows, the logs of some blocks
        are also fetched by hash. If an endpoint was found to omit logs of a range, its logs are
        not requested by range any more.
        """
        blocks, limits = request.blocks, endpoint.limits
        if limits.omits_logs:
            return self._fetch_linked_window(endpoint, _limit_request_to_header_batch(request))
        logs = self.query.fetch_logs(
            endpoint, blocks, splits_on_unknown_error=request.divides_unknown
        )
        sampled_numbers = (
            select_heights_to_recheck(blocks, logs)
            if request.max_level and limits.should_sample_window()
            else set()
        )
        header_numbers = {blocks.first, blocks.last}
        is_checked = request.max_level >= VerificationLevel.SEAMED
        header_numbers |= {log.block for log in logs if is_checked or log.time < 0}
        if request.max_level >= VerificationLevel.PROVEN:
            header_numbers |= sample_heights(select_heights_before_logs(blocks, logs))
        header_numbers |= sampled_numbers
        headers = [
            header
            for header in fetch_full_headers(endpoint, sorted(header_numbers))
            if header is not None
        ]
        if len(headers) < len(header_numbers):
            # Either the endpoint lacks a block, or the chain has no block at the height. The
            # parent links show which.
            return self._fetch_linked_window(endpoint, _limit_request_to_header_batch(request))
        sampled_blocks = [
            header.block for header in headers if header.block.number in sampled_numbers
        ]
        set_log_timestamps(endpoint.name, logs, headers)
        if sampled_blocks and self.query.omits_logs_of_range(
            endpoint, blocks, sampled_blocks, logs
        ):
            return self._fetch_linked_window(endpoint, _limit_request_to_header_batch(request))
        return VerifiedWindow(
            endpoint,
            blocks,
            headers,
            logs,
            request.max_level,
            is_pinned=False,
            has_all_headers=len(headers) == len(blocks),
        )

    def _fetch_linked_window(self, endpoint: Endpoint, request: WindowRequest) -> VerifiedWindow:
        """Fetch all headers and logs, and the transactions if calls are watched."""
        max_blocks = (
            MAX_BLOCKS_WITH_HEADERS
            if request.with_headers or self.reader.selectors
            else MAX_LINKED_BLOCKS
        )
        first_block = request.blocks.first
        # Limit the range again. When its size was chosen, it may have been unknown that all
        # headers are needed.
        chain = self._fetch_header_chain(endpoint, request.blocks.take_first(max_blocks))
        last_block = chain[-1].block
        # The headers prove that the other heights have no block, so logs are only requested from
        # the first to the last block.
        blocks = BlockRange(chain[0].block.number, last_block.number)
        if not request.with_headers and self.verifier.can_read_receipts_only(
            endpoint, chain, request.max_level
        ):
            return VerifiedWindow(
                endpoint,
                BlockRange(first_block, last_block.number),
                chain,
                None,
                request.max_level,
                is_pinned=True,
                has_all_headers=True,
            )
        logs = None
        if request.with_headers or endpoint.limits.omits_logs:
            is_proven = (
                request.max_level >= VerificationLevel.PROVEN
                and self.verifier.calibration.is_proven(HeaderFeature.RECEIPTS)
            )
            block_refs = [header.block for header in chain]
            logs = self.query.fetch_logs_by_block_hash(
                endpoint, block_refs, is_proof_pending=is_proven
            )
        is_pinned = logs is not None
        if logs is None:
            logs = self.query.fetch_logs(
                endpoint, blocks, splits_on_unknown_error=request.divides_unknown
            )
        if not is_pinned or not self.query.rejects_unknown_blocks(endpoint):
            _check_block_unchanged(endpoint, last_block)
        return VerifiedWindow(
            endpoint,
            BlockRange(first_block, last_block.number),
            chain,
            logs,
            request.max_level,
            is_pinned,
            has_all_headers=True,
        )

    def _fetch_header_chain(self, endpoint: Endpoint, blocks: BlockRange) -> list[FullHeader]:
        """Fetch linked headers, or reuse the newest header if it is the only one needed."""
        with_transactions = bool(self.reader.selectors)
        newest_header = take_newest_header(endpoint)
        if (
            newest_header is not None
            and not with_transactions
            and blocks.first == blocks.last == newest_header.block.number
        ):
            return [newest_header]
        return fetch_linked_headers_or_next(
            endpoint, blocks, self.verifier.calibration, with_transactions=with_transactions
        )

    def _verify_window(
        self, endpoint: Endpoint, request: WindowRequest, verified_window: VerifiedWindow
    ) -> BlockWindow:
        set_log_timestamps(
            endpoint.name, verified_window.returned_logs or (), verified_window.headers
        )
        senders = SenderChecker(endpoint.name, self.verifier.calibration)
        verified_window.calls_by_block = self._extract_watched_calls(
            endpoint, verified_window, senders
        )
        verified_window.required_blocks = _select_blocks_to_prove(request, verified_window)
        self.verifier.verify_window(verified_window)
        logs = verified_window.returned_logs
        if logs is None or verified_window.is_repaired:
            logs = verified_window.collect_logs()
        calls = _resolve_watched_call_outcomes(verified_window)
        verified_window.mark_blocks_unproven(senders.unproven_blocks)
        if verified_window.returned_logs is None:
            # No logs were requested, so the duration must not affect the range limit for logs.
            endpoint.limits.range_sizer.record_response(verified_window.range, len(logs), 0.0)
        elif verified_window.is_repaired:
            self.check_repaired_logs(endpoint, verified_window.returned_logs, logs)
        window = BlockWindow(
            verified_window.range,
            verified_window.headers[0].block.parent_hash,
            verified_window.headers[-1].block,
            [header.block for header in verified_window.headers] if request.with_headers else [],
            logs,
            sorted(calls, key=lambda call: (call.block, call.tx)),
            verified_window.min_level
            if verified_window.has_all_headers
            else VerificationLevel.SEAMED,
            endpoint.name,
            verified_window.proven_blocks,
        )
        _count_verified_blocks(window, verified_window)
        return window

    def _extract_watched_calls(
        self, endpoint: Endpoint, verified_window: VerifiedWindow, senders: SenderChecker
    ) -> dict[int, list[Call]] | None:
        selectors = self.reader.selectors
        if not selectors:
            return None
        return extract_watched_calls(
            endpoint, verified_window.headers, selectors, senders.check_sender
        )


def _resolve_watched_call_outcomes(verified_window: VerifiedWindow) -> list[Call]:
    """Fetch whether each watched call succeeded, and return the calls in block order."""
    calls_by_block = verified_window.calls_by_block or {}
    calls = [call for number in sorted(calls_by_block) for call in calls_by_block[number]]
    set_call_outcomes(
        verified_window.endpoint,
        [call for call in calls if call.block not in verified_window.blocks_with_call_outcomes],
    )
    return calls


def _select_blocks_to_prove(
    request: WindowRequest, verified_window: VerifiedWindow
) -> Collection[int]:
    """Return the blocks to prove even if they have no logs or calls."""
    if request.proves_all_blocks:
        return {header.block.number for header in verified_window.headers}
    if request.with_headers or verified_window.returned_logs is None:
        return ()
    # Receipts of some blocks without logs are checked too, because an endpoint that has pruned old
    # blocks may return no logs for them.
    heights_without_logs = select_heights_before_logs(
        verified_window.range, verified_window.returned_logs
    )
    nonempty_blocks = [
        header.block.number for header in verified_window.headers if header.may_have_transactions
    ]
    return [number for number in nonempty_blocks if number in heights_without_logs][:1]


def _limit_request_to_header_batch(request: WindowRequest) -> WindowRequest:
    """Limit a request to the blocks whose headers fit into one batch."""
    return replace(request, blocks=request.blocks.take_first(MAX_BLOCKS_WITH_HEADERS))


def _check_block_unchanged(endpoint: Endpoint, expected_block: BlockRef) -> None:
    """Raise RpcError if a block's hash changed while its logs were read."""
    current_header = endpoint.get_header(expected_block.number)
    if current_header is None or current_header.hash != expected_block.hash:
        message = f"block {expected_block.number} changed while its logs were read"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)


def _count_verified_blocks(window: BlockWindow, verified_window: VerifiedWindow) -> None:
    WINDOW_BLOCKS.labels(window.endpoint).set(len(window.range))
    block_count_by_level = Counter(verified_window.level_by_block.values())
    block_count_by_level[VerificationLevel.SEAMED] += len(window.range) - len(
        verified_window.level_by_block
    )
    for level, block_count in block_count_by_level.items():
        VERIFIED_BLOCKS.labels(level.name.lower()).inc(block_count)


def select_heights_before_logs(blocks: BlockRange, logs: Sequence[Log]) -> range:
    """Return the heights before the first log.

    The endpoint may have pruned the blocks at these heights.
    """
    return range(blocks.first, logs[0].block if logs else blocks.last + 1)


def sample_heights(heights: range) -> set[int]:
    """Return a few evenly spaced heights.

    One of their blocks probably has transactions.
    """
    return set(heights[:: max(1, len(heights) // SAMPLED_HEADERS)])


def select_heights_to_recheck(blocks: BlockRange, logs: Sequence[Log]) -> set[int]:
    """Select the heights at which logs are fetched again as a check.

    Most of them are after the last log, because a truncated response lacks its end.
    """
    heights_after_logs = range(logs[-1].block + 1 if logs else blocks.first, blocks.last + 1)
    return sample_heights(heights_after_logs) | sample_heights(
        range(blocks.first, blocks.last + 1)
    )
