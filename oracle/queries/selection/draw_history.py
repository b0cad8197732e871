"""The record of draws for who asks: which ones stand, and how the last of the others ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from oracle.domain.state.task import Task
from oracle.store.database import Store
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.draw_repository import StoredDraw


class DrawOutcome(StrEnum):
    """Why a draw stands no more."""

    STARTED = "started"
    STARTED_ELSEWHERE = "started_elsewhere"
    TASK_ENDED = "task_ended"
    # Its node could not have the task any more, or a new start block came: drawn anew.
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class DrawRow:
    """One draw; `outcome` None: it stands."""

    draw: StoredDraw
    outcome: DrawOutcome | None

    @property
    def since(self) -> int:
        """Return the seed block's time, unix seconds."""
        return self.draw.seed_time


@dataclass(frozen=True, slots=True)
class DrawHistory:
    """As of the cursor, None: nothing is indexed. `active`: the oldest first; `over`: newest."""

    as_of: Cursor | None
    active: Sequence[DrawRow]
    over: Sequence[DrawRow]


def recent_draws(store: Store, last: int) -> DrawHistory:
    """Return all draws that stand, and the last ones that stand no more."""
    with store.reading() as uow:
        active, over = uow.draws.active(), uow.draws.over(last)
        tasks = uow.tasks.named({draw.task for draw in over})
        return DrawHistory(
            uow.cursor.get(),
            [DrawRow(draw, None) for draw in active],
            [DrawRow(draw, _outcome(draw, tasks.get(draw.task))) for draw in over],
        )


def _outcome(draw: StoredDraw, task: Task | None) -> DrawOutcome:
    if task is None:
        return DrawOutcome.UNDONE
    if task.started_at is not None and task.started_at.block == draw.voided_block:
        return DrawOutcome.STARTED if task.node == draw.node else DrawOutcome.STARTED_ELSEWHERE
    is_ended = task.ended_at is not None and task.ended_at.block == draw.voided_block
    return DrawOutcome.TASK_ENDED if is_ended else DrawOutcome.UNDONE
