"""The tasks' rows: kept for ever, because scores point at them."""

from collections.abc import Iterable

from sqlalchemy import Connection

from oracle.domain.ids import TaskKey
from oracle.domain.tasks import Task


class TaskRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def named(self, keys: Iterable[TaskKey]) -> dict[TaskKey, Task]:
        """Return the tasks of these keys that are there."""
        raise NotImplementedError

    def save(self, tasks: Iterable[Task]) -> None:
        """Write each task's row, new or not."""
        raise NotImplementedError
