"""Fetches consecutive windows, and compares them with the served chain."""

from typing import Any

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from tests.support.chain.memory_chain import MemoryRpcError
from tests.support.chain.server import Request, Served


def fetch_all_windows(source: ChainSource, first: int, last: int) -> list[BlockWindow]:
    """Return all windows from `first` to `last`."""
    windows = []
    while first <= last:
        windows.append(source.fetch_window(BlockRange(first, last), with_headers=False))
        first = windows[-1].range.last + 1
    return windows


def count_range_requests(served: Served) -> int:
    """Return the number of log requests by range; requests by hash are only samples."""
    return sum(
        method == "eth_getLogs" and "fromBlock" in params[0]
        for method, params in served.received_requests
    )


def list_log_positions(windows: list[BlockWindow]) -> list[tuple[int, int]]:
    return [(log.block, log.index) for window in windows for log in window.logs]


def list_chain_log_positions(served: Served) -> list[tuple[int, int]]:
    return [(b.number, n) for b in served.chain.blocks for n in range(len(b.logs))]


def limit_block_count(max_blocks: int, code: int = -32000, message: str = "nope") -> Any:
    """Return a fault that rejects log requests over more than `max_blocks` blocks."""

    def fault(request: Request) -> None:
        if request["method"] == "eth_getLogs" and "blockHash" not in request["params"][0]:
            log_filter = request["params"][0]
            if int(log_filter["toBlock"], 16) - int(log_filter["fromBlock"], 16) >= max_blocks:
                raise MemoryRpcError(code, message)

    return fault
