"""Validation groups: open ones (for `close = terminal`), and the results of closed ones."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from oracle.domain.groups import GroupResult, OpenGroup
from oracle.domain.ids import Address, GroupKey


class GroupRoom:
    """The tasks created so far with each group."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def named(self, groups: Iterable[GroupKey]) -> dict[GroupKey, OpenGroup]:
        """Return the groups of these keys that are there."""
        raise NotImplementedError

    def save(self, groups: Iterable[OpenGroup]) -> None:
        """Write each group's row, new or not."""
        raise NotImplementedError


class ResultRoom:
    """Groups as they closed, with their members; appended only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, results: Sequence[GroupResult]) -> None:
        """Write results down, each at the position where its group closed."""
        raise NotImplementedError

    def of_group(self, group: GroupKey) -> list[GroupResult]:
        """Return how this group closed: nothing or one result, more where groups repeat."""
        raise NotImplementedError

    def of_node(self, node: Address, last: int = 50) -> list[GroupResult]:
        """Return the newest results with this node among the members, oldest first."""
        raise NotImplementedError

    def count(self) -> int:
        """Count the closed groups."""
        raise NotImplementedError
