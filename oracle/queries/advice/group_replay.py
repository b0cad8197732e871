"""Ranks a closed group again with other times, by the functions of the fold."""

from collections.abc import Mapping

from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import (
    ClosingMember,
    rank_by_speed,
    rank_members,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, GroupResult, Task, copy_task


def rank_group_again(
    group: GroupResult,
    task_by_key: Mapping[TaskKey, Task],
    rules: Rules,
    elapsed_by_task: Mapping[TaskKey, int],
) -> dict[TaskKey, GroupMember] | None:
    """Return the members of a scored group if some tasks had taken other times, in seconds.

    The verdict stays as it was: the same answers are ranked. A task in `elapsed_by_task` that was
    not ranked counts as answered after that time. The result is None if the group cannot be ranked
    again: under legacy rules, if a task is not stored, or if the network ranked its members by
    something other than the times that it reported.
    """
    if rules.legacy is not None:
        return None
    ranked_members = sorted(
        (member for member in group.members if member.rank is not None),
        key=lambda member: member.rank or 0,
    )
    answered_tasks = {
        member.task: _copy_closing_task(task, None)
        for member in ranked_members
        if (task := task_by_key.get(member.task)) is not None
    }
    ranked_keys = [task.key for task in rank_by_speed(list(answered_tasks.values()), rules)]
    if ranked_keys != [member.task for member in ranked_members]:
        return None
    if not elapsed_by_task:
        return {member.task: member for member in group.members}
    for key, elapsed in elapsed_by_task.items():
        task = task_by_key.get(key)
        if task is None or task.started_time is None:
            return None
        answered_tasks[key] = _copy_closing_task(task, task.started_time + elapsed)
    ranked_keys = [task.key for task in rank_by_speed(list(answered_tasks.values()), rules)]
    closing_members = [
        ClosingMember(
            member.task,
            member.node if member.score is not None else None,
            elapsed_by_task.get(member.task, member.elapsed),
            # A member with a score had a credible limit.
            None,
        )
        for member in group.members
    ]
    return {member.task: member for member in rank_members(closing_members, ranked_keys, rules)}


def _copy_closing_task(task: Task, stopped_time: int | None) -> Task:
    """Return a task as it was when its group closed: with an answer, and without an ending.

    `stopped_time` replaces the block time of the answer, unless it is None.
    """
    closing_task = copy_task(task)
    closing_task.ending = closing_task.abort_reason = None
    if stopped_time is not None:
        closing_task.stopped_time = stopped_time
    return closing_task
