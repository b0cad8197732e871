"""Caches the network's newest draws and the requirements of their tasks, for one block."""

import threading
from typing import NamedTuple

from oracle.domain.ids import GroupKey, Hash, TaskKey
from oracle.domain.state import Task
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.crynux.requirements import Requirement, build_requirement

MAX_DRAWS = 500


class RecentDraw(NamedTuple):
    """A draw with the requirement, group and fee of its task; an unknown fee is 0."""

    draw: StoredDraw
    requirement: Requirement
    group: GroupKey | None
    fee: int


class RecentDrawCache:
    """A thread-safe cache of the newest draws, which reads only the tasks of new draws."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._rewrite_count = 0
        self._recent_draws: list[RecentDraw] = []
        # Requirement, group and fee of each task, by task and seed block hash. The task was
        # created before that block, so the same hash implies the same task.
        self._drawn_tasks: dict[
            tuple[TaskKey, Hash], tuple[Requirement, GroupKey | None, int]
        ] = {}

    def load_draws(self, uow: UnitOfWork, cursor: Cursor) -> list[RecentDraw]:
        """Return the newest draws up to the cursor of this snapshot, oldest first.

        At most `MAX_DRAWS` draws are returned.
        """
        with self._lock:
            if self._epoch != cursor.epoch:
                self._load_rows(uow)
                self._epoch = cursor.epoch
            return self._recent_draws

    def _load_rows(self, uow: UnitOfWork) -> None:
        rewrite_count = uow.bookmarks.get_rewrite_count()
        if rewrite_count != self._rewrite_count:
            self._drawn_tasks.clear()
            self._rewrite_count = rewrite_count
        draws = uow.draws.list_newest(MAX_DRAWS)[::-1]
        keys = [(draw.task, draw.seed_hash) for draw in draws]
        new_tasks = uow.tasks.get_many({key[0] for key in keys if key not in self._drawn_tasks})
        self._drawn_tasks = {
            key: self._drawn_tasks.get(key) or _build_drawn_task(new_tasks[key[0]])
            for key in keys
            if key in self._drawn_tasks or key[0] in new_tasks
        }
        self._recent_draws = [
            RecentDraw(draw, *self._drawn_tasks[key])
            for draw, key in zip(draws, keys, strict=True)
            if key in self._drawn_tasks
        ]


def _build_drawn_task(task: Task) -> tuple[Requirement, GroupKey | None, int]:
    return build_requirement(task), task.group, task.fee or 0
