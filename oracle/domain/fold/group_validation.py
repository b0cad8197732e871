"""Closes validation groups, and adds the scores of their tasks to the nodes' pools.

See docs/reference/scoring-rules.md#task-groups and
docs/reference/scoring-rules.md#long-term-score.
"""

from collections.abc import Iterator, Sequence

from oracle.domain.events.network_events import DomainEvent, GroupValidated, TaskCreated
from oracle.domain.fold import legacy_round_scores, working_set
from oracle.domain.fold.preconditions import Violation
from oracle.domain.fold.working_set import ClosingGroup, ScoreEntry, WorkingSet
from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.scoring.group_ranking import (
    build_closing_member,
    rank_closing_members,
    rank_tasks_by_speed,
    select_confirmed_answers,
)
from oracle.domain.scoring.node_scores import (
    append_score_to_pool,
    build_prior_pool,
    count_pool_restarts,
    get_pool_before_score,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Ending, GroupMember, GroupResult, Node, Task

# `OpenGroup.tasks` is only ever appended to, so a group's tasks are in the chain's order.


def apply_group_validated(ledger: WorkingSet, event: GroupValidated) -> None:
    """Close the group that the event lists, if the rules use such events to close groups."""
    if len(set(event.tasks)) != len(event.tasks):
        ledger.record_anomaly(event, Violation.GROUP_NAMES_TASK_TWICE)
    elif ledger.rules.close == "validated":
        _close_group(ledger, event, event.group, event.tasks)


def add_task_to_group(ledger: WorkingSet, event: TaskCreated) -> None:
    """Add a created task to its group, if the group is still open."""
    if event.group is None:
        return
    existing_group = ledger.groups.get(event.group)
    if existing_group is None or not existing_group.closed:
        group = ledger.get_group_for_update(event.group)
        group.tasks = (*group.tasks, event.task)


def close_group_if_complete(ledger: WorkingSet, event: DomainEvent, task: Task) -> None:
    """Close the group of an ended task once it is full and all its tasks have ended."""
    group = None if task.group is None else ledger.groups.get(task.group)
    if group is None or group.closed or len(group.tasks) < ledger.rules.group_size:
        return
    if all(ledger.tasks[key].ending is not None for key in group.tasks):
        ledger.get_group_for_update(group.group).closed = True
        _close_group(ledger, event, group.group, group.tasks)


def _close_group(
    ledger: WorkingSet, event: DomainEvent, group: GroupKey, keys: Sequence[TaskKey]
) -> None:
    """Close a group, and score its members at once or at the end of the transaction."""
    if any(not closing_group.tasks.isdisjoint(keys) for closing_group in ledger.closing_groups):
        # A task is scored only once, by the group that closed first, so the earlier groups are
        # scored before this group.
        score_closed_groups(ledger)
    is_ranked = isinstance(event, GroupValidated) and event.ranked is True
    invalid_tasks = (event.invalid or ()) if isinstance(event, GroupValidated) else ()
    present_keys, known_tasks = _find_unscored_tasks(ledger, event, keys)
    task_by_key = {task.key: task for task in known_tasks}
    closing_group = ClosingGroup(
        group=group,
        at=event.at,
        time=event.time,
        size=max(len(keys), *(task.group_size or 0 for task in known_tasks), 0),
        members=tuple(build_closing_member(key, task_by_key.get(key)) for key in present_keys),
        answered=tuple(
            task.key
            for task in rank_tasks_by_speed(known_tasks, ledger.rules, is_ordered=is_ranked)
        ),
        invalid=frozenset(invalid_tasks),
        possible=(event.possible or ()) if isinstance(event, GroupValidated) else (),
    )
    ledger.closing_groups.append(closing_group)
    if ledger.rules.close == "terminal" or ledger.rules.ranked_answers == "all":
        score_closed_groups(ledger)


def score_closed_groups(ledger: WorkingSet) -> None:
    """Score the closed groups, using the verdicts applied so far."""
    closing_groups, ledger.closing_groups = ledger.closing_groups, []
    for closing_group in closing_groups:
        answered_tasks = [ledger.tasks[key] for key in closing_group.answered]
        if ledger.rules.ranked_answers == "right":
            answered_tasks = select_confirmed_answers(
                answered_tasks, closing_group.size, closing_group.invalid
            )
        members = rank_closing_members(
            closing_group.members, [task.key for task in answered_tasks], ledger.rules
        )
        members = legacy_round_scores.score_group_members(members, ledger.tasks, ledger.rules)
        if answered_tasks:
            members = (*members, *_iter_possible_members(ledger, closing_group))
        result = GroupResult(
            closing_group.group,
            closing_group.at,
            closing_group.time,
            members,
            bool(answered_tasks),
        )
        ledger.changes.results.append(result)
        for member in members if result.scored else ():
            spares_aborted_tasks = ledger.rules.pool_zero_only_on_timeout
            if not (spares_aborted_tasks and member.task in closing_group.invalid):
                _score_member(ledger, result, member)


def _iter_possible_members(
    ledger: WorkingSet, closing_group: ClosingGroup
) -> Iterator[GroupMember]:
    """Yield the tasks that may be members of the group, without rank and score."""
    for key in closing_group.possible:
        task = ledger.tasks.get(key)
        if task is not None and key not in closing_group.tasks and task.scored_in is None:
            yield GroupMember(key, task.node, None, None, None)


def _find_unscored_tasks(
    ledger: WorkingSet, event: DomainEvent, keys: Sequence[TaskKey]
) -> tuple[list[TaskKey], list[Task]]:
    """Return the tasks that no group has scored yet.

    The result has the keys of all of these tasks, and the rows of those that exist.
    """
    present_keys: list[TaskKey] = []
    known_tasks: list[Task] = []
    for key in keys:
        task = ledger.tasks.get(key)
        if task is None:
            ledger.record_anomaly(event, Violation.GROUP_NAMES_UNSEEN_TASK)
        elif task.scored_in is not None:
            ledger.record_anomaly(event, Violation.TASK_SCORED_BEFORE)
            continue
        else:
            known_tasks.append(task)
        present_keys.append(key)
    return present_keys, known_tasks


def _score_member(ledger: WorkingSet, result: GroupResult, member: GroupMember) -> None:
    if member.node is None or member.score is None:
        return
    task = ledger.get_task_for_update(member.task)
    task.scored_in = result.group
    if not _is_counted_in_pool(task, member, ledger.rules):
        return
    node = ledger.get_node_for_update(member.node, result.time)
    if ledger.rules.legacy is None:
        _append_score_to_node_pool(node, member.score, result.time, ledger.rules)
    else:
        legacy_round_scores.add_score_to_window(
            ledger, node, member.score, result.time, ledger.rules.legacy
        )
    node.scored += 1
    node.last_scored_at = result.time
    entry = ScoreEntry(
        node=node.address,
        seq=node.scored,
        task=member.task,
        group=result.group,
        rank=member.rank,
        elapsed=member.elapsed,
        score=member.score,
        at=result.closed_at,
        time=result.time,
    )
    ledger.changes.scores.append(entry)
    working_set.update_kickout_interval(ledger, node, ledger.at, result.time)


def _is_counted_in_pool(task: Task, member: GroupMember, rules: Rules) -> bool:
    """Return whether a member's score is added to its node's pool.

    If the rules spare aborted tasks, the score of an unranked task enters the pool only if the
    task timed out.
    """
    if member.rank is not None or not rules.pool_zero_only_on_timeout:
        return True
    return task.ending is Ending.TIMED_OUT


def _append_score_to_node_pool(node: Node, score: int, time: int, rules: Rules) -> None:
    pool = get_pool_before_score(node, time, rules)
    if node.prior is not None:
        pool = build_prior_pool(node.prior, rules)
        node.prior = None
    node.pool = append_score_to_pool(pool, score, rules)
    node.pool_sum = sum(node.pool)
    if rules.restarts:
        node.restarts = count_pool_restarts(time, rules)
