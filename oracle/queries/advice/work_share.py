"""Explains a node's share of the work by its chances in recent draws and by missed draws."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import pairwise

from pydantic import Field

from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import MembershipTransition
from oracle.domain.ids import GroupKey
from oracle.queries.advice.advice_record import AdviceRecord
from oracle.queries.answers import ApiModel, FixedPoint, Integer
from oracle.queries.api.draw_weights import find_draw_weighting
from oracle.queries.api.history_points import HistoryPoint, compute_points_at_times
from oracle.queries.api.recent_draws import RecentDraw
from oracle.queries.api.source import ApiSnapshot
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.crynux.crynux_policy import (
    Weighting,
    compute_locality_boost,
    compute_stake_score,
    compute_weight,
)
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    Requirement,
    find_misfit_reason,
)

_ASSUMPTION = (
    "Score, reliability, membership and running tasks as they were at each draw; stake, GPU, "
    "models and version as they are now."
)
_FOREVER = 1 << 62
_REASON_AFTER: Mapping[MembershipTransition, IneligibilityReason | None] = {
    MembershipTransition.JOINED: None,
    MembershipTransition.RESUMED: None,
    MembershipTransition.PAUSED: IneligibilityReason.PAUSED,
    MembershipTransition.QUIT: IneligibilityReason.NO_MEMBER,
    MembershipTransition.SLASHED: IneligibilityReason.NO_MEMBER,
    MembershipTransition.KICKED_OUT: IneligibilityReason.NO_MEMBER,
}


class MissedDraws(ApiModel):
    """The number of draws that a node missed for one reason."""

    reason: IneligibilityReason = Field(
        description=(
            "Why the node was not a candidate. `models_not_on_disk`: the drawn node has models on "
            "its disk that this node lacks."
        )
    )
    draws: int


class WorkShare(ApiModel):
    """A node's expected and actual share of the network's recent draws."""

    draws: int = Field(
        description="Number of draws that were examined: the newest ones, at most 500."
    )
    since: int = Field(description="Block time of the first of these draws, in unix seconds.")
    eligible: int = Field(description="Number of draws in which the node was a candidate.")
    missed: list[MissedDraws] = Field(
        description=(
            "Numbers of the other draws by the reason for which the node was no candidate, most "
            "frequent reason first."
        )
    )
    received: int = Field(description="Number of draws that selected the node.")
    expected: FixedPoint = Field(
        description=(
            "Number of draws that would have selected the node on average: the sum of its "
            "weight divided by the total weight, over the draws in which it was a candidate."
        )
    )
    fees: Integer = Field(description="Sum of the known task fees over all these draws.")
    fees_received: Integer = Field(
        description=(
            "Sum of the fees of the tasks for which the node was drawn. The members of a task's "
            "group share its fee."
        )
    )
    fees_expected: Integer = Field(
        description=(
            "Sum of the fees of these tasks, each multiplied by the node's chance to be drawn."
        )
    )
    stake_score: FixedPoint = Field(description="Stake factor S of the node's current weight.")
    qos: FixedPoint | None = Field(
        description="QoS factor of the node's current weight; null if the node is not a member."
    )
    weight: FixedPoint | None = Field(
        description=(
            "Current weight of the node for a task that needs no model; null if the node is not "
            "a member."
        )
    )
    assumption: str = _ASSUMPTION


def build_work_share(snapshot: ApiSnapshot, record: AdviceRecord) -> WorkShare | None:
    """Return a node's expected and actual share of the recent draws.

    The result is None if the network's draws do not use a `Weighting`, or if there were none.
    """
    weighting = find_draw_weighting(record.rules, snapshot.source.dispatch)
    recent_draws = snapshot.get_recent_draws()
    if weighting is None or not recent_draws:
        return None
    node = record.node
    ranking = snapshot.get_ranking()
    stake_score = compute_stake_score(
        node.stake, ranking.get_draw_weights(weighting).largest_stake
    )
    draw_chances = list(iter_draw_chances(snapshot, record, weighting, stake_score))
    expected_fees = sum(
        row.fee * chance for row, (_, chance) in zip(recent_draws, draw_chances, strict=True)
    )
    received_draws = [row for row in recent_draws if row.draw.node == node.address]
    missed_counts = Counter(reason for reason, _ in draw_chances if reason is not None)
    qos = ranking.compute_qos(node)
    return WorkShare(
        draws=len(recent_draws),
        since=recent_draws[0].draw.seed_time,
        eligible=len(recent_draws) - missed_counts.total(),
        missed=[
            MissedDraws(reason=reason, draws=count)
            for reason, count in missed_counts.most_common()
        ],
        received=len(received_draws),
        expected=sum(chance for _, chance in draw_chances),
        fees=sum(row.fee for row in recent_draws),
        fees_received=sum(row.fee for row in received_draws),
        fees_expected=expected_fees // UNIT,
        stake_score=stake_score,
        qos=qos,
        weight=None if qos is None else compute_weight(UNIT, stake_score, qos, weighting),
    )


def iter_draw_chances(
    snapshot: ApiSnapshot, record: AdviceRecord, weighting: Weighting, stake_score: int
) -> Iterator[tuple[IneligibilityReason | None, int]]:
    """Yield the node's chance in each recent draw, or why it was not a candidate.

    Chances are in units of 10^-18, and 0 if the node was not a candidate.
    """
    node = record.node
    recent_draws = snapshot.get_recent_draws()
    draw_times = [row.draw.seed_time for row in recent_draws]
    points = list(compute_points_at_times(record.history, draw_times, record.rules))
    past_node = _PastNode(snapshot, record, weighting)

    @cache
    def compute_model_boost(models: tuple[str, ...], in_use: tuple[str, ...]) -> int:
        counted_models = weighting.select_counted_models(models)
        return compute_locality_boost(replace(node, in_use=in_use), counted_models, weighting)

    # Draws of the same block have the same QoS and models in use, so most calls hit this cache.
    @lru_cache(maxsize=16)
    def compute_draw_weight(models: tuple[str, ...], in_use: tuple[str, ...], qos: int) -> int:
        return compute_weight(compute_model_boost(models, in_use), stake_score, qos, weighting)

    for row, time, point, reason in zip(
        recent_draws, draw_times, points, past_node.list_ineligibility_reasons(points), strict=True
    ):
        if reason is not None:
            yield reason, 0
            continue
        models_in_use = past_node.get_models_in_use(time)
        weight = compute_draw_weight(row.requirement.models, models_in_use, point.qos)
        yield None, _compute_chance(row.draw, weight)


def _compute_chance(draw: StoredDraw, weight: int) -> int:
    """Return a candidate's chance in a draw from its weight, in units of 10^-18."""
    if draw.total_weight == draw.candidate_count:
        # If all weights were 0, every candidate had the weight 1.
        return UNIT // draw.candidate_count
    return min(UNIT, weight * UNIT // draw.total_weight)


class _PastNode:
    """The state of a node at past draws, restored from its stored membership, draws and tasks."""

    def __init__(self, snapshot: ApiSnapshot, record: AdviceRecord, weighting: Weighting) -> None:
        self._node = record.node
        self._nodes = snapshot.get_ranking().nodes
        self._weighting = weighting
        self._draws = snapshot.get_recent_draws()
        self._membership_changes = [
            change
            for change in record.history.membership_changes
            if change.transition in _REASON_AFTER
        ]
        # Block ranges in which the node was reserved for a task, and time ranges in which it ran a
        # task.
        self._reserved_spans: list[tuple[int, int]] = []
        self._busy_spans: list[tuple[int, int]] = []
        self._start_by_group: dict[GroupKey | None, int] = {}
        # Models of the tasks that the node has started. The newest of them are in GPU memory.
        self._start_times: list[int] = []
        self._models_after_starts: list[tuple[str, ...]] = [()]
        self._result_by_requirement: dict[
            Requirement, tuple[IneligibilityReason | None, frozenset[str]]
        ] = {}
        self._load_node_draws(snapshot)

    def get_models_in_use(self, time: int) -> tuple[str, ...]:
        """Return the models that were in the node's GPU memory at a block time."""
        return self._models_after_starts[bisect_right(self._start_times, time)]

    def list_ineligibility_reasons(
        self, points: Sequence[HistoryPoint]
    ) -> list[IneligibilityReason | None]:
        """Return why the node was not a candidate in each draw.

        The reason is None for a draw in which the node was a candidate. `points` are the node's
        scores at the draws. Draws are in the order of their blocks, so the time between two events
        of the node is a range of draws. If several reasons apply, the one that is set last wins;
        it is the first one in `IneligibilityReason`.
        """
        blocks = [row.draw.seed_block for row in self._draws]
        draw_times = [row.draw.seed_time for row in self._draws]
        own_indexes = [
            index for index, row in enumerate(self._draws) if row.draw.node == self._node.address
        ]
        reasons = list(map(self._find_misfit_reason, self._draws))
        for index in own_indexes:
            # Once drawn, a node is not a candidate for the later draws of the same block.
            later_rows = slice(index + 1, bisect_right(blocks, blocks[index]))
            _fill(reasons, later_rows, IneligibilityReason.TAKEN)
        for span in _iter_span_slices(blocks, self._reserved_spans):
            _fill(reasons, span, IneligibilityReason.TAKEN)
        for index, (row, point) in enumerate(zip(self._draws, points, strict=True)):
            if point.is_excluded:
                reasons[index] = IneligibilityReason.EXCLUDED
            elif self._start_by_group.get(row.group, _FOREVER) <= point.time:
                reasons[index] = IneligibilityReason.TAKEN
        for span in _iter_span_slices(draw_times, self._busy_spans):
            _fill(reasons, span, IneligibilityReason.BUSY)
        self._fill_membership_reasons(reasons, draw_times)
        for index in own_indexes:
            reasons[index] = None
        return reasons

    def _fill_membership_reasons(
        self, reasons: list[IneligibilityReason | None], times: Sequence[int]
    ) -> None:
        changes = self._membership_changes
        change_indexes = [0, *(bisect_left(times, change.time) for change in changes), len(times)]
        has_joined_first = bool(changes) and changes[0].transition is MembershipTransition.JOINED
        reason_by_bound = [
            IneligibilityReason.NO_MEMBER if has_joined_first else None,
            *(_REASON_AFTER[change.transition] for change in changes),
        ]
        for reason, (start, end) in zip(reason_by_bound, pairwise(change_indexes), strict=True):
            if reason is not None:
                _fill(reasons, slice(start, end), reason)

    def _load_node_draws(self, snapshot: ApiSnapshot) -> None:
        """Load the spans in which the node was reserved or busy because of its own draws."""
        address = self._node.address
        # Load one draw more than the node's recent ones, because the task of an earlier draw may
        # still have been running during them.
        draw_limit = 1 + sum(row.draw.node == address for row in self._draws)
        draws = snapshot.uow.draws.list_for_node(address, draw_limit)
        tasks = snapshot.uow.tasks.get_many({draw.task for draw in draws})
        for draw in reversed(draws):
            self._reserved_spans.append((draw.seed_block + 1, draw.voided_block or _FOREVER))
            task = tasks.get(draw.task)
            if task is None or task.node != address or task.started_time is None:
                continue
            free_time = task.stopped_time if task.freed else task.ended_time
            self._busy_spans.append((task.started_time, free_time or _FOREVER))
            self._start_times.append(task.started_time)
            self._models_after_starts.append(task.models)
            if task.group is not None:
                self._start_by_group.setdefault(task.group, task.started_time)

    def _find_misfit_reason(self, row: RecentDraw) -> IneligibilityReason | None:
        """Return why the node could not run the task of another node's draw.

        The result is None if the node could run the task.
        """
        reason, lacked_models = self._evaluate_requirement(row.requirement)
        if reason is not None or not lacked_models:
            return reason
        drawn_node = self._nodes.get(row.draw.node)
        is_fallback = drawn_node is None or not lacked_models.issubset(drawn_node.models)
        if self._weighting.fallback and is_fallback:
            return None
        return IneligibilityReason.MODELS_NOT_ON_DISK

    def _evaluate_requirement(
        self, requirement: Requirement
    ) -> tuple[IneligibilityReason | None, frozenset[str]]:
        """Return why the node does not meet a requirement, and which required models it lacks.

        Only models that count for the draw's weights are returned.
        """
        reason_and_lacked_models = self._result_by_requirement.get(requirement)
        if reason_and_lacked_models is None:
            models = self._weighting.select_counted_models(requirement.models)
            has_models = models.issubset(self._node.models)
            reason = find_misfit_reason(self._node, requirement)
            reason_and_lacked_models = reason, frozenset() if has_models else models
            self._result_by_requirement[requirement] = reason_and_lacked_models
        return reason_and_lacked_models


def _iter_span_slices(points: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[slice]:
    """Yield the slice of `points` that lies in each half-open span.

    Points are blocks or times. `points` and `spans` are ascending. A span that overlaps the next
    one ends where the next one begins.
    """
    for (start, end), (next_start, _) in pairwise([*spans, (_FOREVER, _FOREVER)]):
        yield slice(bisect_left(points, start), bisect_left(points, min(end, next_start)))


def _fill(
    reasons: list[IneligibilityReason | None], span: slice, reason: IneligibilityReason
) -> None:
    reasons[span] = [reason] * (span.stop - span.start)
