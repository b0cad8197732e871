"""What a task brought its node in money, and why: the fee alone, or its part by points.

What was paid is the network's own word; beside it stands what the points of the group make of the
fee, so that a difference shows. See docs/explanation/legacy.md#money.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import fee_shares
from oracle.domain.state.group import GroupMember
from oracle.domain.state.task import Ending, Task


@dataclass(frozen=True, slots=True)
class Earning:
    """What the node got, wei, of a fee that went to one or several.

    `points` of `all_points`: the node's place and those of all who were paid; None: the fee was
    not shared. `by_points`: what these make of the fee.
    """

    paid: int
    fee: int
    points: int | None = None
    all_points: int | None = None
    by_points: int | None = None

    def text(self) -> str:
        """Return it for people."""
        said = f"earned {self.paid} wei of {self.fee}"
        if self.points is None:
            return said
        share = f"{said}: {self.points} of {self.all_points} points"
        if self.paid == self.by_points:
            return share
        return f"{share}, WHICH WOULD BE {self.by_points}"


def earning_of(
    key: TaskKey, members: Sequence[GroupMember], tasks: Mapping[TaskKey, Task]
) -> Earning | None:
    """Return what a scored task brought its node; None: the network never said its fee.

    Args:
        key: the task.
        members: those of its group, in the order in which the network compared them.
        tasks: its rows, and those of the members.
    """
    task = tasks.get(key)
    if task is None:
        return None
    if task.paid is None:
        if task.fee is None or task.ending is None:
            return None
        return Earning(task.fee if task.ending is Ending.SUCCEEDED else 0, task.fee)
    shared = [
        (member.task, member.score or 0, row.paid)
        for member in members
        if (row := tasks.get(member.task)) is not None and row.paid is not None
    ]
    fee = sum(paid for _, _, paid in shared)
    scores = [score for _, score, _ in shared]
    places = [each for each, _, _ in shared]
    if key not in places:
        return Earning(task.paid, fee)
    place = places.index(key)
    return Earning(task.paid, fee, scores[place], sum(scores), fee_shares(fee, scores)[place])
