"""A worker's segment: the window that it read; a malformed segment is rejected."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, strategies as st

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.chain.segments.segment import (
    Segment,
    SegmentError,
    SegmentRefusal,
    WorkerObservations,
    build_segment,
    decode_answer,
    encode_answer,
)
from oracle.chain.segments.segment_request import SegmentRequest, WriterState
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, DeadLetter, Log

ORDER = SegmentRequest(b"plan", 3, 10, 19, "http://a", WriterState({}))
HASH = Hash("0x" + "11" * 32)
NODE = Address("0x" + "22" * 20)
LOGS = [Log(block, HASH, 5, 0, HASH, block, NODE, (HASH,), "0x01") for block in (10, 12, 19)]
CALL = Call(12, HASH, 5, 1, HASH, NODE, NODE, 2**200, "0x1234", succeeded=True)
DEAD = DeadLetter(19, HASH, 5, 0, 19, NODE, "TaskCreated", "too short")
WINDOW = BlockWindow(
    BlockRange(10, 19),
    HASH,
    BlockRef(19, HASH, HASH, 5),
    [],
    LOGS,
    [CALL],
    VerificationLevel.PROVEN,
    "http://a",
    (10, 12, 19),
    DecodedEvents([], [], [DEAD]),
)


def segment() -> Segment:
    assert WINDOW.decoded is not None
    return build_segment(ORDER, WINDOW, WINDOW.decoded, WorkerObservations(4, (), {}, 30, 0.5))


def test_decoded_segment_equals_original_window():
    answer = decode_answer(encode_answer(segment()), ORDER)

    assert isinstance(answer, Segment)
    assert answer.to_window() == WINDOW


@given(st.data())
def test_changed_byte_in_segment_is_detected(data: st.DataObject):
    given_bytes = bytearray(encode_answer(segment()))
    at = data.draw(st.integers(0, len(given_bytes) - 1))
    given_bytes[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(SegmentError):
        decode_answer(bytes(given_bytes), ORDER)


@given(st.integers(0, 400))
def test_truncated_segment_is_rejected(length: int):
    with pytest.raises(SegmentError):
        decode_answer(encode_answer(segment())[:length], ORDER)


@pytest.mark.parametrize(
    "order",
    [
        msgspec.structs.replace(ORDER, plan=b"another"),
        msgspec.structs.replace(ORDER, number=4),
        msgspec.structs.replace(ORDER, first=9),
        msgspec.structs.replace(ORDER, last=18),
    ],
    ids=["plan", "number", "first", "last"],
)
def test_segment_for_another_request_is_rejected(order: SegmentRequest):
    with pytest.raises(SegmentError):
        decode_answer(encode_answer(segment()), order)


@pytest.mark.parametrize(
    "logs",
    [[LOGS[1], LOGS[0]], [LOGS[0], LOGS[0]], [replace(LOGS[0], block=9)], [*LOGS, LOGS[0]]],
    ids=["order", "twice", "below", "again"],
)
def test_impossible_log_rows_are_rejected(logs: list[Log]):
    window = replace(WINDOW, logs=logs)
    assert window.decoded is not None
    packed = encode_answer(build_segment(ORDER, window, window.decoded, WorkerObservations()))

    with pytest.raises(SegmentError):
        decode_answer(packed, ORDER)


@pytest.mark.parametrize(
    "changed",
    [
        {"blocks": [(10, bytes(32), 5), (12, bytes(32), 5)]},
        {"blocks": [(number, bytes(32), 5) for number in (10, 12, 18, 19)]},
        {"sources": []},
        {"sources": [(NODE, str(HASH)), (NODE, "")]},
    ],
    ids=["a block is missing", "a block too many", "a source is missing", "a source too many"],
)
def test_log_rows_with_wrong_blocks_or_sources_are_rejected(changed: dict[str, object]):
    full_segment = segment()
    logs = msgspec.structs.replace(full_segment.logs, **changed)

    with pytest.raises(SegmentError, match="do not match its blocks and sources"):
        decode_answer(encode_answer(msgspec.structs.replace(full_segment, logs=logs)), ORDER)


def test_segment_refusal_round_trips():
    refusal = SegmentRefusal(
        b"plan", 3, "throttled", "asked us to wait", 2.5, WorkerObservations(1)
    )

    assert decode_answer(encode_answer(refusal), ORDER) == refusal
