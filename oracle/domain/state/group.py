"""A validation group: its members, their ranks and task scores.

See docs/reference/scoring-rules.md#task-groups.
"""

from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, GroupKey, TaskKey


class GroupMember(NamedTuple):
    """One task of a closed group; `elapsed` is in seconds, or None without an answer.

    `rank` counts from 1 and is None for a task that is not ranked. `score` is None for a task that
    gives no score: in a scored group, one that was never started or is only possibly a member.
    """

    task: TaskKey
    node: Address | None
    rank: int | None
    elapsed: int | None
    score: int | None

    @property
    def is_possible(self) -> bool:
        """Whether the task is only possibly a member, in a group that was scored."""
        return self.node is not None and self.score is None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group at the position where it closed; `scored` is False if no member was ranked.

    The position identifies the result, because a chain may name a group twice (its tasks score
    only once).
    """

    group: GroupKey
    closed_at: Position
    time: int
    members: tuple[GroupMember, ...]
    scored: bool


@dataclass(slots=True)
class OpenGroup:
    """A group that closes when all its tasks have ended (`close = terminal`): its tasks so far.

    `closed` is True once the group was scored; a group is never reopened.
    """

    group: GroupKey
    tasks: tuple[TaskKey, ...]
    closed: bool
