"""Events made quickly are the events."""

from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest

from oracle.chain.making import filled, quick
from oracle.domain.block import Position
from oracle.domain.contract_events import ContractEvent
from oracle.domain.events import GroupValidated, NodeEvent, TaskEvent, TaskStarted
from oracle.domain.ids import Address, TaskKey

KINDS = (*get_args(NodeEvent), *get_args(TaskEvent), GroupValidated, *get_args(ContractEvent))


@pytest.mark.parametrize("kind", KINDS)
def test_equals_what_the_class_makes(kind: type):
    values = list(range(len(fields(kind))))

    made: object = quick(kind)(*values)

    assert made == kind(*values)
    assert type(made) is kind


def test_values_left_out_are_the_defaults():
    known, lines = filled(TaskStarted, ["1", "2", "3", "4"])
    body = "".join(f"    {line}\n" for line in lines)
    exec(f"def make():\n{body}", known)  # noqa: S102  # what the decoders do

    assert known["make"]() == TaskStarted(1, 2, 3, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [["1"], ["1", "2", "3", "4", "5", "6"]])
def test_too_few_and_too_many_values_are_told(values: list[str]):
    with pytest.raises(ValueError, match="TaskStarted"):
        filled(TaskStarted, values)


def test_is_as_frozen():
    made = quick(TaskStarted)(Position(1, 2, 3), 5, TaskKey("0x01"), Address("0x02"), None)

    with pytest.raises(FrozenInstanceError):
        made.time = 6  # type: ignore[misc]  # that it cannot be set is the point
