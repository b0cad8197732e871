"""All logs of a range come in, whatever an endpoint refuses, cuts off or keeps back."""

from typing import Any

import msgspec
import pytest

from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from tests.support.chain.fixtures import OpenSource, Serve
from tests.support.chain.memory_chain import MemoryChain, MemoryRpcError
from tests.support.chain.network_logs import usual
from tests.support.chain.server import Http, Request, Served
from tests.support.chain.windows import all_of, most_blocks, places, ranges_asked, whole


@pytest.mark.parametrize("most", [1, 3, 7, 39])
def test_a_range_that_is_refused_is_cut_until_it_is_taken(
    served: Served, open_source: OpenSource, most: int
):
    served.faults.append(most_blocks(most, -32005, "query returned more than 10000 results"))

    assert places(whole(open_source(served), 0, 40)) == all_of(served)


def test_an_error_without_a_name_is_cut_too(served: Served, open_source: OpenSource):
    served.faults.append(most_blocks(3, -32603, "内部错误"))

    assert places(whole(open_source(served), 0, 40)) == all_of(served)


def test_a_stated_limit_is_kept_at_once(served: Served, open_source: OpenSource):
    served.faults.append(most_blocks(10, -32602, "up to a 10 block range"))

    windows = whole(open_source(served), 0, 40)

    assert places(windows) == all_of(served)
    # The one that was refused, five that were not, and the halves of those four whose count might
    # have been the most that the endpoint gives.
    assert ranges_asked(served) == 14


def too_much_in_seven(request: Request) -> None:
    """A fault: block 7 has more logs than one answer may have."""
    asked = request["params"][0] if request["method"] == "eth_getLogs" else {}
    if "fromBlock" in asked and int(asked["fromBlock"], 16) <= 7 <= int(asked["toBlock"], 16):
        raise MemoryRpcError(-32005, "query returned more than 10000 results")


def test_one_block_that_is_too_much_comes_out_of_its_receipts(
    served: Served, open_source: OpenSource
):
    served.faults.append(too_much_in_seven)

    assert places(whole(open_source(served), 0, 40)) == all_of(served)


def test_a_block_that_nobody_gives_is_told_and_not_skipped(
    served: Served, open_source: OpenSource
):
    def no_receipts(request: Request) -> None:
        if "Receipt" in request["method"]:
            raise MemoryRpcError(-32601, "the method does not exist")

    served.faults += [too_much_in_seven, no_receipts]

    with pytest.raises(TransientError, match="too large: query returned more"):
        whole(open_source(served), 0, 40)


def test_receipts_that_are_null_are_no_empty_block(served: Served, open_source: OpenSource):
    def null_receipts(request: Request) -> Http | None:
        if request["method"] != "eth_getBlockReceipts":
            return None
        return Http(body=b'{"id":%d,"result":null}' % request["id"])

    served.faults += [too_much_in_seven, null_receipts]

    with pytest.raises(TransientError, match="too large: query returned more"):
        whole(open_source(served), 0, 40)


def crowded() -> MemoryChain:
    """Two hundred logs in forty blocks."""
    chain = MemoryChain()
    for number in range(1, 41):
        chain.mine([usual(number)] * 5)
    return chain


def test_an_endpoint_that_stops_at_a_round_number_is_found_out(
    serve: Serve, open_source: OpenSource
):
    served = serve(crowded())
    answer = served.chain.answer

    def capped(method: str, params: Any) -> bytes:
        result = answer(method, params)
        if method != "eth_getLogs":
            return result
        return msgspec.json.encode(msgspec.json.decode(result)[:100])

    served.chain.answer = capped  # type: ignore[method-assign]  # the fault of this test

    assert places(whole(open_source(served), 0, 40)) == all_of(served)


def test_a_count_that_may_be_a_limit_costs_two_questions_each_time(
    serve: Serve, open_source: OpenSource
):
    """That it was none once says nothing of other ranges."""
    served = serve(crowded())
    source = open_source(served)

    first = source.fetch_window(BlockRange(1, 20), with_headers=False)
    asked = ranges_asked(served)
    second = source.fetch_window(BlockRange(21, 40), with_headers=False)

    assert (len(first.logs), len(second.logs)) == (100, 100)
    assert asked == 3
    assert ranges_asked(served) == 6


def test_an_answer_cut_off_in_the_middle_is_asked_for_in_parts(
    served: Served, open_source: OpenSource
):
    def fault(request: Request) -> Http | None:
        if request["method"] != "eth_getLogs":
            return None
        asked = request["params"][0]
        if "blockHash" in asked:
            return None
        wide = int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) > 20
        return Http(body=b'{"jsonrpc":"2.0","id":1,"result":[', promised=10_000) if wide else None

    served.faults.append(fault)

    assert places(whole(open_source(served), 0, 40)) == all_of(served)
