"""A validation group: its members, their ranks and task scores.

See docs/reference/scoring-rules.md#task-groups.
"""

from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, GroupKey, TaskKey


class GroupMember(NamedTuple):
    """One task of a closed group; `elapsed` in seconds, None without a submission or report.

    `rank` counts from 1, None when not ranked; `score` None when the member scores nobody. In a
    scored group that is a task which nobody started, or one that only may be a member.
    """

    task: TaskKey
    node: Address | None
    rank: int | None
    elapsed: int | None
    score: int | None

    @property
    def is_possible(self) -> bool:
        """Whether the task only may be a member of the group, where the group was scored."""
        return self.node is not None and self.score is None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group at the position where it closed; `scored` False when no member was ranked.

    The position is its key: a chain may name one group twice (its tasks still score once).
    """

    group: GroupKey
    closed_at: Position
    time: int
    members: tuple[GroupMember, ...]
    scored: bool


@dataclass(slots=True)
class OpenGroup:
    """Only for `close = terminal`: the tasks created so far with this group, in order.

    `closed` once it has been scored; it is never reopened.
    """

    group: GroupKey
    tasks: tuple[TaskKey, ...]
    closed: bool
