"""Queries an endpoint until all logs are returned (docs/explanation/ingest.md#ranges).

If the endpoint refuses a range because of its size, the range is split, if necessary down to one
block. The logs of a single block that is still too large are read from its receipts, or requested
topic by topic. If the number of returned logs may be a silent limit of the endpoint, the halves of
the range, or the receipts of the block, are requested for comparison.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from oracle.chain.log_filter import (
    NO_TIME,
    UNKNOWN_TIME,
    LogFilter,
    parse_logs_natively,
    validate_logs,
)
from oracle.chain.verification.full_headers import FullHeader, fetch_required_headers
from oracle.chain.verification.receipt_fetch import fetch_receipts
from oracle.chain.verification.window_check import record_missing_logs
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.logs import Log, PackedLogs
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.responses import LogResponse
from oracle.rpc.rpc_errors import DIVISIBLE, ErrorKind, RpcError, RpcTimeoutError
from oracle.telemetry.indexer_metrics import (
    DUPLICATE_LOGS,
    LOGS_CUT_OFF,
    WINDOW_SPLITS,
    WRONG_LOG_TIMES,
)
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import RepeatedWarning

# The tick ends after this many timeouts of requests for one range. Errors in which the provider
# reports its own time limit do not count.
_MAX_TIMEOUTS = 2
# If a tick ended because of timeouts, a smaller range may be requested this many seconds later.
_RETRY_SECONDS = 1.0
# No block has this hash, so endpoints that detect unknown blocks return an error for it.
_UNKNOWN_BLOCK_HASH = "0x" + "1234abcd" * 8
# Endpoints that do not serve logs by block hash return these errors.
_NO_BLOCK_HASH_ERRORS = {ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN}
_TOO_LARGE_ERRORS = {ErrorKind.TOO_LARGE, ErrorKind.SLOW, ErrorKind.CUT}

_NO_REFUSAL = RpcError("", ErrorKind.UNKNOWN, "")


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Queries endpoints for the logs of one filter.

    `clock` counts seconds.
    """

    log_filter: LogFilter
    clock: Callable[[], float]

    def fetch_logs(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        *,
        splits_on_unknown_error: bool = True,
        max_timeouts: int = _MAX_TIMEOUTS,
    ) -> list[Log]:
        """Fetch the logs of these blocks, validated and in order.

        After an unknown error, the range is split only with `splits_on_unknown_error`, because
        another endpoint may understand the request. `max_timeouts` is the number of further
        requests that may time out.

        Raises:
            RpcError: the endpoint does not return even single blocks, or returns invalid logs.
        """
        limits = endpoint.limits
        try:
            logs = self._request_logs(endpoint, blocks)
        except RpcError as error:
            return self._fetch_logs_of_split_range(
                endpoint,
                blocks,
                error,
                splits_on_unknown_error=splits_on_unknown_error,
                max_timeouts=max_timeouts,
            )
        if not limits.may_be_truncated(len(logs)):
            return logs
        if len(blocks) == 1:
            return self._complete_logs_from_receipts(endpoint, blocks, logs)
        WINDOW_SPLITS.labels("may be cut off").inc()
        logs_of_halves = self._fetch_logs_in_chunks(
            endpoint,
            blocks,
            (len(blocks) + 1) // 2,
            splits_on_unknown_error=splits_on_unknown_error,
            max_timeouts=max_timeouts,
        )
        return self._select_more_complete_logs(endpoint, logs, logs_of_halves)

    def _fetch_logs_of_split_range(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        error: RpcError,
        *,
        splits_on_unknown_error: bool,
        max_timeouts: int,
    ) -> list[Log]:
        """Fetch the logs of a refused range in smaller ranges, or raise the original error."""
        max_timeouts -= isinstance(error, RpcTimeoutError)
        is_unknown = error.kind is ErrorKind.UNKNOWN
        if error.kind not in DIVISIBLE or (is_unknown and not splits_on_unknown_error):
            raise error
        if max_timeouts <= 0:
            if len(blocks) > 1:
                # The error is recorded so that the next tick starts with a smaller range.
                endpoint.limits.range_sizer.shrink_after_error(blocks, error)
                error.retry_after = _RETRY_SECONDS
            raise error
        if len(blocks) == 1:
            return self._fetch_single_block_logs(endpoint, blocks, error)
        WINDOW_SPLITS.labels(error.kind).inc()
        chunk_size = endpoint.limits.range_sizer.shrink_after_error(blocks, error)
        return self._fetch_logs_in_chunks(
            endpoint,
            blocks,
            chunk_size,
            splits_on_unknown_error=splits_on_unknown_error,
            max_timeouts=max_timeouts,
        )

    def fetch_logs_by_block_hash(
        self, endpoint: Endpoint, blocks: Sequence[BlockRef], *, is_proof_pending: bool = True
    ) -> list[Log] | None:
        """Fetch the logs of exactly these blocks, by block hash.

        The result is None if the endpoint cannot serve logs by hash. If the number of a block's
        logs may be a silent limit, the logs are compared with the receipts. With
        `is_proof_pending`, this is left out, because the receipts will be read anyway.

        Raises:
            RpcError: the endpoint does not know one of the blocks, or returns invalid logs.
        """
        limits = endpoint.limits
        if limits.serves_logs_by_hash is False:
            return None
        params = [self.log_filter.build_block_hash_params(block.hash) for block in blocks]
        try:
            responses = endpoint.client.call_batch("eth_getLogs", params, list[LogResponse])
        except RpcError as error:
            if error.kind not in _NO_BLOCK_HASH_ERRORS | _TOO_LARGE_ERRORS:
                raise
            # None is also returned if a block is too large, because the caller can then split the
            # range.
            if error.kind in _NO_BLOCK_HASH_ERRORS:
                limits.record_hash_query_failure()
            return None
        limits.serves_logs_by_hash = True
        logs: list[Log] = []
        for block, response in zip(blocks, responses, strict=True):
            block_logs = self._validate_block_logs(endpoint, block, response)
            if not is_proof_pending and limits.may_be_truncated(len(block_logs)):
                block_logs = self._complete_logs_from_receipts(
                    endpoint, BlockRange(block.number, block.number), block_logs
                )
            logs += block_logs
        return logs

    def _validate_block_logs(
        self, endpoint: Endpoint, block: BlockRef, response: list[LogResponse] | None
    ) -> list[Log]:
        if response is None:
            message = f"eth_getLogs returned null for block {block.number}"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
        logs = self._validate_logs(endpoint, response, BlockRange(block.number, block.number))
        if any(log.block_hash != block.hash for log in logs):
            message = f"logs of block {block.number} have another block hash than requested"
            raise RpcError(endpoint.name, ErrorKind.INVALID, message)
        return logs

    def omits_logs_of_range(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        sampled_blocks: Sequence[BlockRef],
        logs: Sequence[Log],
    ) -> bool:
        """Return whether a range query omits logs that are returned by block hash.

        The result is False if the endpoint does not serve logs by block hash.

        Raises:
            RpcError: the endpoint does not know one of the blocks, its chain has just changed, or
                it returns invalid logs.
        """
        sampled_logs = self.fetch_logs_by_block_hash(endpoint, sampled_blocks)
        if sampled_logs is None or not _find_missing_logs(sampled_logs, logs):
            return False
        # The whole range is requested again, because the first response may be from another fork.
        missing_logs = _find_missing_logs(sampled_logs, self._request_logs(endpoint, blocks))
        if not missing_logs:
            message = f"blocks {blocks.first} to {blocks.last} changed while their logs were read"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
        endpoint.limits.omits_logs = True
        self._record_missing_logs(endpoint, missing_logs, "read by range")
        return True

    def rejects_unknown_blocks(self, endpoint: Endpoint) -> bool:
        """Return whether the endpoint answers with an error for an unknown block.

        The request is sent only once.

        Raises:
            RpcError: the endpoint does not answer.
        """
        limits = endpoint.limits
        if limits.rejects_unknown_blocks is None:
            try:
                response = endpoint.client.call(
                    "eth_getLogs",
                    self.log_filter.build_block_hash_params(_UNKNOWN_BLOCK_HASH),
                    list[LogResponse],
                )
            except RpcError as error:
                if error.kind in {
                    ErrorKind.THROTTLED,
                    ErrorKind.UNREACHABLE,
                    ErrorKind.SLOW,
                    ErrorKind.CUT,
                }:
                    raise
                response = None
            limits.rejects_unknown_blocks = response is None
        return limits.rejects_unknown_blocks

    def _fetch_logs_in_chunks(
        self,
        endpoint: Endpoint,
        blocks: BlockRange,
        chunk_size: int,
        *,
        splits_on_unknown_error: bool,
        max_timeouts: int,
    ) -> list[Log]:
        return [
            log
            for chunk in blocks.iter_chunks(chunk_size)
            for log in self.fetch_logs(
                endpoint,
                chunk,
                splits_on_unknown_error=splits_on_unknown_error,
                max_timeouts=max_timeouts,
            )
        ]

    def _request_logs(
        self, endpoint: Endpoint, blocks: BlockRange, log_filter: LogFilter | None = None
    ) -> list[Log]:
        started_at = self.clock()
        log_filter = log_filter or self.log_filter
        responses = endpoint.client.call(
            "eth_getLogs",
            log_filter.build_range_params(blocks),
            list[LogResponse],
            read_raw=lambda _params, response: parse_logs_natively(response, blocks, log_filter),
        )
        if responses is None:
            raise RpcError(endpoint.name, ErrorKind.INVALID, "eth_getLogs returned null")
        sizer = endpoint.limits.range_sizer
        sizer.record_response(blocks, len(responses), self.clock() - started_at)
        if isinstance(responses, PackedLogs):
            return responses
        return self._validate_logs(endpoint, responses, blocks)

    def _complete_logs_from_receipts(
        self, endpoint: Endpoint, block: BlockRange, logs: list[Log]
    ) -> list[Log]:
        """Return the block's logs from receipts if these are more numerous than `logs`.

        Otherwise, the result is `logs`. The result is also `logs` if the endpoint serves no
        receipts; the block is then unproven.
        """
        try:
            receipt_logs = self._fetch_logs_from_receipts(endpoint, block, _NO_REFUSAL)
        except RpcError:
            return logs
        return self._select_more_complete_logs(endpoint, logs, receipt_logs)

    def _select_more_complete_logs(
        self, endpoint: Endpoint, logs: list[Log], second_logs: list[Log]
    ) -> list[Log]:
        """Return the longer of two log lists from the same query."""
        if len(second_logs) < len(logs):
            return logs
        missing_logs = _find_missing_logs(second_logs, logs)
        if missing_logs and endpoint.limits.record_truncation(len(logs)):
            self._record_missing_logs(endpoint, missing_logs, f"in a response of {len(logs)} logs")
        return second_logs

    def _record_missing_logs(
        self, endpoint: Endpoint, missing_logs: Sequence[Log], context: str
    ) -> None:
        LOGS_CUT_OFF.labels(endpoint.name).inc()
        record_missing_logs(endpoint.name, len(missing_logs))
        get_logger().warning(
            "endpoint_omitted_logs",
            endpoint=endpoint.name,
            missing=len(missing_logs),
            first_block=missing_logs[0].block,
            where=context,
        )

    def _fetch_single_block_logs(
        self, endpoint: Endpoint, block: BlockRange, original_error: RpcError
    ) -> list[Log]:
        """Fetch the logs of a block that has too many for one response.

        The logs are fetched from its receipts or by topic.
        """
        try:
            return self._fetch_logs_from_receipts(endpoint, block, original_error)
        except RpcError as error:
            if original_error.kind is not ErrorKind.TOO_LARGE:
                raise
            return self._fetch_logs_by_topic(endpoint, block, error)

    def _fetch_logs_by_topic(
        self, endpoint: Endpoint, block: BlockRange, original_error: RpcError
    ) -> list[Log]:
        """Fetch the logs of each topic separately, or raise the original error."""
        logs: list[Log] = []
        try:
            for topic in sorted(self.log_filter.topics):
                topic_filter = replace(self.log_filter, topics=frozenset({topic}))
                logs += self._request_logs(endpoint, block, topic_filter)
        except RpcError:
            raise original_error from None
        if len({log.block_hash for log in logs}) > 1:
            message = f"block {block.first} changed while its logs were read"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
        WINDOW_SPLITS.labels("by topic").inc()
        return sorted(logs, key=lambda log: log.index)

    def _fetch_logs_from_receipts(
        self, endpoint: Endpoint, block: BlockRange, original_error: RpcError
    ) -> list[Log]:
        """Fetch a block's logs from its receipts, if the endpoint serves receipts."""
        WINDOW_SPLITS.labels("one block").inc()
        try:
            header: FullHeader = fetch_required_headers(endpoint, [block.first])[block.first]
            ((_, block_receipts),) = fetch_receipts(endpoint, [header])
        except RpcError as error:
            # The original error is kept, because missing receipts say nothing about the logs.
            message = f"{original_error.detail}; its receipts are not available: {error.detail}"
            raise RpcError(endpoint.name, original_error.kind, message) from None
        responses = [
            log
            for receipt in block_receipts
            for log in receipt.logs
            if self.log_filter.matches(log)
        ]
        logs = self._validate_logs(endpoint, responses, block)
        if any(log.block_hash != header.block.hash for log in logs):
            message = f"receipts of block {block.first} have another block hash than its header"
            raise RpcError(endpoint.name, ErrorKind.INVALID, message)
        return logs

    def _validate_logs(
        self, endpoint: Endpoint, responses: list[LogResponse], blocks: BlockRange
    ) -> list[Log]:
        try:
            logs = validate_logs(responses, blocks, self.log_filter)
        except ValueError as error:
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"logs: {error}") from None
        if len(logs) < len(responses):
            DUPLICATE_LOGS.labels(endpoint.name).inc(len(responses) - len(logs))
        return logs


def _find_missing_logs(logs: Sequence[Log], present_logs: Sequence[Log]) -> list[Log]:
    """Return the logs that are not in `present_logs`."""
    present_keys = {(log.block_hash, log.index) for log in present_logs}
    return [log for log in logs if (log.block_hash, log.index) not in present_keys]


_TIMESTAMP_MISMATCH_WARNING = RepeatedWarning("log_timestamp_mismatch")


def set_log_timestamps(endpoint: str, logs: Iterable[Log], headers: Iterable[FullHeader]) -> None:
    """Set each log's time from its block header, and compare the block hashes.

    The timestamp of the header is used, because it can be proven and all endpoints return it.

    Raises:
        RpcError: a log and the header of its height have different block hashes.
    """
    block_by_number = {header.block.number: header.block for header in headers}
    mismatches: list[str] = []
    for log in logs:
        block = block_by_number.get(log.block)
        if block is None:
            continue
        if log.block_hash != block.hash:
            hashes_text = f"logs {log.block_hash}, header {block.hash}"
            message = f"logs and header of block {log.block} have different hashes: {hashes_text}"
            raise RpcError(endpoint, ErrorKind.INVALID, message)
        if log.time not in {UNKNOWN_TIME, block.time}:
            log_time = "no time" if log.time == NO_TIME else log.time
            mismatches.append(f"block {log.block}: logs {log_time}, header {block.time}")
        log.time = block.time
    if mismatches:
        WRONG_LOG_TIMES.labels(endpoint).inc(len(mismatches))
        _TIMESTAMP_MISMATCH_WARNING.warn(
            endpoint, "timestamps of logs differ from the timestamps of headers", mismatches[0]
        )
