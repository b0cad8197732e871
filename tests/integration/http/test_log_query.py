"""All logs of a range are fetched, whatever an endpoint rejects, truncates or omits."""

from typing import Any

import msgspec
import pytest

from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from tests.support.chain.fixtures import OpenSource, Serve
from tests.support.chain.memory_chain import MemoryChain, MemoryRpcError
from tests.support.chain.network_logs import get_task_created_log
from tests.support.chain.server import Http, Request, Served
from tests.support.chain.windows import (
    count_range_requests,
    fetch_all_windows,
    limit_block_count,
    list_chain_log_positions,
    list_log_positions,
)


@pytest.mark.parametrize("max_blocks", [1, 3, 7, 39])
def test_refused_range_is_split_until_accepted(
    served: Served, open_source: OpenSource, max_blocks: int
):
    served.faults.append(
        limit_block_count(max_blocks, -32005, "query returned more than 10000 results")
    )

    assert list_log_positions(
        fetch_all_windows(open_source(served), 0, 40)
    ) == list_chain_log_positions(served)


def test_range_is_split_after_an_unrecognised_error(served: Served, open_source: OpenSource):
    served.faults.append(limit_block_count(3, -32603, "内部错误"))

    assert list_log_positions(
        fetch_all_windows(open_source(served), 0, 40)
    ) == list_chain_log_positions(served)


def test_range_limit_from_an_error_message_is_used_immediately(
    served: Served, open_source: OpenSource
):
    served.faults.append(limit_block_count(10, -32602, "up to a 10 block range"))

    windows = fetch_all_windows(open_source(served), 0, 40)

    assert list_log_positions(windows) == list_chain_log_positions(served)
    # The rejected range, five accepted ones, and the halves of those four whose count might
    # be the endpoint's cap.
    assert count_range_requests(served) == 14


def too_much_in_seven(request: Request) -> None:
    """A fault: block 7 has more logs than a response may contain."""
    log_filter = request["params"][0] if request["method"] == "eth_getLogs" else {}
    if "fromBlock" in log_filter and int(log_filter["fromBlock"], 16) <= 7 <= int(
        log_filter["toBlock"], 16
    ):
        raise MemoryRpcError(-32005, "query returned more than 10000 results")


def test_oversized_block_is_read_from_its_receipts(served: Served, open_source: OpenSource):
    served.faults.append(too_much_in_seven)

    assert list_log_positions(
        fetch_all_windows(open_source(served), 0, 40)
    ) == list_chain_log_positions(served)


def test_oversized_block_without_receipts_is_not_skipped(served: Served, open_source: OpenSource):
    def no_receipts(request: Request) -> None:
        if "Receipt" in request["method"]:
            raise MemoryRpcError(-32601, "the method does not exist")

    served.faults += [too_much_in_seven, no_receipts]

    with pytest.raises(TransientError, match="too large: query returned more"):
        fetch_all_windows(open_source(served), 0, 40)


def test_null_receipts_are_not_treated_as_an_empty_block(served: Served, open_source: OpenSource):
    def null_receipts(request: Request) -> Http | None:
        if request["method"] != "eth_getBlockReceipts":
            return None
        return Http(body=b'{"id":%d,"result":null}' % request["id"])

    served.faults += [too_much_in_seven, null_receipts]

    with pytest.raises(TransientError, match="too large: query returned more"):
        fetch_all_windows(open_source(served), 0, 40)


def build_crowded_chain() -> MemoryChain:
    """Return two hundred logs in forty blocks."""
    chain = MemoryChain()
    for number in range(1, 41):
        chain.mine([get_task_created_log(number)] * 5)
    return chain


def test_silent_log_cap_at_round_number_is_detected(serve: Serve, open_source: OpenSource):
    served = serve(build_crowded_chain())
    answer = served.chain.answer

    def capped(method: str, params: Any) -> bytes:
        result = answer(method, params)
        if method != "eth_getLogs":
            return result
        return msgspec.json.encode(msgspec.json.decode(result)[:100])

    served.chain.answer = capped  # type: ignore[method-assign]  # the fault of this test

    assert list_log_positions(
        fetch_all_windows(open_source(served), 0, 40)
    ) == list_chain_log_positions(served)


def test_checking_a_suspected_log_cap_costs_two_requests(serve: Serve, open_source: OpenSource):
    """That no cap applied once implies nothing for other ranges."""
    served = serve(build_crowded_chain())
    source = open_source(served)

    first = source.fetch_window(BlockRange(1, 20), with_headers=False)
    request_count = count_range_requests(served)
    second = source.fetch_window(BlockRange(21, 40), with_headers=False)

    assert (len(first.logs), len(second.logs)) == (100, 100)
    assert request_count == 3
    assert count_range_requests(served) == 6


def test_truncated_response_splits_range(served: Served, open_source: OpenSource):
    def fault(request: Request) -> Http | None:
        if request["method"] != "eth_getLogs":
            return None
        log_filter = request["params"][0]
        if "blockHash" in log_filter:
            return None
        wide = int(log_filter["toBlock"], 16) - int(log_filter["fromBlock"], 16) > 20
        return Http(body=b'{"jsonrpc":"2.0","id":1,"result":[', promised=10_000) if wide else None

    served.faults.append(fault)

    assert list_log_positions(
        fetch_all_windows(open_source(served), 0, 40)
    ) == list_chain_log_positions(served)
