"""Events made quickly are the events."""

from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest

from oracle.chain.making import quick
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


def test_knows_the_defaults():
    at, task, node = Position(1, 2, 3), TaskKey("0x01"), Address("0x02")

    assert quick(TaskStarted)(at, 5, task, node=node) == TaskStarted(at, 5, task, node)


def test_is_as_frozen():
    made = quick(TaskStarted)(Position(1, 2, 3), 5, TaskKey("0x01"), Address("0x02"))

    with pytest.raises(FrozenInstanceError):
        made.time = 6  # type: ignore[misc]  # that it cannot be set is the point
