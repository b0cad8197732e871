"""Windows of a served chain: complete, in order and from one view, or not at all."""

from itertools import pairwise
from threading import Lock

import pytest

from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from tests.support.chain.fixtures import OpenSource, Serve
from tests.support.chain.memory_chain import Fork, MemoryChain, MemoryRpcError
from tests.support.chain.network_logs import encode_task_created_log, get_task_created_log
from tests.support.chain.server import Http, Request, Served
from tests.support.chain.windows import (
    fetch_all_windows,
    limit_block_count,
    list_chain_log_positions,
    list_log_positions,
)


def test_window_contains_logs_and_parent_link(served: Served, open_source: OpenSource):
    window = open_source(served).fetch_window(BlockRange(5, 9), with_headers=False)

    blocks = served.chain.blocks
    assert window.range == BlockRange(5, 9)
    assert window.first_parent == blocks[4].hash
    assert (window.last.number, window.last.hash) == (9, blocks[9].hash)
    assert list_log_positions([window]) == [(n, place) for n in range(5, 10) for place in (0, 1)]
    assert window.headers == []


def test_window_with_headers_contains_every_linked_header(served: Served, open_source: OpenSource):
    window = open_source(served).fetch_window(BlockRange(5, 9), with_headers=True)

    assert [header.hash for header in window.headers] == [
        block.hash for block in served.chain.blocks[5:10]
    ]
    assert window.headers[-1] == window.last


def much_then_little(served: Served, open_source: OpenSource) -> ChainSource:
    """Return a chain of which all blocks but the last were read:
    the last one has far fewer logs.
    """
    served.chain.mine([get_task_created_log(number) for number in range(5)])
    served.chain.mine([get_task_created_log(5)])
    source = open_source(served)
    source.fetch_window(BlockRange(41, 41), with_headers=True)
    return source


def test_single_block_at_head_costs_one_request(served: Served, open_source: OpenSource):
    """Its header was returned by the poll of the head."""
    source = much_then_little(served, open_source)
    source.fetch_heads()
    before = len(served.received_requests)

    source.fetch_window(BlockRange(42, 42), with_headers=True)

    assert [method for method, _ in served.received_requests[before:]] == ["eth_getLogs"]


def test_retry_at_the_head_reads_the_header_again(served: Served, open_source: OpenSource):
    source = much_then_little(served, open_source)
    source.fetch_heads()
    source.fetch_window(BlockRange(42, 42), with_headers=True)
    before = len(served.received_requests)

    source.fetch_window(BlockRange(42, 42), with_headers=True)

    assert [method for method, _ in served.received_requests[before:]] == [
        "eth_getBlockByNumber",
        "eth_getLogs",
    ]


def test_blocks_above_the_endpoint_head_are_not_read_as_empty(
    served: Served, open_source: OpenSource
):
    """The endpoint would return [] for blocks above its head."""
    with pytest.raises(TransientError, match="is at block 40, below the requested block 50"):
        open_source(served).fetch_window(BlockRange(35, 50), with_headers=False)


def test_lagging_endpoint_is_skipped(serve: Serve, open_source: OpenSource, served: Served):
    lagging = MemoryChain()
    lagging.blocks = served.chain.blocks[:30]
    source = open_source(serve(lagging), served)

    window = source.fetch_window(BlockRange(25, 40), with_headers=True)

    assert list_log_positions([window]) == [
        place for place in list_chain_log_positions(served) if place[0] >= 25
    ]


def test_second_endpoint_continues_after_the_first_fails(
    serve: Serve, open_source: OpenSource, served: Served
):
    dying = serve(served.chain)
    served.faults.append(limit_block_count(5, -32005, "up to a 5 block range"))
    source = open_source(dying, served)
    first = source.fetch_window(BlockRange(0, 10), with_headers=True)
    dying.faults.append(lambda _: Http(status=500))

    remaining_window = source.fetch_window(BlockRange(first.range.last + 1, 40), with_headers=True)

    assert remaining_window.first_parent == first.last.hash
    assert list_log_positions([first, remaining_window]) == list_chain_log_positions(served)


def test_logs_and_headers_of_different_forks_never_mix(served: Served, open_source: OpenSource):
    chain = served.chain

    def fork_in_between(request: Request) -> None:
        if request["method"] == "eth_getBlockByNumber" and served.count("eth_getLogs"):
            served.faults.clear()
            chain.cut(3, salt="other")
            for number in (38, 39, 40):
                chain.mine(
                    [encode_task_created_log(2 * number), encode_task_created_log(2 * number + 1)]
                )

    source = open_source(served)
    source.fetch_heads()
    served.faults.append(fork_in_between)
    # The contradiction is detected, and the window is read again from its first request.
    window = source.fetch_window(BlockRange(30, 40), with_headers=False)
    assert not served.faults
    assert {(log.block, log.block_hash) for log in window.logs} == {
        (number, chain.blocks[number].hash) for number in range(30, 41)
    }

    again = source.fetch_window(BlockRange(30, 40), with_headers=True)
    assert again.logs[-1].block_hash == chain.blocks[40].hash


@pytest.mark.parametrize("last", [40, 39], ids=["at the head", "below the head"])
@pytest.mark.parametrize("pins", [True, False], ids=["by hash", "by range"])
def test_fork_that_adds_logs_to_an_empty_block_is_detected(
    served: Served, open_source: OpenSource, last: int, *, pins: bool
):
    """No log of the old fork names a block that could be compared, because there is none."""
    chain = served.chain
    chain.cut(3, salt="empty")
    for _ in range(3):
        chain.mine()
    forks = True

    def fork_in_between(request: Request) -> None:
        nonlocal forks
        if forks and request["method"] == "eth_getLogs":
            if not pins and "blockHash" in request["params"][0]:
                raise MemoryRpcError(-32602, "missing value for required argument 0")
            forks = False
            chain.cut(3, salt="other")
            for number in (38, 39, 40):
                chain.mine(
                    [encode_task_created_log(2 * number), encode_task_created_log(2 * number + 1)]
                )

    source = open_source(served)
    source.fetch_heads()
    served.faults.append(fork_in_between)
    # The contradiction is detected, and the window is read again from its first request.
    window = source.fetch_window(BlockRange(38, last), with_headers=True)
    assert not forks
    assert {log.block_hash for log in window.logs} == {
        chain.blocks[number].hash for number in range(38, last + 1)
    }
    source.fetch_heads()
    again = source.fetch_window(BlockRange(38, last), with_headers=True)
    assert list_log_positions([again]) == [
        (n, place) for n in range(38, last + 1) for place in (0, 1)
    ]


def test_nonconsecutive_headers_are_rejected(served: Served, open_source: OpenSource):
    other_chain = MemoryChain(fork=Fork(salt="other"))
    for _ in range(40):
        other_chain.mine()
    served.chain.blocks[20] = other_chain.blocks[20]

    with pytest.raises(TransientError, match="does not follow"):
        open_source(served).fetch_headers(BlockRange(15, 25))


def test_log_times_are_taken_from_headers_when_missing(serve: Serve, open_source: OpenSource):
    chain = MemoryChain(fork=Fork(with_times=False))
    for number in range(1, 21):
        chain.mine([encode_task_created_log(number)] if number % 3 == 0 else [])

    window = open_source(serve(chain)).fetch_window(BlockRange(1, 20), with_headers=False)

    assert [log.time for log in window.logs] == [
        chain.blocks[number].time for number in range(3, 21, 3)
    ]


def test_prefetched_windows_are_contiguous(served: Served, open_source: OpenSource):
    served.faults.append(limit_block_count(4, -32602, "up to a 4 block range"))
    source = open_source(served)
    source.fetch_window(BlockRange(0, 40), with_headers=False)

    windows = fetch_all_windows(source, 0, 40)

    assert [window.range.first for window in windows] == [
        0,
        *[window.range.last + 1 for window in windows[:-1]],
    ]
    for before, after in pairwise(windows):
        assert after.first_parent == before.last.hash


def test_number_of_prefetched_windows_is_bounded(served: Served, open_source: OpenSource):
    served.faults.append(limit_block_count(1, -32602, "up to a 1 block range"))
    source = open_source(served)
    fetch_all_windows(source, 0, 3)
    lock = Lock()
    highest = 0

    def record_highest(request: Request) -> None:
        nonlocal highest
        if request["method"] == "eth_getLogs":
            with lock:
                log_filter = request["params"][0]
                highest = max(highest, int(log_filter.get("toBlock", "0x0"), 16))

    served.faults.append(record_highest)
    for number in range(4, 12):
        source.fetch_window(BlockRange(number, 40), with_headers=False)
        assert highest <= number + 4


def test_prefetch_failure_is_raised_when_its_window_is_fetched(
    served: Served, open_source: OpenSource
):
    served.faults.append(limit_block_count(4, -32602, "up to a 4 block range"))
    source = open_source(served)
    fetch_all_windows(source, 0, 7)
    broken = True

    def fault(request: Request) -> None:
        if broken and request["method"] == "eth_getLogs":
            log_filter = request["params"][0]
            if int(log_filter["fromBlock"], 16) <= 18 <= int(log_filter["toBlock"], 16):
                raise MemoryRpcError(-32000, "header not found")

    served.faults.append(fault)
    # The window of block 18 is already being fetched; earlier windows are served first.
    windows = [source.fetch_window(BlockRange(8, 40), with_headers=False)]
    windows += fetch_all_windows(source, windows[-1].range.last + 1, 15)
    with pytest.raises(TransientError, match="not there yet"):
        fetch_all_windows(source, windows[-1].range.last + 1, 40)

    broken = False
    windows += fetch_all_windows(source, windows[-1].range.last + 1, 40)
    assert list_log_positions(windows) == [
        place for place in list_chain_log_positions(served) if place[0] >= 8
    ]


def test_request_for_a_smaller_window_returns_the_prefetched_one(
    served: Served, open_source: OpenSource
):
    served.faults.append(limit_block_count(4, -32602, "up to a 4 block range"))
    source = open_source(served)
    fetch_all_windows(source, 0, 7)
    first = source.fetch_window(BlockRange(8, 40), with_headers=False).range

    after = source.fetch_window(
        BlockRange(first.last + 1, first.last + 2), with_headers=False
    ).range

    assert (len(first), len(after)) == (4, 4)


def test_rewinding_discards_prefetched_windows(served: Served, open_source: OpenSource):
    served.faults.append(limit_block_count(4, -32602, "up to a 4 block range"))
    source = open_source(served)
    fetch_all_windows(source, 0, 11)

    again = source.fetch_window(BlockRange(2, 40), with_headers=False)

    assert again.range.first == 2
    assert again.first_parent == served.chain.blocks[1].hash
