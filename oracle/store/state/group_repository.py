"""Validation groups that are still open, and those that closed; for `close = terminal`."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection

from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.state.group import OpenGroup
from oracle.store.bulk import Row, fetch, upsert
from oracle.store.encoding import hexed, joined, raw, split
from oracle.store.tables.state_tables import open_group


class GroupRepository:
    """The tasks created so far with each group."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def named(self, groups: Iterable[GroupKey]) -> dict[GroupKey, OpenGroup]:
        """Return the groups of these keys that are there."""
        rows = fetch(self._connection, open_group, map(raw, groups))
        return {found.group: found for found in map(_group_of, rows)}

    def save(self, groups: Iterable[OpenGroup]) -> None:
        """Write each group's row, new or not."""
        upsert(self._connection, open_group, [group_row(each) for each in groups])


def group_row(each: OpenGroup) -> Row:
    """The group as a row of its table."""
    return (raw(each.group), joined(each.tasks), each.closed)


def _group_of(row: Any) -> OpenGroup:  # noqa: ANN401  a row of any driver
    return OpenGroup(
        group=GroupKey(hexed(row.task_group)),
        tasks=tuple(TaskKey(key) for key in split(row.tasks)),
        closed=bool(row.closed),
    )
