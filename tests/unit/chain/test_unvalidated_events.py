"""Events built without validation equal events built normally."""

from dataclasses import FrozenInstanceError, fields
from operator import itemgetter
from typing import Any, get_args

import pytest

from oracle.chain.decode.log_decoder import POSITION_FIELDS, build_record_reader
from oracle.domain.blocks import Position
from oracle.domain.events.network_events import GroupValidated, NodeEvent, TaskEvent, TaskStarted
from oracle.domain.events.oracle_events import ContractEvent
from oracle.domain.logs import Call, Log
from tests.support.chain.network_logs import NETWORK, make_hash, make_node_address, make_task_key

KINDS = (*get_args(NodeEvent), *get_args(TaskEvent), GroupValidated, *get_args(ContractEvent))
LOG = Log(7, make_hash(7), 5, 2, make_hash(2), 3, NETWORK, (make_hash(1),), "0x")
CALL = Call(
    7, make_hash(7), 5, 2, make_hash(2), make_node_address(1), NETWORK, 0, "0x", succeeded=True
)


def made_of(kind: type, values: dict[str, Any], row: Log | Call = LOG) -> Any:
    """Build an event from its parts, given in the order of these values."""
    getters = {name: itemgetter(place) for place, name in enumerate(values)}
    return build_record_reader(kind, getters, lambda _: tuple(values.values()))(row)


@pytest.mark.parametrize("kind", KINDS)
def test_unvalidated_event_equals_constructed_event(kind: type):
    names = [field.name for field in fields(kind) if field.name not in POSITION_FIELDS]
    values = {name: place for place, name in enumerate(names)}

    event = made_of(kind, values)

    assert event == kind(Position(7, 2, 3), 5, *range(len(values)))
    assert type(event) is kind


def test_omitted_event_values_use_defaults():
    event = made_of(TaskStarted, {"node": make_node_address(1), "task": make_task_key(3)})

    assert event == TaskStarted(Position(7, 2, 3), 5, make_task_key(3), make_node_address(1))


def test_call_event_is_positioned_before_logs():
    event = made_of(TaskStarted, {"task": make_task_key(3), "node": make_node_address(1)}, CALL)

    assert event.at == Position(7, 2, -1)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"task": 1}, "required field node"),
        ({"task": 1, "node": 2, "hue": 3}, "unknown fields hue"),
    ],
)
def test_missing_or_unexpected_event_values_are_rejected(values: dict[str, int], words: str):
    with pytest.raises(ValueError, match=f"TaskStarted.*{words}"):
        made_of(TaskStarted, values)


def test_unvalidated_event_is_immutable():
    event = made_of(TaskStarted, {"task": make_task_key(1), "node": make_node_address(2)})

    with pytest.raises(FrozenInstanceError):
        event.time = 6
