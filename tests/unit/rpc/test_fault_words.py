"""The table of providers' error messages: each entry is classified by its own example.

See docs/reference/rpc-requirements.md#errors-when-reading.
"""

from collections.abc import Mapping

import pytest

from oracle.rpc.error_kinds import ErrorKind
from oracle.rpc.provider_dialects import (
    DIALECTS,
    ProviderMessage,
    RefusedFeature,
    classify_error,
    is_batch_refusal,
    is_rate_limit_page,
    parse_max_blocks,
    parse_suggested_range,
)

VALUES: Mapping[str, object] = {
    "limit": 5_000,
    "first": 100,
    "last": 20_099,
    "half": 10_100,
    "hexes": "0x64, 0x2774",
    "asked": 20_000,
    "method": "eth_getBlockReceipts",
}


def name_of(row: ProviderMessage) -> str:
    return f"{row.provider} {row.code} {row.example[:30]}"


@pytest.mark.parametrize("row", DIALECTS, ids=name_of)
def test_example_error_message_is_classified_as_documented(row: ProviderMessage):
    message = row.example.format(**VALUES)

    assert classify_error(row.code, message) is row.kind
    assert classify_error(0, message) is (row.kind if row.pattern else ErrorKind.UNKNOWN)
    assert is_batch_refusal(message) is (row.refused_feature is RefusedFeature.BATCH)


@pytest.mark.parametrize("row", [row for row in DIALECTS if "{limit}" in row.example], ids=name_of)
def test_block_limit_in_example_message_is_parsed(row: ProviderMessage):
    message = row.example.format(**VALUES)

    stated = parse_max_blocks(message) if row.refused_feature is RefusedFeature.BLOCKS else None
    assert stated == (5_000 if row.refused_feature is RefusedFeature.BLOCKS else None)


@pytest.mark.parametrize(
    ("code", "message"),
    [(-32099, "请求失败"), (-32000, "internal error"), (0, ""), (-32603, "busy")],
)
def test_unrecognised_message_is_classified_as_unknown(code: int, message: str):
    assert classify_error(code, message) is ErrorKind.UNKNOWN


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
def test_block_limit_is_parsed_from_provider_message(words: str, blocks: int | None):
    assert parse_max_blocks(words) == blocks


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (
            "query exceeds max results 20000, retry with the range 24383075-24383078",
            (24383075, 24383078),
        ),
        ("Try with this block range [0x3E8, 0x7d0].", (1_000, 2_000)),
        ("this block range should work: [0x0, 0x3e7]", (0, 999)),
        # Invalid values are passed on unchanged; the caller knows what it requested.
        ("retry with the range 20-10", (20, 10)),
        ("query returned more than 10000 results", None),
    ],
)
def test_suggested_block_range_is_parsed(words: str, suggested: object):
    assert parse_suggested_range(words) == suggested


def test_rate_limit_page_is_recognised():
    assert is_rate_limit_page(b"<h1>429 Too Many Requests</h1>")
    assert is_rate_limit_page(b'{"message":"API rate limit exceeded"}')
    assert not is_rate_limit_page(b"<h1>502 Bad Gateway</h1>")
    assert not is_rate_limit_page(b"\xff\xfe")
