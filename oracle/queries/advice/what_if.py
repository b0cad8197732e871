"""Computes a node's scores for other answer times by ranking its recent groups again."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from pydantic import Field

from oracle.domain.fixed_point import ONE, UNIT, compute_decay, multiply_fixed_point
from oracle.domain.fold.working_set import ReliabilityChange
from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import (
    ClosingMember,
    get_points_for_rank,
    rank_closing_members,
    rank_tasks_by_speed,
    split_group_fee,
)
from oracle.domain.scoring.node_scores import (
    compute_pool_mean,
    compute_reliability,
    heal_reliability,
)
from oracle.domain.scoring.reliability import ReliabilityCause, change_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, GroupResult, Task, copy_task
from oracle.queries.advice.advice_record import AdviceRecord, ScoredTask
from oracle.queries.advice.gpu_speeds import GpuSpeed
from oracle.queries.answers import ApiModel, FixedPoint, Integer

# A node that is "20 % faster" takes 20 % less time per answer.
_FASTER_RATIO = 4 * UNIT // 5
_DAY_SECONDS = 86_400
# Forecasts use the mean of reliability (H) over a day, because H itself changes within minutes.
MEAN_SECONDS = 86_400
_ASSUMPTION = (
    "Its last groups, ranked again by the rules in force; the other nodes and its number of tasks "
    "stay as they are. Reliability is its mean of the last 24 hours."
)


Change = Literal["as_it_is", "one_timeout_fewer", "faster", "another_gpu"]


class WhatIfRow(ApiModel):
    """The QoS, fees and rank that a node would have after one change."""

    change: Change = Field(
        description=(
            "The condition that differs. `faster`: each answer of the node takes four fifths of "
            "its time. `another_gpu`: each answer takes its time multiplied by "
            "`gpu.time_ratio`."
        )
    )
    gpu: GpuSpeed | None = Field(
        default=None, description="The other GPU, if `change` is `another_gpu`; otherwise null."
    )
    mean_score: FixedPoint = Field(
        description="Mean of the node's task scores under this condition, in points."
    )
    qos: FixedPoint = Field(
        description=(
            "QoS under this condition. It is computed with `reliability`, which one timeout "
            "fewer raises, and not with the current reliability."
        )
    )
    rank: int | None = Field(
        description=(
            "Rank of the node among the current members with this QoS, from 1; null if it has "
            "no rank."
        )
    )
    chance: FixedPoint | None = Field(
        description=(
            "Chance that the node is drawn for the next task: its weight divided by the sum of "
            "the weights of all members that are neither paused nor excluded, including itself; "
            "null if the policy has no such weights, or if all weights are 0."
        )
    )
    fees_per_day: Integer | None = Field(
        description=(
            "Fees per day for as many tasks as the node gets now, in the smallest unit of the "
            "token; null if `money.per_day` is null."
        )
    )


class WhatIf(ApiModel):
    """The current QoS, fees and rank of a node, and those after each single change."""

    groups: int = Field(description="Number of groups that were ranked again.")
    reliability: FixedPoint = Field(
        description=(
            "Mean of H over the last 24 hours, or since the node's first event if that is later."
        )
    )
    reliability_now: FixedPoint = Field(description="H at the time of the block in `as_of`.")
    rows: list[WhatIfRow]
    gpus: list[GpuSpeed] = Field(
        description=(
            "The GPUs of all members, at most 50, most frequent first. `rows` has a row for "
            "each GPU with a `time_ratio`."
        )
    )
    assumption: str = _ASSUMPTION


def build_what_if(
    record: AdviceRecord,
    find_rank: Callable[[int], int | None],
    compute_chance: Callable[[int], int | None],
    gpus: Sequence[GpuSpeed] = (),
    seconds: int | None = None,
) -> WhatIf | None:
    """Compute a node's QoS, fees and rank after each single change.

    `find_rank` and `compute_chance` return the rank of the node, and its chance of a task, if its
    QoS were the given one. `gpus` are the GPUs of the network. `seconds` is the time in which
    the node earned the fees of its scored tasks, or None if that time is too short to compute fees
    per day. The result is None if none of the node's groups can be ranked again, or if the node's
    pool differs from its stored scores, which happens under rules that replace pools (rule set
    `relay`).
    """
    pool = bytes(entry.score for entry in record.entries)
    if not pool or pool != record.node.pool or record.rules.legacy is not None:
        return None
    other_gpus = [gpu for gpu in gpus if gpu.time_ratio is not None]
    ratios = [_FASTER_RATIO, *(gpu.time_ratio or 0 for gpu in other_gpus)]
    replay = _replay_groups(record, ratios)
    if replay is None:
        return None
    group_count, (faster_result, *gpu_results) = replay
    reliability = compute_mean_reliability(record)

    def build_row(
        change: Change, result: tuple[bytes, int], mean_reliability: int, gpu: GpuSpeed | None
    ) -> WhatIfRow:
        scores, earned_fees = result
        qos = multiply_fixed_point(compute_pool_mean(scores, None, record.rules), mean_reliability)
        return WhatIfRow(
            change=change,
            gpu=gpu,
            mean_score=sum(scores) * UNIT // len(scores),
            qos=qos,
            rank=find_rank(qos),
            chance=compute_chance(qos),
            fees_per_day=None if seconds is None else earned_fees * _DAY_SECONDS // seconds,
        )

    rows = [build_row("as_it_is", (pool, _sum_fee_shares(record)), reliability, None)]
    timeout_index = _find_last_timeout_index(record.changes)
    if timeout_index is not None:
        result_without_timeout = _replay_without_timeout(record, record.changes[timeout_index])
        reliability_without_timeout = compute_mean_reliability(record, timeout_index)
        rows.append(
            build_row(
                "one_timeout_fewer", result_without_timeout, reliability_without_timeout, None
            )
        )
    rows.append(build_row("faster", faster_result, reliability, None))
    rows += [
        build_row("another_gpu", result, reliability, gpu)
        for result, gpu in zip(gpu_results, other_gpus, strict=True)
    ]
    return WhatIf(
        groups=group_count,
        reliability=reliability,
        reliability_now=compute_reliability(record.node, record.time, record.rules),
        rows=rows,
        gpus=list(gpus),
    )


def _replay_groups(
    record: AdviceRecord, ratios: Sequence[int]
) -> tuple[int, list[tuple[bytes, int]]] | None:
    """Compute the node's scores and fees with its answer times scaled by each ratio.

    Ratios are in units of 10^-18. The first value is the number of groups that could be ranked
    again, the second one has the scores and the sum of the fees for each ratio. Groups that cannot
    be ranked again keep their scores and fees. The result is None if no group can be ranked again.
    """
    group_count = 0
    scores_by_ratio = [bytearray(entry.score for entry in record.entries) for _ in ratios]
    earned_fees = _sum_fee_shares(record)
    earned_fees_by_ratio = [earned_fees for _ in ratios]
    index_by_seq = {entry.seq: index for index, entry in enumerate(record.entries)}
    for scored_task in record.scored_tasks:
        ranked_tasks = restore_ranked_tasks(scored_task.group, record.task_by_key, record.rules)
        if ranked_tasks is None:
            continue
        group_count += 1
        elapsed = scored_task.member.elapsed
        if scored_task.member.rank is None or elapsed is None:
            continue
        rank_again = _build_cached_replay(record, scored_task, ranked_tasks)
        fee_before = scored_task.fee_share or 0
        for index, ratio in enumerate(ratios):
            new_score, new_fee = rank_again(elapsed * ratio // UNIT)
            scores_by_ratio[index][index_by_seq[scored_task.entry.seq]] = new_score
            earned_fees_by_ratio[index] += new_fee - fee_before
    results = zip(map(bytes, scores_by_ratio), earned_fees_by_ratio, strict=True)
    return (group_count, list(results)) if group_count else None


def _build_cached_replay(
    record: AdviceRecord, scored_task: ScoredTask, ranked_tasks: Mapping[TaskKey, Task]
) -> Callable[[int], tuple[int, int]]:
    """Return a cached function that computes the node's score and fee from its answer time.

    Times are in seconds. Ranks depend only on the order of the times, so the function ranks the
    group once for each possible order. The measured order is not ranked, because its score and fee
    are stored.
    """
    key, group = scored_task.entry.task, scored_task.group
    other_times = sorted(
        [
            member.elapsed or 0
            for member in group.members
            if member.rank is not None and member.task != key
        ]
    )

    def find_order(elapsed: int) -> tuple[int, int]:
        return bisect_left(other_times, elapsed), bisect_right(other_times, elapsed)

    stored_score_and_fee = scored_task.entry.score, scored_task.fee_share or 0
    result_by_order = {find_order(scored_task.member.elapsed or 0): stored_score_and_fee}

    def rank_again(elapsed: int) -> tuple[int, int]:
        order = find_order(elapsed)
        if order not in result_by_order:
            reranked_members = rank_with_changed_times(
                group, ranked_tasks, record.rules, {key: elapsed}
            )
            new_fee = _compute_fee_share(scored_task, list(reranked_members.values()))
            result_by_order[order] = reranked_members[key].score or 0, new_fee
        return result_by_order[order]

    return rank_again


def _sum_fee_shares(record: AdviceRecord) -> int:
    return sum(scored_task.fee_share or 0 for scored_task in record.scored_tasks)


def _compute_fee_share(scored_task: ScoredTask, members: Sequence[GroupMember]) -> int:
    """Return the node's share of a group's fee if its members had these scores.

    The result is 0 if the fee is not known.
    """
    if scored_task.fee is None:
        return 0
    return split_group_fee(scored_task.fee, members)[scored_task.entry.task]


def _find_last_timeout_index(changes: Sequence[ReliabilityChange]) -> int | None:
    """Return the index of the last timeout that lowered the node's reliability, or None."""
    return next(
        (
            index
            for index in reversed(range(len(changes)))
            if changes[index].cause is ReliabilityCause.TIMED_OUT
        ),
        None,
    )


def _replay_without_timeout(record: AdviceRecord, timeout: ReliabilityChange) -> tuple[bytes, int]:
    """Compute the node's scores and fees as if it had answered the timed-out task last."""
    scores = [entry.score for entry in record.entries]
    earned_fees = _sum_fee_shares(record)
    index_by_seq = {entry.seq: index for index, entry in enumerate(record.entries)}
    for scored_task in record.scored_tasks:
        entry = scored_task.entry
        if entry.task == timeout.task and entry.rank is None:
            new_score = compute_last_place_score(scored_task, record.rules)
            members = [
                member._replace(score=new_score) if member.task == entry.task else member
                for member in scored_task.group.members
            ]
            scores[index_by_seq[entry.seq]] = new_score
            earned_fees += _compute_fee_share(scored_task, members) - (scored_task.fee_share or 0)
    return bytes(scores), earned_fees


def compute_last_place_score(scored_task: ScoredTask, rules: Rules) -> int:
    """Return the score of an unanswered task as if it had been answered last."""
    ranked_count = sum(member.rank is not None for member in scored_task.group.members)
    return get_points_for_rank(ranked_count + 1, rules)


def compute_mean_reliability(record: AdviceRecord, omitted_index: int | None = None) -> int:
    """Return the node's mean reliability (H) in the last `MEAN_SECONDS`.

    The mean begins at `known_since` if that is later than the start of the last `MEAN_SECONDS`.

    The change with the index `omitted_index` counts as if it had not happened.
    """
    window_start = max(record.known_since, record.time - MEAN_SECONDS)
    steps = list_reliability_steps(record, omitted_index)
    if record.time <= window_start:
        time, base = steps[-1]
        return heal_reliability(base, time, record.time, record.rules)
    missing_reliability, tau_seconds = 0, record.rules.tau_seconds
    for (time, base), (next_time, _) in pairwise([*steps, (record.time, 0)]):
        start = max(time, window_start)
        if next_time > start:
            lost_reliability = UNIT - heal_reliability(base, time, start, record.rules)
            # The gap between H and 1 decays as gap * exp(-s/tau). This expression is its integral
            # up to `next_time`.
            missing_reliability += (
                lost_reliability
                * tau_seconds
                * (ONE - compute_decay(next_time - start, tau_seconds))
            )
    return UNIT - missing_reliability // (ONE * (record.time - window_start))


def list_reliability_steps(
    record: AdviceRecord, omitted_index: int | None = None
) -> list[tuple[int, int]]:
    """Return the time and the new value of each reliability change since `known_since`.

    Times are block times. If a change is omitted, all later changes are applied again. A success
    at a reliability of 1 has no stored change; the reliability would also be 1 at this success if
    a change is omitted, so nothing is missing.
    """
    rules, changes = record.rules, record.changes
    steps = [(record.known_since, changes[0].before if changes else UNIT)]
    if omitted_index is None:
        return steps + [(change.time, change.after) for change in changes]
    omitted_change = changes[omitted_index]
    for change in changes:
        if change.cause is ReliabilityCause.TIMEOUT_VOID or change is omitted_change:
            continue
        if change.at < omitted_change.at or change.cause is ReliabilityCause.JOINED:
            steps.append((change.time, change.after))
            continue
        reliability = heal_reliability(steps[-1][1], steps[-1][0], change.time, rules)
        steps.append((change.time, change_reliability(change.cause, reliability, rules)))
    return steps


def restore_ranked_tasks(
    group: GroupResult, task_by_key: Mapping[TaskKey, Task], rules: Rules
) -> dict[TaskKey, Task] | None:
    """Restore the ranked tasks of a group as they were when the group closed.

    The result is None under legacy rules, if a task is not stored, or if the ranks do not follow
    from the times that the network reported.
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
    """Rank a group's members again with changed answer times for some tasks.

    Times are in seconds.
    """
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
            # There is no limit on credible times, because every member with a score has already
            # passed it.
            None,
        )
        for member in group.members
    ]
    ranked_keys = [task.key for task in rank_tasks_by_speed(list(tasks.values()), rules)]
    return {
        member.task: member for member in rank_closing_members(closing_members, ranked_keys, rules)
    }


def _remove_task_ending(task: Task) -> Task:
    """Return the task without its ending, as it was when its group closed.

    A task that has no ending is returned unchanged, all others are copied.
    """
    if task.ending is None and task.abort_reason is None:
        return task
    closing_task = copy_task(task)
    closing_task.ending = closing_task.abort_reason = None
    return closing_task
