"""Times in milliseconds, in the file format and in the events of other contracts."""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.jsonl import event_to_json, parse_event, parse_task_request
from oracle.domain.events.network_events import TYPE_BY_NAME, TaskQueued
from tests.support.histories import make_task_key

TASK = make_task_key("1")
QUEUED = f'{{"type":"task_queued","block":5,"log":0,"time":7,"time_ms":%s,"task":"{TASK}"}}'


@given(time=st.integers(0, 2**40), rest=st.none() | st.integers(0, 999))
def test_time_in_milliseconds_round_trips_and_is_optional(time, rest):
    time_ms = None if rest is None else time * 1000 + rest
    event = TaskQueued(at=Position(5, 0, 0), time=time, task=make_task_key("1"), time_ms=time_ms)
    line = event_to_json(event)
    assert parse_event(line) == event
    assert ("time_ms" in line) == (rest is not None)
    assert event.timestamp_ms == time * 1000 + (rest or 0)


@pytest.mark.parametrize("kind", TYPE_BY_NAME.values(), ids=TYPE_BY_NAME)
def test_time_ms_defaults_to_none_for_every_event(kind):
    assert kind.__dataclass_fields__["time_ms"].default is None


@pytest.mark.parametrize("other", [6999, 8000, 0])
def test_time_ms_outside_block_second_is_rejected(other):
    with pytest.raises(ValueError, match=f"^time_ms: {other} is not within the second"):
        parse_event(QUEUED % other)


@pytest.mark.parametrize("wrong", ["7000.5", '"7000"', "true", "-1"])
def test_malformed_milliseconds_are_rejected(wrong):
    with pytest.raises(ValueError, match=r"^time_ms: must be a whole number"):
        parse_event(QUEUED % wrong)


def test_task_request_accepts_time_ms_only_with_matching_time():
    assert parse_task_request('{"time":7,"time_ms":7250}').time_ms == 7250
    with pytest.raises(ValueError, match="time_ms: 7250"):
        parse_task_request('{"time_ms":7250}')
