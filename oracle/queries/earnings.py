"""What a node earned for a task: the whole fee, or a share of the fee by points.

The paid amount is the one that the network reported. The share that follows from the points of the
group is computed too, so that a difference shows. See docs/explanation/legacy.md#money.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import split_fee
from oracle.domain.state import Ending, GroupMember, Task


@dataclass(frozen=True, slots=True)
class Earning:
    """The amount, in wei, that a node was paid of a fee, which several nodes may have shared.

    `points`: the node's points; `all_points`: the points of all paid nodes. Both are None if the
    fee was not shared. `by_points`: the share of the fee that follows from the points.
    """

    paid: int
    fee: int
    points: int | None = None
    all_points: int | None = None
    by_points: int | None = None

    def to_text(self) -> str:
        """Return the amount and how it was shared as text."""
        earned_text = f"earned {self.paid} wei of {self.fee}"
        if self.points is None:
            return earned_text
        share = f"{earned_text}: {self.points} of {self.all_points} points"
        if self.paid == self.by_points:
            return share
        return f"{share}, BUT THE POINTS GIVE {self.by_points}"


def compute_task_earning(
    task_key: TaskKey, members: Sequence[GroupMember], tasks: Mapping[TaskKey, Task]
) -> Earning | None:
    """Return what a node earned for a scored task, or None if the fee was never reported.

    Args:
        task_key: the task.
        members: the members of its group, in the order in which the network compared them.
        tasks: the rows of the task and of the members' tasks.
    """
    task = tasks.get(task_key)
    if task is None:
        return None
    if task.paid is None:
        if task.fee is None or task.ending is None:
            return None
        return Earning(task.fee if task.ending is Ending.SUCCEEDED else 0, task.fee)
    paid_members = [
        (member.task, member.score or 0, row.paid)
        for member in members
        if (row := tasks.get(member.task)) is not None and row.paid is not None
    ]
    fee = sum(paid for _, _, paid in paid_members)
    scores = [score for _, score, _ in paid_members]
    paid_tasks = [paid_task for paid_task, _, _ in paid_members]
    if task_key not in paid_tasks:
        return Earning(task.paid, fee)
    task_index = paid_tasks.index(task_key)
    return Earning(
        task.paid, fee, scores[task_index], sum(scores), split_fee(fee, scores)[task_index]
    )
