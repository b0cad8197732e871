"""Ranks a closed group again with other times, by the functions of the fold."""

from collections.abc import Mapping

from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import (
    ClosingMember,
    compute_elapsed_seconds,
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
    stored_ranking = _rank_group(group, task_by_key, rules, {})
    if stored_ranking is None or any(
        stored_ranking[member.task].rank != member.rank for member in group.members
    ):
        return None
    if not elapsed_by_task:
        return stored_ranking
    return _rank_group(group, task_by_key, rules, elapsed_by_task)


def _rank_group(
    group: GroupResult,
    task_by_key: Mapping[TaskKey, Task],
    rules: Rules,
    elapsed_by_task: Mapping[TaskKey, int],
) -> dict[TaskKey, GroupMember] | None:
    answered_tasks = []
    for member in group.members:
        if member.rank is None and member.task not in elapsed_by_task:
            continue
        task = task_by_key.get(member.task)
        elapsed = None if task is None else compute_elapsed_seconds(task)
        elapsed = elapsed_by_task.get(member.task, elapsed)
        if task is None or task.started_time is None or elapsed is None:
            return None
        # As it was when the group closed: with an answer, and without an ending.
        closing_task = copy_task(task)
        closing_task.stopped_time = task.started_time + elapsed
        closing_task.ending = closing_task.abort_reason = None
        answered_tasks.append(closing_task)
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
    ranked_keys = [task.key for task in rank_by_speed(answered_tasks, rules)]
    return {member.task: member for member in rank_members(closing_members, ranked_keys, rules)}
