"""Events are equal after encoding and decoding, and malformed bytes are rejected."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, strategies as st

from oracle.chain.segments.event_codec import EventRows, decode_events, encode_events
from oracle.domain.blocks import Position
from oracle.domain.events.network_events import DomainEvent, NodeJoined
from oracle.domain.events.oracle_events import ContractEvent, KickAccused
from oracle.domain.ids import Address, Hash
from tests.support import contract_histories
from tests.support.random_histories import any_histories

AT = Position(7, 1, 2)
NODE = Address("0x" + "ab" * 20)
JOINED = NodeJoined(AT, 12, NODE, stake=400 * 10**18)


def encode_and_decode(events: "list[DomainEvent | ContractEvent]") -> object:
    sent = msgspec.msgpack.encode(encode_events(events))
    return decode_events(msgspec.msgpack.decode(sent, type=EventRows))


@given(any_histories(max_size=30))
def test_event_history_round_trips(history: list[DomainEvent]):
    assert encode_and_decode([*history]) == history


@pytest.mark.parametrize("amount", [0, 1, 2**63, 2**64, 2**256 - 1, None])
def test_arbitrarily_large_amounts_round_trip(amount: int | None):
    event = replace(JOINED, stake=amount)

    assert encode_and_decode([event]) == [event]


@given(contract_histories.contract_histories())
def test_contract_events_round_trip(history: list[ContractEvent]):
    highest_bits = contract_histories.build_accepted_round(1, bitmap=2**256 - 1)

    assert encode_and_decode([*history, highest_bits]) == [*history, highest_bits]


def test_out_of_range_number_raises_overflow_error():
    event = KickAccused(AT, 1, NODE, 2**70, 1, Hash("0x" + "00" * 32), 2)

    with pytest.raises(OverflowError):
        encode_events([event])


def shorten_first_column(columns: msgspec.Raw) -> msgspec.Raw:
    """Return the columns, of which the first has one entry less."""
    first, *other_columns = msgspec.msgpack.decode(columns)
    return msgspec.Raw(msgspec.msgpack.encode([first[1:], *other_columns]))


@given(st.sampled_from(["fewer", "more", "unknown", "mixed", "ragged"]))
def test_malformed_event_rows_are_rejected(fault: str):
    rows = encode_events([JOINED, JOINED])
    (number,) = rows.columns_by_class
    wrong = {
        "fewer": EventRows(rows.class_numbers * 2, rows.columns_by_class),
        "more": EventRows(rows.class_numbers[:1], rows.columns_by_class),
        "unknown": EventRows(rows.class_numbers, {200: rows.columns_by_class[number]}),
        "ragged": EventRows(
            rows.class_numbers, {number: shorten_first_column(rows.columns_by_class[number])}
        ),
        "mixed": EventRows(bytes([number + 1] * 2), {number + 1: rows.columns_by_class[number]}),
    }[fault]

    with pytest.raises(ValueError, match=r"."):
        decode_events(wrong)
