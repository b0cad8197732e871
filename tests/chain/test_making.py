"""Events made quickly are the events."""

from dataclasses import FrozenInstanceError, fields
from typing import Any, get_args

import pytest

from oracle.chain.decode.record_filler import filled
from oracle.domain.blocks import Position
from oracle.domain.events.network_events import GroupValidated, NodeEvent, TaskEvent, TaskStarted
from oracle.domain.events.oracle_events import ContractEvent

KINDS = (*get_args(NodeEvent), *get_args(TaskEvent), GroupValidated, *get_args(ContractEvent))


def made_of(kind: type, values: dict[str, str], **known: Any) -> Any:
    """What the lines make, as in a generated reader."""
    meanings, lines = filled(kind, values)
    body = "".join(f"    {line}\n" for line in [*lines, "return made"])
    scope = {**known, **meanings}
    exec(f"def make():\n{body}", scope)  # noqa: S102  # what the readers do
    return scope["make"]()


@pytest.mark.parametrize("kind", KINDS)
def test_equals_what_the_class_makes(kind: type):
    values = {field.name: str(place) for place, field in enumerate(fields(kind))}

    made = made_of(kind, values)

    assert made == kind(*range(len(values)))
    assert type(made) is kind


def test_values_left_out_are_the_defaults():
    values = {"at": "1", "time": "2", "task": "3", "node": "4"}

    assert made_of(TaskStarted, values) == TaskStarted(1, 2, 3, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "words"),
    [({"at": "1"}, "nothing for time"), ({"at": "1", "hue": "2"}, "has no hue")],
)
def test_what_is_missing_or_unknown_is_told(values: dict[str, str], words: str):
    with pytest.raises(ValueError, match=f"TaskStarted.*{words}"):
        filled(TaskStarted, values)


def test_is_as_frozen():
    values = {"at": "at", "time": "5", "task": "'0x01'", "node": "'0x02'"}
    made = made_of(TaskStarted, values, at=Position(1, 2, 3))

    with pytest.raises(FrozenInstanceError):
        made.time = 6
