"""Every entry of an eth_getLogs response is checked before use.

See docs/explanation/verification.md#l0.
"""

from typing import Any

import msgspec
import pytest

from oracle.chain.log_filter import NO_TIME, UNKNOWN_TIME, LogFilter, validate_logs
from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Address
from oracle.domain.logs import MAX_LOG_INDEX
from oracle.rpc.responses import LogResponse

ADDRESS = Address("0x" + "4e" * 20)
TOPIC = "0x" + "7a" * 32
LOG_FILTER = LogFilter(frozenset({ADDRESS}), frozenset({TOPIC}))
BLOCKS = BlockRange(5, 9)


def answer(**changed: Any) -> LogResponse:
    usual = {
        "address": ADDRESS,
        "topics": [TOPIC, "0x" + "01" * 32],
        "data": "0xab",
        "blockNumber": "0x7",
        "blockHash": "0x" + "07" * 32,
        "transactionHash": "0x" + "aa" * 32,
        "transactionIndex": "0x2",
        "logIndex": "0x3",
        "removed": False,
        "blockTimestamp": "0x64",
    }
    return msgspec.convert({**usual, **changed}, LogResponse)


def test_log_fields_are_copied_unchanged():
    (log,) = validate_logs([answer()], BLOCKS, LOG_FILTER)

    assert (log.block, log.tx, log.index, log.time) == (7, 2, 3, 100)
    assert (log.address, log.topics, log.data) == (ADDRESS, (TOPIC, "0x" + "01" * 32), "0xab")


def test_uppercase_hex_is_lowercased():
    capital = answer(
        address="0x" + "4E" * 20,
        topics=["0x" + "7A" * 32],
        data="0xAB",
        blockHash="0x" + "0A" * 32,
        transactionHash="0x" + "AA" * 32,
    )

    (log,) = validate_logs([capital], BLOCKS, LOG_FILTER)

    assert (log.address, log.topics, log.data) == (ADDRESS, (TOPIC,), "0xab")
    assert (log.block_hash, log.tx_hash) == ("0x" + "0a" * 32, "0x" + "aa" * 32)


def test_uppercase_address_matches_filter():
    (log,) = validate_logs([answer(address="0x" + "4E" * 20)], BLOCKS, LOG_FILTER)

    assert log.address == ADDRESS


def test_logs_are_sorted_by_index():
    shuffled = [answer(logIndex=hex(n)) for n in (11, 2, 7)]

    assert [log.index for log in validate_logs(shuffled, BLOCKS, LOG_FILTER)] == [2, 7, 11]


def test_max_log_index_is_accepted():
    (log,) = validate_logs([answer(logIndex="0xffffff")], BLOCKS, LOG_FILTER)

    assert log.index == MAX_LOG_INDEX


def test_duplicate_log_is_dropped():
    assert len(validate_logs([answer(), answer()], BLOCKS, LOG_FILTER)) == 1


def test_log_without_timestamp_has_unknown_time():
    (log,) = validate_logs([answer(blockTimestamp=None)], BLOCKS, LOG_FILTER)

    assert log.time == UNKNOWN_TIME


OTHER_HASH = "0x" + "bb" * 32


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([answer(blockNumber="0x4")], "outside"),
        ([answer(blockNumber="0xa")], "outside"),
        ([answer(address="0x" + "00" * 20)], "does not match the filter"),
        ([answer(topics=[OTHER_HASH])], "does not match the filter"),
        ([answer(topics=[])], "without topics"),
        ([answer(removed=True)], "removed"),
        ([answer(data="0xabc")], "odd number of hex digits"),
        ([answer(data="0xgg")], "not hex"),
        ([answer(data="abab")], "not hex"),
        ([answer(transactionHash="0x" + "zz" * 32)], "not hex"),
        ([answer(logIndex="0xx")], "invalid literal"),
        ([answer(logIndex="0x1000000")], "index is out of range"),
        ([answer(transactionIndex="0x1000000")], "index is out of range"),
        ([answer(), answer(data="0xcd")], "two different logs"),
        ([answer(), answer(logIndex="0x4", blockHash=OTHER_HASH)], "have two block hashes"),
    ],
)
def test_invalid_logs_are_rejected(answers: list[LogResponse], reason: str):
    with pytest.raises(ValueError, match=reason):
        validate_logs(answers, BLOCKS, LOG_FILTER)


@pytest.mark.parametrize(
    "changed",
    [
        {"blockHash": None},
        {"blockNumber": None},
        {"logIndex": None},
        {"address": "0x4e"},
        {"topics": ["0x7a"]},
        {"topics": [TOPIC] * 5},
        {"transactionHash": "0x"},
    ],
)
def test_pending_or_malformed_log_fails_validation(changed: dict[str, Any]):
    with pytest.raises(msgspec.ValidationError):
        answer(**changed)


@pytest.mark.parametrize("written", ["0x0", "0x18bcfe56800", "1700000000", 1_700_000_000, "", {}])
def test_log_with_invalid_block_timestamp_has_unknown_time(written: object):
    (log,) = validate_logs([answer(blockTimestamp=written)], BLOCKS, LOG_FILTER)

    assert log.time == NO_TIME


def test_conflicting_block_timestamps_are_treated_as_unknown():
    logs = validate_logs(
        [answer(), answer(logIndex="0x4", blockTimestamp="0x65")], BLOCKS, LOG_FILTER
    )

    assert [log.time for log in logs] == [100, NO_TIME]
