"""Shared code of the window tests: a busy chain, the requests, and the metrics."""

from collections.abc import Callable
from typing import Any

from devnet.fakechain.block_json import Block, FakeLog
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults.message_faults import ErrorMessage, build_error_fault
from devnet.fakechain.provider import Provider
from oracle.chain.source import ChainSource
from oracle.chain.verification.calibration import REQUIRED_SAMPLES
from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Log
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.event_encoding import encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer


def add_busy_blocks(fake_chain: FakeChain) -> FakeChain:
    """Add enough blocks with logs to prove the chain's blooms and roots."""
    for number in range(2 * REQUIRED_SAMPLES):
        fake_chain.emit(encode_task_created_log(1_000 + number))
    fake_chain.mine_empty(FINALITY + 2)
    return fake_chain


def build_logs(number: int) -> list[FakeLog]:
    return [encode_task_created_log(task_number) for task_number in range(number)]


def list_log_ranges(provider: Provider) -> list[tuple[int, int]]:
    """Return every range of logs that was requested from the endpoint.

    Requests by hash do not count.
    """
    return [
        request.block_range
        for request in provider.received_requests
        if request.method == "eth_getLogs" and not request.is_by_block_hash and request.block_range
    ]


def fetch_all_logs(source: ChainSource, first: int, last: int) -> list[Log]:
    """Return all logs of final blocks, window by window."""
    logs: list[Log] = []
    while first <= last:
        window = source.fetch_window(BlockRange(first, last), with_headers=False)
        logs += window.logs
        first = window.range.last + 1
    return logs


def reject_block_hash_filters() -> InjectedFault:
    """Return a fault that rejects log requests by block hash."""
    error = ErrorMessage(-32602, "invalid argument 0: unknown field blockHash")
    return build_error_fault(
        error, when=lambda request: request.method == "eth_getLogs" and request.is_by_block_hash
    )


def reject_receipts() -> InjectedFault:
    """Return a fault that rejects receipts, both of blocks and of transactions."""
    error = ErrorMessage(-32601, "the method does not exist")
    return build_error_fault(error, methods=("eth_getBlockReceipts", "eth_getTransactionReceipt"))


def add_fault(fake_chain: FakeChain, fault: InjectedFault, place: int = 0) -> InjectedFault:
    """Add a fault to the endpoint at index `place`, and return the fault."""
    fake_chain.providers[place].faults.append(fault)
    return fault


def build_log_matcher(at: Block, index: int = 0) -> Callable[[dict[str, Any]], bool]:
    return lambda log: log["blockHash"] == at.hash and log["logIndex"] == hex(index)


def count_missing_logs(indexer: Indexer, place: int = 0) -> float:
    """Return the number of logs that the endpoint at index `place` was found to omit."""
    name = indexer.source.list_endpoint_names()[place]
    return read_metric("oracle_verify_missing_logs_total", endpoint=name)


def count_failures(indexer: Indexer, check: str, place: int = 0) -> float:
    name = indexer.source.list_endpoint_names()[place]
    return read_metric("oracle_verify_failures_total", check=check, endpoint=name)


def read_feature_metric(feature: str) -> float:
    """Return the metric of a header feature: 1 proven, 0 unknown, -1 not usable."""
    return read_metric("oracle_chain_calibrated", feature=feature)
