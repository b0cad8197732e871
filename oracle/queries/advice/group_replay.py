"""Ranks a closed group again with other times, by the functions of the fold."""

from collections.abc import Mapping

from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import (
    ClosingMember,
    rank_closing_members,
    rank_tasks_by_speed,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, GroupResult, Task, copy_task


def rerank_group(
    group: GroupResult,
    task_by_key: Mapping[TaskKey, Task],
    rules: Rules,
    elapsed_by_task: Mapping[TaskKey, int],
) -> dict[TaskKey, GroupMember] | None:
    """Return the members of a scored group as if some tasks had taken other times, in seconds.

    The verdict stays as it was: the same answers are ranked. A task in `elapsed_by_task` that was
    not ranked counts as answered after that time. The result is None if the group cannot be ranked
    again (`restore_ranked_tasks`), or if such a task is not stored.
    """
    ranked_tasks = restore_ranked_tasks(group, task_by_key, rules)
    if ranked_tasks is None:
        return None
    for key in elapsed_by_task.keys() - ranked_tasks.keys():
        task = task_by_key.get(key)
        if task is None or task.started_time is None:
            return None
        ranked_tasks[key] = _remove_task_ending(task)
    return rank_with_changed_times(group, ranked_tasks, rules, elapsed_by_task)


def restore_ranked_tasks(
    group: GroupResult, task_by_key: Mapping[TaskKey, Task], rules: Rules
) -> dict[TaskKey, Task] | None:
    """Return the ranked tasks of a group as they were when it closed.

    The result is None under legacy rules, if a task is not stored, or if the network ranked the
    members by something other than the times that it reported.
    """
    if rules.legacy is not None:
        return None
    ranked_members = sorted(
        (member for member in group.members if member.rank is not None),
        key=lambda member: member.rank or 0,
    )
    ranked_tasks = {
        member.task: _remove_task_ending(task)
        for member in ranked_members
        if (task := task_by_key.get(member.task)) is not None
    }
    ranked_keys = [task.key for task in rank_tasks_by_speed(list(ranked_tasks.values()), rules)]
    return ranked_tasks if ranked_keys == [member.task for member in ranked_members] else None


def rank_with_changed_times(
    group: GroupResult,
    ranked_tasks: Mapping[TaskKey, Task],
    rules: Rules,
    elapsed_by_task: Mapping[TaskKey, int],
) -> dict[TaskKey, GroupMember]:
    """Return the members of a group as if restored tasks had taken other times, in seconds."""
    if not elapsed_by_task:
        return {member.task: member for member in group.members}
    tasks = dict(ranked_tasks)
    for key, elapsed in elapsed_by_task.items():
        task = tasks[key] = copy_task(tasks[key])
        task.stopped_time = (task.started_time or 0) + elapsed
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
    ranked_keys = [task.key for task in rank_tasks_by_speed(list(tasks.values()), rules)]
    return {
        member.task: member for member in rank_closing_members(closing_members, ranked_keys, rules)
    }


def _remove_task_ending(task: Task) -> Task:
    """Return a task in its state when its group closed, with an answer and no ending.

    A task without an ending is returned itself.
    """
    if task.ending is None and task.abort_reason is None:
        return task
    closing_task = copy_task(task)
    closing_task.ending = closing_task.abort_reason = None
    return closing_task
