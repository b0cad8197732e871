"""What vendors say when they refuse, and what we make of it.

See docs/reference/rpc-requirements.md#errors-when-reading.
"""

import pytest

from oracle.rpc.error_kinds import ErrorKind, blocks_in, is_throttled_page, kind_of, range_in

# Code, words, kind. Who says so stands behind.
SAID = [
    (-32005, "daily request count exceeded, request rate limited", ErrorKind.THROTTLED),  # Infura
    (-32007, "50/second request limit reached - reduce calls per second", ErrorKind.THROTTLED),
    (
        -32090,
        "Too many requests, reason: call rate limit exhausted, retry in 10s",
        ErrorKind.THROTTLED,
    ),
    (429, "Your app has exceeded its compute units per second capacity", ErrorKind.THROTTLED),
    (-32012, "credits quota exceeded", ErrorKind.THROTTLED),
    (-32029, "", ErrorKind.THROTTLED),
    (-32005, "query returned more than 10000 results", ErrorKind.TOO_LARGE),  # Infura
    (-32005, "", ErrorKind.TOO_LARGE),
    (-32602, "Log response size exceeded. You can make eth_getLogs requests", ErrorKind.TOO_LARGE),
    (
        -32000,
        "query exceeds max results 20000, retry with the range 1-5",
        ErrorKind.TOO_LARGE,
    ),  # reth
    (-32000, "exceed maximum block range: 5000", ErrorKind.TOO_LARGE),  # BNB Chain
    (
        -32000,
        "requested too many blocks from 1 to 5001, maximum is set to 2048",
        ErrorKind.TOO_LARGE,
    ),
    (-32000, "eth_getLogs is limited to a 10,000 range", ErrorKind.TOO_LARGE),  # QuickNode
    (
        -32602,
        "ranges over 10000 blocks are not supported on freetier",
        ErrorKind.TOO_LARGE,
    ),  # dRPC
    (-32000, "block range is too wide", ErrorKind.TOO_LARGE),  # Ankr
    (-32000, "Block range is too large", ErrorKind.TOO_LARGE),  # Polygon
    (-32000, "exceeds the range allowed for your plan (5000 > 1000).", ErrorKind.TOO_LARGE),
    (-32000, "Too many logs requested. Max logs per response is 20000.", ErrorKind.TOO_LARGE),
    (-32000, "logs matched by query exceeds limit of 10000", ErrorKind.TOO_LARGE),  # Arbitrum
    (-32008, "Response is too big", ErrorKind.TOO_LARGE),
    (-32020, "backend response too large", ErrorKind.TOO_LARGE),  # OP's proxyd
    (-32000, "query timeout exceeded", ErrorKind.SLOW),
    (-32000, "execution aborted (timeout = 5s)", ErrorKind.SLOW),
    (-32603, "canceling statement due to statement timeout", ErrorKind.SLOW),
    (-32000, "context deadline exceeded", ErrorKind.SLOW),
    (-32000, "cannot query unfinalized data", ErrorKind.NOT_THERE),  # Avalanche
    (-32000, "requested to block 9 after last accepted block 8", ErrorKind.NOT_THERE),
    (-32602, "BlockOutOfRangeError: block height is 3 but requested was 80", ErrorKind.NOT_THERE),
    (-32000, "block is out of range", ErrorKind.NOT_THERE),  # Avalanche
    (
        -32602,
        "Received invalid block tag 9. blockHash cannot be found",
        ErrorKind.NOT_THERE,
    ),  # Hardhat
    (-32001, "Resource not found", ErrorKind.NOT_THERE),
    (4444, "pruned history unavailable", ErrorKind.PRUNED),  # geth
    (-32000, "old data not available due to pruning", ErrorKind.PRUNED),  # Erigon
    (-32000, "missing trie node d3f4 (path )", ErrorKind.PRUNED),
    (
        -32601,
        "the method eth_getBlockReceipts does not exist/is not available",
        ErrorKind.UNSUPPORTED,
    ),
    (-32004, "Method eth_getBlockReceipts is not supported", ErrorKind.UNSUPPORTED),  # Hardhat
    (-32099, "请求失败", ErrorKind.UNKNOWN),
    (-32000, "internal error", ErrorKind.UNKNOWN),
]


@pytest.mark.parametrize(("code", "words", "kind"), SAID)
def test_words_have_a_kind(code: int, words: str, kind: ErrorKind):
    assert kind_of(code, words) is kind


@pytest.mark.parametrize(
    ("words", "blocks"),
    [
        ("eth_getLogs is limited to a 10,000 range", 10_000),
        ("eth_getLogs is limited to 0 - 2000 blocks range", 2_000),
        ("You can make eth_getLogs requests with up to a 500 block range", 500),
        ("with up to a 2K block range and no limit on the response size", 2_000),
        ("exceed maximum block range: 5000", 5_000),
        ("Max range: 1000", 1_000),
        ("maximum allowed is 3500", 3_500),
        ("requested too many blocks from 1 to 5001, maximum is set to 2048", 2_048),
        ("exceed max block range, = 100", 100),
        ("block range is too large, at most 800 blocks", 800),
        ("exceeds the range allowed for your plan (5000 > 1000)", 1_000),
        ("max blocks distance: 300", 300),
        ("ranges over 10000 blocks are not supported", 10_000),
        ("block range is too large, max is 1k", 1_000),
        ("query returned more than 10000 results", None),
        ("blocks distance: 0", None),
        ("block range is too wide", None),
    ],
)
def test_a_stated_limit_of_blocks_is_read(words: str, blocks: int | None):
    assert blocks_in(words) == blocks


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (
            "query exceeds max results 20000, retry with the range 24383075-24383078",
            (24383075, 24383078),
        ),
        ("Try with this block range [0x3E8, 0x7d0].", (1_000, 2_000)),
        ("this block range should work: [0x0, 0x3e7]", (0, 999)),
        # Nonsense is handed on as it is: whoever asked knows what it asked for.
        ("retry with the range 20-10", (20, 10)),
        ("query returned more than 10000 results", None),
    ],
)
def test_a_suggested_range_is_read_as_it_is_written(words: str, suggested: object):
    assert range_in(words) == suggested


def test_a_page_that_asks_to_wait_is_told_from_any_other():
    assert is_throttled_page(b"<h1>429 Too Many Requests</h1>")
    assert is_throttled_page(b'{"message":"API rate limit exceeded"}')
    assert not is_throttled_page(b"<h1>502 Bad Gateway</h1>")
    assert not is_throttled_page(b"\xff\xfe")
