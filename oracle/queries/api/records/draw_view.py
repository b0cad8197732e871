"""Draws: the node that was drawn for each task, and the block whose hash was the seed."""

from oracle.domain.ids import TaskKey
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.selection.draw_history import (
    DrawEntry,
    DrawHistory,
    build_draw_entries,
    load_draw_history,
)


class DrawPage(DrawHistory, Answer):
    """The active draws, oldest first, and the last voided draws, newest first."""


class TaskDraws(Answer):
    """Every draw of one task, the oldest first."""

    draws: list[DrawEntry]


def list_draws(snapshot: ApiSnapshot, limit: int) -> DrawPage:
    """Return all active draws, and up to `limit` voided draws."""
    history = load_draw_history(snapshot.uow, limit)
    return DrawPage(as_of=snapshot.as_of, active=history.active, over=history.over)


def list_task_draws(snapshot: ApiSnapshot, task: TaskKey) -> TaskDraws:
    """Return the draws of a task; raise NotFoundError if no node was drawn for it."""
    stored_draws = snapshot.uow.draws.list_for_task(task)
    if not stored_draws:
        raise NotFoundError(f"no node was drawn for task {task}")
    return TaskDraws(as_of=snapshot.as_of, draws=build_draw_entries(snapshot.uow, stored_draws))
