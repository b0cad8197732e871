"""Draws: which node was drawn for which task, and by which block's hash."""

from collections.abc import Sequence

from pydantic import Field

from oracle.domain.ids import TaskKey
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText
from oracle.queries.api.source import ApiSnapshot, NotKnownError
from oracle.store.state.draw_repository import StoredDraw


class DrawEntry(ApiModel):
    """One draw of a task."""

    task: HashText
    seed_block: int
    seed_hash: HashText = Field(description="sha256 of it and the task is the seed of the draw.")
    seed_time: int = Field(description="Of the seed block, unix seconds.")
    node: AddressText
    stands: bool
    voided_block: int | None


class DrawPage(Answer):
    """Draws that stand, the oldest first, and the last that stand no more, the newest first."""

    standing: list[DrawEntry]
    over: list[DrawEntry]


class TaskDraws(Answer):
    """Every draw of one task, the oldest first."""

    draws: list[DrawEntry]


def draws(look: ApiSnapshot, limit: int) -> DrawPage:
    """Return all that stand, and up to `limit` of the others."""
    return DrawPage(
        as_of=look.as_of,
        standing=draw_entries(look.uow.draws.active()),
        over=draw_entries(look.uow.draws.over(limit)),
    )


def draws_of(look: ApiSnapshot, task: TaskKey) -> TaskDraws:
    """Return the draws of a task. Raises NotKnownError: nobody was drawn for it."""
    found = look.uow.draws.of_task(task)
    if not found:
        raise NotKnownError(f"nobody was drawn for task {task}")
    return TaskDraws(as_of=look.as_of, draws=draw_entries(found))


def draw_entries(found: Sequence[StoredDraw]) -> list[DrawEntry]:
    """Return stored draws as answers tell them."""
    return [
        DrawEntry(
            task=one.task,
            seed_block=one.seed_block,
            seed_hash=one.seed_hash,
            seed_time=one.seed_time,
            node=one.node,
            stands=one.voided_block is None,
            voided_block=one.voided_block,
        )
        for one in found
    ]
