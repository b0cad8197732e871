"""Draws: the node that was drawn for each task, and the block whose hash was the seed."""

from oracle.domain.ids import TaskKey
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSnapshot, NotKnownError
from oracle.queries.selection.draw_history import (
    DrawEntry,
    DrawHistory,
    draw_entries,
    draw_history,
)


class DrawPage(DrawHistory, Answer):
    """Draws that are active, the oldest first, and the last of the others, the newest first."""


class TaskDraws(Answer):
    """Every draw of one task, the oldest first."""

    draws: list[DrawEntry]


def draws(look: ApiSnapshot, limit: int) -> DrawPage:
    """Return all active draws, and up to `limit` of the others."""
    history = draw_history(look.uow, limit)
    return DrawPage(as_of=look.as_of, active=history.active, over=history.over)


def draws_of(look: ApiSnapshot, task: TaskKey) -> TaskDraws:
    """Return the draws of a task; raise NotKnownError if no node was drawn for it."""
    found = look.uow.draws.of_task(task)
    if not found:
        raise NotKnownError(f"nobody was drawn for task {task}")
    return TaskDraws(as_of=look.as_of, draws=draw_entries(look.uow, found))
