"""The file format of events: strict when it is read, and written in a single form.

See docs/reference/events-and-jsonl.md#the-file-format.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events import network_events
from oracle.domain.events.event_fields import TimedEvent, get_field_kinds
from oracle.domain.events.jsonl import (
    OutOfOrderError,
    event_to_json,
    iter_ordered_events,
    parse_event,
    parse_events,
)
from oracle.domain.events.network_events import (
    NAME_BY_TYPE,
    AbortReason,
    DomainEvent,
    LastStatus,
    TaskKind,
)
from oracle.domain.fold import fold
from oracle.domain.ids import Address
from oracle.errors import InputError
from tests.support.histories import History, make_group_key, make_node_address, make_task_key
from tests.support.random_histories import any_histories, disturbed_histories

NODE = "0x" + 39 * "0" + "a"
TASK = "0x" + 63 * "0" + "b"
START = {"type": "task_started", "block": 7, "log": 0, "time": 1060, "task": TASK, "node": NODE}
JOIN = {"type": "node_joined", "block": 1, "log": 0, "time": 1000, "node": NODE}
ABORT = {"type": "task_aborted", "block": 7, "log": 0, "time": 1060, "task": TASK}
CREATE = {"type": "task_created", "block": 7, "log": 0, "time": 1060, "task": TASK}
GROUP = {
    "type": "group_validated",
    "block": 7,
    "log": 0,
    "time": 1,
    "group": TASK,
    "tasks": [TASK],
}


def line(base, **changes):
    return json.dumps(base | changes)


def without(base, key):
    return json.dumps({name: value for name, value in base.items() if name != key})


def test_documented_example_line_parses():
    joined = parse_event(
        '{"type":"node_joined","block":1,"log":0,"time":1000,'
        '"node":"0x00000000000000000000000000000000000000a1",'
        '"stake":"400000000000000000000","gpu_name":"NVIDIA GeForce RTX 4090","gpu_vram":24}'
    )
    assert joined == network_events.NodeJoined(
        at=Position(1, 0, 0, 0),
        time=1000,
        node=Address("0x00000000000000000000000000000000000000a1"),
        stake=400 * 10**18,
        gpu_name="NVIDIA GeForce RTX 4090",
        gpu_vram=24,
    )


def test_event_is_written_in_documented_format():
    history = History().joins("A", stake=400 * 10**18, gpu_vram=24, models=("m",))
    assert event_to_json(history.events[0]) == (
        f'{{"type":"node_joined","block":1,"log":0,"time":1000,"node":"{make_node_address("A")}",'
        '"stake":"400000000000000000000","gpu_vram":24,"models":["m"]}'
    )


def test_tx_and_sub_are_written_unless_zero():
    event = network_events.TaskQueued(at=Position(5, 2, -1, 1), time=9, task=make_task_key("1"))
    assert event_to_json(event) == (
        f'{{"type":"task_queued","block":5,"tx":2,"log":-1,"sub":1,"time":9,"task":"{make_task_key("1")}"}}'
    )


def test_every_event_field_round_trips():
    place: dict[str, Any] = {"at": Position(2**53, 1, 2, 3), "time": 2**53 + 1}
    full: list[DomainEvent] = [
        network_events.NodeJoined(
            **place,
            node=make_node_address("A"),
            stake=2**256 - 1,
            gpu_name='é"\u2028',
            gpu_vram=2**32 - 1,
            version=(1, 2, 3),
            models=(),
            timeout=2**63 - 1,
        ),
        network_events.TaskCreated(
            **place,
            task=make_task_key("1"),
            creator=make_node_address("B"),
            fee=0,
            min_vram=0,
            required_gpu="",
            required_gpu_vram=8,
            models=("x", "y"),
            version=(0, 0, 0),
            size=1,
            kind=TaskKind.SD_FT,
            timeout=0,
            group=make_group_key("g"),
        ),
        network_events.TaskAborted(
            **place,
            task=make_task_key("1"),
            node=make_node_address("A"),
            reason=AbortReason.RESULT_UPLOAD_TIMEOUT,
            last_status=LastStatus.ERROR_REPORTED,
        ),
        network_events.TaskStarted(
            **place, task=make_task_key("1"), node=make_node_address("A"), round=2
        ),
        network_events.GroupValidated(
            **place, group=make_group_key("g"), tasks=(make_task_key("1"), make_task_key("2"))
        ),
    ]
    assert [parse_event(event_to_json(event)) for event in full] == full


@given((any_histories() | disturbed_histories()).filter(bool))
def test_written_events_parse_to_same_events(events):
    assert parse_events(map(event_to_json, events)) == events


@given(any_histories().filter(bool), st.data())
def test_ordered_file_is_streamed_and_unordered_file_is_rejected(events, data):
    lines = [event_to_json(event) for event in events]
    assert list(iter_ordered_events(["\n", *lines])) == events
    moved = data.draw(st.permutations(lines))
    if moved != lines:
        with pytest.raises(OutOfOrderError):
            list(iter_ordered_events(moved))


@pytest.mark.parametrize(
    "second",
    [line(JOIN), line(JOIN, log=1, time=1001), line(JOIN, block=0), "{", line(JOIN, log=1, x=1)],
)
def test_invalid_or_unordered_line_stops_streaming(second):
    with pytest.raises(OutOfOrderError):
        list(iter_ordered_events([line(JOIN), second]))


def test_repeated_node_address_is_stored_once():
    first_event, second_event = parse_events([line(JOIN), line(JOIN, log=1)])
    assert isinstance(first_event, network_events.NodeJoined)
    assert isinstance(second_event, network_events.NodeJoined)
    assert first_event.node is second_event.node


def test_event_type_name_is_snake_case():
    assert NAME_BY_TYPE[network_events.TaskErrorReported] == "task_error_reported"


def test_integers_above_2_53_are_written_as_decimal_strings():
    exact = 2**53
    above = 2**53 + 1
    events = [parse_event(line(JOIN, time=exact)), parse_event(line(JOIN, time=str(above)))]
    assert [event.time for event in events] == [exact, above]
    assert '"time":9007199254740992,' in event_to_json(events[0])
    assert '"time":"9007199254740993",' in event_to_json(events[1])
    assert parse_event(line(JOIN, time=above)).time == above


def test_stake_is_accepted_as_number_or_string():
    assert parse_event(line(JOIN, stake=5)) == parse_event(line(JOIN, stake="5"))


def test_hex_is_read_in_any_case():
    event = parse_event(line(START, node="0X" + 39 * "0" + "A", task=TASK.upper()))
    assert isinstance(event, network_events.TaskStarted)
    assert (event.node, event.task) == (NODE, TASK)


def test_null_field_is_treated_as_missing():
    event = parse_event(line(START, round=None, tx=None, sub=None))
    assert event == parse_event(json.dumps(START))


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("{", "invalid JSON"),
        ('{"type":"node_quit"', "invalid JSON"),
        (json.dumps(JOIN) + "x", "invalid JSON"),
        (line(JOIN, stake=float("nan")), "stake: must be .*, not NaN"),
        (line(JOIN, time=float("inf")), "time: must be .*, not Infinity"),
        (line(JOIN, version=[1, 2, float("-inf")]), r"version: must be .*-Infinity"),
        (line(JOIN, type=float("nan")), "type: unknown event type NaN"),
        ("[" * 100_000, "invalid JSON"),
        (
            line(JOIN).replace('"block": 1', '"block": ' + 5000 * "1"),
            r"block: must be .*, not 1+…",
        ),
        ('{"type":"node_quit","node":' + 5000 * "1" + "}", "node: must be 0x"),
        (5000 * "1", "expected a JSON object, not 1+…"),
        ("[1]", r"expected a JSON object, not \[1\]"),
        ('"node_quit"', "expected a JSON object"),
        ("null", "expected a JSON object"),
        (json.dumps(JOIN)[:-1] + ',"log":0}', "log: the key is given twice"),
        (without(JOIN, "type"), "type: the field is missing"),
        (line(JOIN, type=None), "type: the field is missing"),
        (line(JOIN, type="node_left"), 'type: unknown event type "node_left"'),
        (line(JOIN, type=7), "type: unknown event type 7"),
        (line(JOIN, colour="red"), "colour: node_joined has no such field"),
        (line(JOIN, round=1), "round: node_joined has no such field"),
        (without(JOIN, "block"), "block: the field is missing"),
        (without(JOIN, "log"), "log: the field is missing"),
        (without(JOIN, "time"), "time: the field is missing"),
        (without(START, "node"), "node: the field is missing"),
        (line(START, task=None), "task: the field is missing"),
        (line(JOIN, block=True), "block: must be a whole number"),
        (line(JOIN, block=1.0), "block: must be a whole number"),
        (line(JOIN, block="7"), "block: must be a whole number"),
        (line(JOIN, block=-1), "block: must be a whole number from 0"),
        (line(JOIN, block=2**63), "block: must be a whole number from 0 to 2\\^63-1"),
        (line(JOIN, block=str(2**63)), "block: must be"),
        (line(JOIN, tx=-(2**63)), "tx: must be"),
        (line(JOIN, sub=-1), "sub: must be"),
        (line(JOIN, log=-2), "log: must be a whole number from -1"),
        (line(JOIN, time=-1), "time: must be"),
        (line(JOIN, stake=-1), "stake: must be a decimal string"),
        (line(JOIN, stake=1e18), "stake: must be"),
        (line(JOIN, stake="1e18"), "stake: must be"),
        (line(JOIN, stake="0x10"), "stake: must be"),
        (line(JOIN, stake=" 1"), "stake: must be"),
        (line(JOIN, stake="\u0661"), "stake: must be"),
        (line(JOIN, stake=2**256), "stake: must be"),
        (line(JOIN, stake=str(2**256)), "stake: must be"),
        (line(JOIN, stake=False), "stake: must be"),
        (line(JOIN, node="0xa"), "node: must be 0x and 40 hex digits"),
        (line(JOIN, node=TASK), "node: must be 0x and 40 hex digits"),
        (line(JOIN, node=NODE + "\n"), "node: must be 0x and 40 hex digits"),
        (line(JOIN, node=5), "node: must be 0x and 40 hex digits"),
        (line(START, task=NODE), "task: must be 0x and 64 hex digits"),
        (line(JOIN, gpu_name=7), "gpu_name: must be a string of valid Unicode"),
        (line(JOIN, gpu_name="\ud800"), "gpu_name: must be a string of valid Unicode"),
        (line(JOIN, gpu_vram=2**32), "gpu_vram: must be a whole number from 0 to 2\\^32-1"),
        (line(JOIN, gpu_vram="24"), "gpu_vram: must be"),
        (line(JOIN, models="m"), "models: must be a list of strings"),
        (line(JOIN, models=[1]), "models: must be a string of valid Unicode"),
        (line(JOIN, models={"m": 1}), "models: must be a list of strings"),
        (line(JOIN, version=[1, 2]), "version: must be a list of three integers"),
        (line(JOIN, version=[1, 2, 3, 4]), "version: must be a list of three integers"),
        (line(JOIN, version=[1, 2, "3"]), "version: must be a whole number"),
        (line(JOIN, version="1.2.3"), "version: must be a list of three integers"),
        (line(CREATE, size=0), "size: must be a whole number from 1"),
        (line(CREATE, kind="video"), "kind: must be one of sd, llm, sd_ft"),
        (line(START, round=3), "round: must be a whole number from 0 to 2"),
        (line(START, round=True), "round: must be"),
        (line(ABORT, reason="laziness"), "reason: must be one of none, timeout"),
        (line(ABORT, reason=1), "reason: must be one of"),
        (line(ABORT, last_status="ended"), "last_status: must be one of created"),
        (line(GROUP, tasks=[]), "tasks: must be a list of one or more tasks"),
        (line(GROUP, tasks=TASK), "tasks: must be a list of one or more tasks"),
        (line(GROUP, tasks=[NODE]), "tasks: must be 0x and 64 hex digits"),
    ],
)
def test_invalid_line_is_reported_with_line_number_and_field(bad, complaint):
    lines = ["\n", json.dumps(JOIN | {"block": 0}) + "\n", bad + "\n"]
    with pytest.raises(InputError, match=f"^line 3: {complaint}") as caught:
        parse_events(lines)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_two_events_at_same_position_are_rejected():
    lines = [line(START), "", line(START, tx=0, sub=0, type="task_submitted")]
    complaint = (
        r"line 3: log: duplicate position \(block 7, tx 0, log 0, sub 0\), first seen on line 1"
    )
    with pytest.raises(InputError, match=complaint):
        parse_events(lines)


def test_block_with_two_timestamps_is_rejected():
    lines = [line(START), line(START, log=1, time=1061)]
    complaint = "line 2: time: block 7 has time 1061, but 1060 on line 1"
    with pytest.raises(InputError, match=complaint):
        parse_events(lines)


@pytest.mark.parametrize("lines", [[], ["\n", "  \n", "\t"]])
def test_file_without_events_is_rejected(lines):
    with pytest.raises(InputError, match="contains no events"):
        parse_events(lines)


def test_unsorted_lines_are_sorted_by_position():
    lines = [line(START, block=9, time=3), line(JOIN, block=2), line(ABORT, block=9, tx=1, time=3)]
    assert [event.at[:2] for event in parse_events(lines)] == [(2, 0), (9, 0), (9, 1)]


@given(st.text(max_size=40))
def test_arbitrary_line_raises_only_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_event(text)


def test_every_event_type_has_fold_handler():
    assert fold.HANDLERS.keys() == NAME_BY_TYPE.keys()


def test_field_without_declared_kind_is_rejected():
    @dataclass(frozen=True, slots=True)
    class Unfinished(TimedEvent):
        node: str

    with pytest.raises(TypeError, match="node: the annotation has no FieldKind"):
        get_field_kinds(Unfinished)
