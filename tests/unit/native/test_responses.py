"""The native code reads responses like the Python code, or rejects them."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from oracle.chain.log_filter import parse_logs_natively
from oracle.chain.proofs.receipts import ProvenReceipt
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.verification.receipt_fetch import prove_receipts_natively
from oracle.domain.logs import Log, SourceIndexes
from oracle.domain.native import Native
from tests.support.examples import examples
from tests.support.native.inputs import COUNTS, change_one_text, make_random_receipt
from tests.support.native.responses import (
    BLOCKS,
    FILTER,
    ReadLogs,
    compute_root,
    damage_response,
    list_headers,
    list_logs_and_parts,
    make_header,
    make_random_block_response,
    make_random_log_response,
    read_logs,
    read_receipts,
    rewrite_json,
    set_receipt_positions,
)

pytestmark = pytest.mark.usefixtures("native")
# Seeds instead of drawn values: a damaged response cannot be shrunk, and seeds are ten times as
# fast.
CHANCES = st.integers(0, 2**32).map(Random)


def prove(response: bytes, header: FullHeader) -> tuple[ReadLogs, bytes] | None:
    proven = prove_receipts_natively(response, header, FILTER, SourceIndexes())
    return None if proven is None else (list_logs_and_parts(proven.logs), proven.statuses)


def read(response: bytes) -> ReadLogs | None:
    logs = parse_logs_natively(response, BLOCKS, FILTER)
    return None if logs is None else list_logs_and_parts(logs)


@pytest.mark.parametrize("count", COUNTS)
def test_common_receipts_are_proven_natively(count: int):
    chance = Random(count)  # noqa: S311 - repeatable, no secret
    receipts = [make_random_receipt(chance) for _ in range(count)]
    set_receipt_positions(receipts)
    response = rewrite_json(chance, msgspec.json.encode(receipts))
    header = make_header(
        [receipt.transaction_hash for receipt in receipts], compute_root(receipts)
    )

    proven = prove(response, header)
    assert proven is not None
    assert proven == read_receipts(response, header)
    other_header = make_header([*header.decode_tx_hashes()], "0x" + 64 * "1")
    assert prove(response, other_header) is None


@examples(300)
@given(CHANCES)
def test_malformed_receipts_are_read_like_in_python_or_left_to_python(chance: Random):
    receipts = make_random_block_response(chance, is_small=True)
    original = [*receipts]
    for _ in range(chance.randrange(3)):
        change_one_text(chance, receipts)
    response = rewrite_json(chance, msgspec.json.encode(receipts))
    if chance.random() < 0.7:
        response = damage_response(chance, response)
    for header in list_headers(response, original):
        assert prove(response, header) in (None, read_receipts(response, header))


@pytest.mark.parametrize("seed", range(12))
def test_common_logs_are_decoded_natively(seed: int):
    chance = Random(seed)  # noqa: S311 - as above
    response = rewrite_json(chance, msgspec.json.encode(make_random_log_response(chance)))
    logs = read(response)
    in_python = read_logs(response)
    assert logs is not None
    assert in_python is not None
    assert logs == in_python
    # PostgreSQL's driver rejects a column with both bytes and bytearrays.
    for _, parts in (logs, in_python):
        assert {type(value) for part in parts for row in part.rows for value in row[3:]} <= {
            bytearray
        }


@examples(400)
@given(CHANCES)
def test_malformed_logs_are_read_like_in_python_or_left_to_python(chance: Random):
    response = rewrite_json(chance, msgspec.json.encode(make_random_log_response(chance)))
    for _ in range(chance.randrange(1, 3)):
        response = damage_response(chance, response)
    assert read(response) in (None, read_logs(response))


def a_response(**changes: Any) -> tuple[bytes, FullHeader]:
    """Return a response with one receipt, changed as given, and its header."""
    receipt = ProvenReceipt(
        "0x" + 64 * "1", "0x0", "0x5208", [], status="0x1", logs_bloom="0x" + 512 * "0"
    )
    decoded = msgspec.to_builtins([receipt])
    decoded[0].update(changes)
    return msgspec.json.encode(decoded), make_header(
        [receipt.transaction_hash], compute_root([receipt])
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"cumulativeGasUsed": "0X5208"},
        {"status": None},
        {"root": "0x" + 64 * "0"},
        {"contractAddress": "0x1"},
        {"gasUsed": 21_000},
        {"from": "\u00e9"},
        {"transactionHash": "0x" + 64 * "2"},
    ],
)
def test_native_code_leaves_unusual_receipts_to_python(changes: dict[str, object]):
    assert prove(*a_response()) is not None
    assert prove(*a_response(**changes)) is None


@pytest.mark.parametrize(
    ("log_filter", "error"),
    [
        ((("0x1",), ("0x" + 64 * "1",), (("", ""),)), "an address or topic"),
        ((("0x" + 40 * "1",), ("0x" + 64 * "1",), ()), "a pair for each address and topic"),
    ],
)
def test_malformed_filter_is_rejected(native: Native, log_filter: Any, error: str):
    with pytest.raises(ValueError, match=error):
        native.read_logs(b"[]", log_filter, 0, 9, (Log, {}, [], []))
