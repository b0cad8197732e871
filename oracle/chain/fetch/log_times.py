"""Sets the time of each log to the timestamp of its block header, and compares their hashes."""

from collections.abc import Iterable

from oracle.chain.log_filter import NO_TIME, UNKNOWN_TIME
from oracle.chain.verification.full_headers import FullHeader
from oracle.domain.logs import Log
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import WRONG_LOG_TIMES
from oracle.telemetry.logging_setup import RepeatedWarning

_TIMESTAMP_MISMATCH_WARNING = RepeatedWarning("log_timestamp_mismatch")


def set_log_times(endpoint: str, logs: Iterable[Log], headers: Iterable[FullHeader]) -> None:
    """Set each log's time to the timestamp of its block header, and compare the block hashes.

    The header's timestamp is used because all endpoints show it and it can be proven.

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
            hashes = f"logs {log.block_hash}, header {block.hash}"
            message = f"logs and header of block {log.block} have different hashes: {hashes}"
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
