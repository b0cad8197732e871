"""Computes the history of a node's scores, and the short QoS trends of many nodes.

Between two events the long-term score is constant and H only rises. Every extreme value is
therefore just before or after an event, or at an end of the span
(docs/reference/read-api.md#history). Trends are the sparklines in the rows of a list: one query
covers all requested nodes that changed (docs/reference/read-api.md#trends-in-lists).
"""

import threading
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.fold.working_set import (
    KickoutDue,
    MembershipChange,
    MembershipTransition,
    ReliabilityChange,
    ScoreEntry,
)
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import (
    append_score_to_pool,
    compute_exclusion_end_time,
    compute_long_term_score,
    compute_pool_mean,
    heal_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.store.activity_repository import NodeTrendPoint
from oracle.store.database import UnitOfWork

# Number of points that are added where H recovers without events, so that the curve is smooth.
_HEALING_POINTS = 24
_MIN_RISE = UNIT // 100
# Each bucket keeps its first and last point, and the points with the lowest and highest QoS and H.
_POINTS_PER_BUCKET = 6


class HistoryPoint(NamedTuple):
    """The scores of a node at a block time, in units of 10^-18."""

    time: int
    qos: int
    long_term: int
    reliability: int
    is_excluded: bool


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node's stored history; each list is in order, and `earlier_scores` precede the span."""

    earlier_scores: list[ScoreEntry]
    scores: list[ScoreEntry]
    changes: list[ReliabilityChange]
    kickout_intervals: list[KickoutDue]
    membership_changes: list[MembershipChange]


def compute_history_points(
    record: NodeRecord, span: tuple[int, int], rules: Rules
) -> Iterator[HistoryPoint]:
    """Yield the points of a time span in order, with one before and one after each event."""
    span_start, span_end = span
    replay = _ScoreReplay(record, span_start, rules)
    yield replay.compute_point(span_start)
    sample_time = span_start
    for event in _list_span_events(record, span_start, span_end):
        yield from _sample_recovery_points(replay.compute_point, sample_time, event.time)
        sample_time = event.time
        yield replay.compute_point(sample_time)
        replay.apply_event(event)
        yield replay.compute_point(sample_time)
    yield from _sample_recovery_points(replay.compute_point, sample_time, span_end)
    yield replay.compute_point(span_end)


def compute_points_at_times(
    record: NodeRecord, times: Sequence[int], rules: Rules
) -> Iterator[HistoryPoint]:
    """Yield the node's scores at each of the given block times.

    Times are ascending. Each point includes all events up to its time.
    """
    if not times:
        return
    replay = _ScoreReplay(record, times[0], rules)
    events = deque(_list_span_events(record, times[0], times[-1]))
    for time, equal_times in groupby(times):
        while events and events[0].time <= time:
            replay.apply_event(events.popleft())
        point = replay.compute_point(time)
        for _ in equal_times:
            yield point


class _ScoreReplay:
    """Replays a node's recorded events, and tracks its score pool and reliability."""

    def __init__(self, record: NodeRecord, start_time: int, rules: Rules) -> None:
        """Restore the state just before `start_time`, a block time in seconds."""
        self._rules = rules
        reset_changes = list(_iter_reset_joins(record)) if rules.kickout_starts_anew else []
        self._reset_positions = {change.at for change in reset_changes}
        self._pool = _compute_pool_before(record, reset_changes, start_time, rules)
        self._base, self._since = _find_reliability_before(record.changes, start_time)
        self._was_excluded = False
        for change in record.changes:
            if change.time < start_time:
                self._update_exclusion(change)
        self._mean = compute_pool_mean(self._pool, None, rules)

    def apply_event(self, event: ScoreEntry | ReliabilityChange) -> None:
        if isinstance(event, ScoreEntry):
            self._pool = append_score_to_pool(self._pool, event.score, self._rules)
        else:
            self._base, self._since = event.after, event.time
            self._update_exclusion(event)
            if event.at in self._reset_positions:
                self._pool = b""
        self._mean = compute_pool_mean(self._pool, None, self._rules)

    def compute_point(self, time: int) -> HistoryPoint:
        reliability = heal_reliability(self._base, self._since, time, self._rules)
        qos = multiply_fixed_point(self._mean, reliability)
        is_excluded = self._was_excluded and reliability < self._rules.exclude_exit
        return HistoryPoint(time, qos, self._mean, reliability, is_excluded)

    def _update_exclusion(self, change: ReliabilityChange) -> None:
        """Record whether the node is excluded immediately after a reliability change."""
        is_still_excluded = self._was_excluded and max(change.before, change.after) < (
            self._rules.exclude_exit
        )
        self._was_excluded = is_still_excluded or change.after < self._rules.exclude_enter


def downsample_points(points: list[HistoryPoint], max_points: int) -> list[HistoryPoint]:
    """Reduce points to at most `max_points` (12 or more), keeping the extreme values.

    The time is divided into equal buckets. Each bucket keeps its first and last point, and the
    minimum and maximum of QoS and of H (M4 of Jugel et al., VLDB 2014, for two curves). No point
    is interpolated.
    """
    bucket_count = max(1, max_points // _POINTS_PER_BUCKET)
    start_time = points[0].time
    span_seconds = points[-1].time - points[0].time + 1
    indexes_by_bucket: dict[int, list[int]] = {}
    for index, point in enumerate(points):
        indexes_by_bucket.setdefault(
            (point.time - start_time) * bucket_count // span_seconds, []
        ).append(index)
    kept_indexes: set[int] = set()
    for bucket_indexes in indexes_by_bucket.values():
        kept_indexes |= {bucket_indexes[0], bucket_indexes[-1]}
        for column in ("qos", "reliability"):
            values_with_indexes = [
                (getattr(points[index], column), index) for index in bucket_indexes
            ]
            kept_indexes |= {min(values_with_indexes)[1], max(values_with_indexes)[1]}
    return [points[index] for index in sorted(kept_indexes)]


def find_approximation_reason(rules: Rules) -> str | None:
    """Return why a computed history may differ from the actual scores.

    The result is None if the history is exact.
    """
    if rules.legacy is not None:
        return "under legacy rules a score depends on all other nodes; use `explain`"
    if rules.restarts or rules.rejoin_floor is not None:
        return "these rules restart pools, which the stored history does not record"
    return None


def find_exclusion_end_time(base_reliability: int, since: int, rules: Rules) -> int | None:
    """Return when recovery alone ends an exclusion, or None if the node is not excluded."""
    if base_reliability >= rules.exclude_enter:
        return None
    return compute_exclusion_end_time(base_reliability, since, rules)


def _list_span_events(
    record: NodeRecord, span_start: int, span_end: int
) -> list[ScoreEntry | ReliabilityChange]:
    """Return the events inside the span, in order of position."""
    changes = [change for change in record.changes if span_start <= change.time <= span_end]
    events: list[ScoreEntry | ReliabilityChange] = [*record.scores, *changes]
    return sorted(events, key=lambda event: event.at)


def _compute_pool_before(
    record: NodeRecord, reset_changes: list[MembershipChange], before_time: int, rules: Rules
) -> bytes:
    """Return the score pool just before a block time, from the scores since the last reset."""
    last_reset = max(
        (change.at for change in reset_changes if change.time < before_time), default=None
    )
    pool = b""
    for entry in record.earlier_scores:
        if last_reset is None or last_reset < entry.at:
            pool = append_score_to_pool(pool, entry.score, rules)
    return pool


def _find_reliability_before(changes: list[ReliabilityChange], time: int) -> tuple[int, int]:
    """Return the last base reliability set before a time, and when it was set.

    The result is 1 and `time` if no change is earlier than `time`.
    """
    earlier_changes = [change for change in changes if change.time < time]
    if earlier_changes:
        return (earlier_changes[-1].after, earlier_changes[-1].time)
    return (UNIT, time)


def _iter_reset_joins(record: NodeRecord) -> Iterator[MembershipChange]:
    """Yield the joins that reset a node: the first join after each kickout that was due.

    A kickout was due if it closed one of the stored intervals
    (docs/reference/scoring-rules.md#qos-and-kickout).
    """
    closing_positions = {interval.closed_at for interval in record.kickout_intervals}
    is_reset_pending = False
    for change in record.membership_changes:
        if change.transition is MembershipTransition.KICKED_OUT:
            is_reset_pending = change.at in closing_positions
        elif change.transition is MembershipTransition.JOINED and is_reset_pending:
            is_reset_pending = False
            yield change


def _sample_recovery_points(
    point_at: Callable[[int], HistoryPoint], start_time: int, end_time: int
) -> Iterator[HistoryPoint]:
    """Yield points at equal steps of reliability in a span of uninterrupted recovery."""
    start_reliability = point_at(start_time).reliability
    end_reliability = point_at(end_time).reliability
    if end_reliability - start_reliability < _MIN_RISE:
        return
    for step in range(1, _HEALING_POINTS):
        target_reliability = (
            start_reliability + (end_reliability - start_reliability) * step // _HEALING_POINTS
        )
        time = start_time + bisect_left(
            range(start_time, end_time),
            target_reliability,
            key=lambda moment: point_at(moment).reliability,
        )
        if start_time < time < end_time:
            yield point_at(time)


# Maximum number of values in a trend. Each belongs to a block that changed the node.
MAX_TREND_POINTS = 30
_MAX_CACHED = 20_000


class TrendCache:
    """A thread-safe cache of QoS trends, each valid as long as the node's row is unchanged."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[int | str, ...], tuple[int, ...]] = OrderedDict()

    def load_trends(
        self, uow: UnitOfWork, nodes: Sequence[Node], generation: int
    ) -> dict[Address, tuple[int, ...]]:
        """Return the QoS of each node after the recent blocks that changed it, oldest first.

        Values are in units of 10^-18. A node is left out if its stored history does not lead to
        the values of its row; all nodes are left out under rules that compare nodes or restart
        pools. `generation` is part of the cache key, because a row may have the same key fields as
        before a rewind but other values.
        """
        if find_approximation_reason(self._rules) is not None:
            return {}
        # A node's trend depends only on these fields of its row.
        cache_key_by_node = {
            node.address: (
                generation,
                node.address,
                node.changed_at,
                node.scored,
                node.base,
                node.since,
            )
            for node in nodes
        }
        with self._lock:
            cached_trends = {
                address: self._cached[key]
                for address, key in cache_key_by_node.items()
                if key in self._cached
            }
        uncached_nodes = {
            node.address: node for node in nodes if node.address not in cached_trends
        }
        max_steps = self._rules.pool_size + MAX_TREND_POINTS
        points_by_node = (
            uow.activity.get_trend_points_by_node(uncached_nodes, max_steps)
            if uncached_nodes
            else {}
        )
        computed_trends = {
            address: compute_qos_trend(points_by_node.get(address, []), node, self._rules)
            for address, node in uncached_nodes.items()
        }
        with self._lock:
            self._cached.update(
                (cache_key_by_node[address], trend) for address, trend in computed_trends.items()
            )
            while len(self._cached) > _MAX_CACHED:
                self._cached.popitem(last=False)
        return {
            address: trend for address, trend in (cached_trends | computed_trends).items() if trend
        }


def compute_qos_trend(
    steps: Sequence[NodeTrendPoint], node: Node, rules: Rules
) -> tuple[int, ...]:
    """Return the node's QoS at the end of each recent block that changed it, oldest first.

    `steps` are the node's scores and changes of H in the order of blocks. The result is empty if
    the steps do not lead to the stored values of `node`.
    """
    pool, score_count, mean_score = b"", 0, rules.new_node_long_term
    base, since = UNIT, 0
    qos_by_block: dict[int, int] = {}
    score_step_count = sum(step.score is not None for step in steps)
    for step in steps:
        if step.score is not None:
            pool = append_score_to_pool(pool, step.score, rules)
            score_count = score_count + 1
            mean_score = compute_pool_mean(pool, None, rules)
        else:
            base, since = step.reliability, step.time
        if score_count >= rules.pool_size or score_step_count == node.scored:
            qos_by_block[step.block] = multiply_fixed_point(
                mean_score, heal_reliability(base, since, step.time, rules)
            )
    matches_stored_node = (
        mean_score == compute_long_term_score(node, rules, since) and base == node.base
    )
    return tuple(qos_by_block.values())[-MAX_TREND_POINTS:] if matches_stored_node else ()
