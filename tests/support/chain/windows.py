"""Takes windows one after the other, and compares them with what is served."""

from typing import Any

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from tests.support.chain.memory_chain import MemoryRpcError
from tests.support.chain.server import Request, Served


def whole(source: ChainSource, first: int, last: int) -> list[BlockWindow]:
    """Every window from `first` to `last`."""
    windows = []
    while first <= last:
        windows.append(source.fetch_window(BlockRange(first, last), with_headers=False))
        first = windows[-1].range.last + 1
    return windows


def ranges_asked(served: Served) -> int:
    """How many ranges of logs were asked for; those by hash are a sample."""
    return sum(
        method == "eth_getLogs" and "fromBlock" in params[0] for method, params in served.asked
    )


def places(windows: list[BlockWindow]) -> list[tuple[int, int]]:
    return [(log.block, log.index) for window in windows for log in window.logs]


def all_of(served: Served) -> list[tuple[int, int]]:
    return [(b.number, n) for b in served.chain.blocks for n in range(len(b.logs))]


def most_blocks(max_blocks: int, code: int = -32000, message: str = "nope") -> Any:
    """A fault: no range of logs of more than this many blocks."""

    def fault(request: Request) -> None:
        if request["method"] == "eth_getLogs" and "blockHash" not in request["params"][0]:
            log_filter = request["params"][0]
            if int(log_filter["toBlock"], 16) - int(log_filter["fromBlock"], 16) >= max_blocks:
                raise MemoryRpcError(code, message)

    return fault
