"""Lists all active draws, and the newest voided draws with their outcomes."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from oracle.domain.state import Task
from oracle.queries.answers import AddressText, ApiModel, HashText
from oracle.queries.selection.selection_models import SnapshotAnswer, SnapshotTime
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.draw_repository import StoredDraw


class DrawOutcome(StrEnum):
    """The reason why a draw is no longer active."""

    STARTED = "started"
    STARTED_ELSEWHERE = "started_elsewhere"
    TASK_ENDED = "task_ended"
    # The draw was voided and the task was drawn again. Either the node could no longer run the
    # task, or `dispatch.start_block` changed.
    UNDONE = "undone"


class DrawEntry(ApiModel):
    """The draw of a node for a task."""

    task: HashText
    node: AddressText
    seed_block: int
    seed_hash: HashText = Field(
        description=(
            "Hash of the seed block. The seed of the draw is the SHA-256 of this hash and the key "
            "of the task or, if the tasks of a group are drawn together, of the group."
        )
    )
    seed_time: int = Field(description="Time of the seed block, in unix seconds.")
    active: bool = Field(description="Whether the drawn node can still start the task.")
    voided_block: int | None = Field(
        description="Block at the end of which the draw was voided; null if it was not voided."
    )
    outcome: DrawOutcome | None = Field(description="How the draw ended; null if it is active.")


class DrawHistory(ApiModel):
    """The active draws, oldest first, and the newest voided draws, newest first."""

    active: list[DrawEntry]
    over: list[DrawEntry]


class RecentDraws(DrawHistory, SnapshotAnswer):
    """The answer of the command `draws`."""


def load_recent_draws(store: Store, limit: int) -> RecentDraws:
    """Return all active draws and up to `limit` voided draws, as of the cursor."""
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        history = load_draw_history(uow, limit)
    as_of = None if cursor is None else SnapshotTime(block=cursor.number, time=cursor.time)
    return RecentDraws(as_of=as_of, active=history.active, over=history.over)


def load_draw_history(uow: UnitOfWork, limit: int) -> DrawHistory:
    """Return all active draws, and up to `limit` voided draws."""
    return DrawHistory(
        active=build_draw_entries(uow, uow.draws.list_active()),
        over=build_draw_entries(uow, uow.draws.list_voided(limit)),
    )


def build_draw_entries(uow: UnitOfWork, draws: Sequence[StoredDraw]) -> list[DrawEntry]:
    """Build the entries of stored draws, with their outcomes."""
    task_by_key = uow.tasks.get_many(
        {draw.task for draw in draws if draw.voided_block is not None}
    )
    return [
        DrawEntry(
            task=draw.task,
            node=draw.node,
            seed_block=draw.seed_block,
            seed_hash=draw.seed_hash,
            seed_time=draw.seed_time,
            active=draw.voided_block is None,
            voided_block=draw.voided_block,
            outcome=None
            if draw.voided_block is None
            else _determine_draw_outcome(draw, task_by_key.get(draw.task)),
        )
        for draw in draws
    ]


def _determine_draw_outcome(draw: StoredDraw, task: Task | None) -> DrawOutcome:
    if task is None:
        return DrawOutcome.UNDONE
    if task.started_at is not None and task.started_at.block == draw.voided_block:
        return DrawOutcome.STARTED if task.node == draw.node else DrawOutcome.STARTED_ELSEWHERE
    is_ended = task.ended_at is not None and task.ended_at.block == draw.voided_block
    return DrawOutcome.TASK_ENDED if is_ended else DrawOutcome.UNDONE
