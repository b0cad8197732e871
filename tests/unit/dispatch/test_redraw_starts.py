"""Which starts must follow from a draw: all except those of system tasks."""

import pytest

from oracle.dispatch.redraw import is_started_at_creation
from oracle.domain.blocks import Position
from oracle.domain.ids import TaskKey
from oracle.domain.state import create_task


@pytest.mark.parametrize(
    ("created", "started", "is_given"),
    [
        (Position(7, 3, 5), Position(7, 3, 9), True),
        # The same block is not enough: another account may have started it there.
        (Position(7, 3, 5), Position(7, 4, 9), False),
        (Position(6, 3, 5), Position(7, 3, 9), False),
        (None, Position(7, 3, 9), False),
        (Position(7, 3, 5), None, False),
    ],
)
def test_task_started_at_creation_needs_no_draw(created, started, is_given):
    task = create_task(TaskKey("0x" + 64 * "1"))
    task.created_at, task.started_at = created, started
    assert is_started_at_creation(task) is is_given
