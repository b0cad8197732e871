"""What a node's record says at a time: attempts, success rate, latencies, failure.

Reading changes nothing; what a reading does to the failure flag is handed back.
See docs/explanation/pocket.md#derived-statistics.
"""

from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.systems.pocket.node_record import Record
from oracle.systems.pocket.parameters import FlagSetAt, Parameters


class NodeStats(NamedTuple):
    """A node as it is ranked. Latencies are in the parameters' unit, 0 where none is known.

    `failing`: flagged, or too many errors in a row, and without a success to make up for it.
    """

    node: Address
    attempts: int
    success_rate: float
    median: float
    weighted: float
    failing: bool
    p90: float | None = None


@dataclass(frozen=True, slots=True)
class FlagSet:
    """The failure flag is to stand at true until then."""

    node: Address
    until: float


@dataclass(frozen=True, slots=True)
class FlagCleared:
    """The failure flag is to stand at false until then."""

    node: Address
    until: float


Effect = FlagSet | FlagCleared


def is_failing(record: Record, now: float, params: Parameters) -> bool:
    """Tell whether the flag stands, or the errors in a row are too many."""
    limit = params.errors_limit
    return record.is_flagged(now) or (limit is not None and record.errors_at(now) > limit)


def stats_of(node: Address, record: Record, now: float, params: Parameters) -> NodeStats:
    """Return what the node is ranked by."""
    failing = is_failing(record, now, params)
    if not record.has_counts(now):
        return NodeStats(node, 0, 1.0, 0.0, 0.0, failing)
    attempts = record.successes + record.failures
    if record.successes == 0:
        return NodeStats(node, attempts, float(params.zero_success_rate), 0.0, 0.0, failing)
    rate = record.successes / attempts
    return NodeStats(
        node, attempts, rate, record.median, record.weighted, failing=False, p90=record.p90
    )


def clearing(node: Address, record: Record, now: float, params: Parameters) -> list[Effect]:
    """Return the end of a failure that a success makes up for, if there is one."""
    if is_failing(record, now, params):
        return [FlagCleared(node, now + params.cleared_ttl)]
    return []


def setting(stats: NodeStats, now: float, params: Parameters) -> list[Effect]:
    """Return the flag for a node that has only failed, and often enough, if it has none yet."""
    if stats.success_rate > 0 or stats.failing:
        return []
    if stats.attempts < params.shelve_failures:
        return []
    return [FlagSet(stats.node, now + params.flag_ttl)]


def looked_at(stats: NodeStats, record: Record, now: float, params: Parameters) -> list[Effect]:
    """Return what an evaluation of the node does to its flag.

    See docs/explanation/pocket.md#derived-statistics and docs/explanation/pocket.md#ranking.
    """
    if params.flag_set_at is not FlagSetAt.EVALUATION:
        return []
    return _changed(stats, record, now, params)


def after_outcome(node: Address, record: Record, now: float, params: Parameters) -> list[Effect]:
    """Return what an outcome just recorded does to the flag where outcomes set it.

    See docs/explanation/pocket.md#evaluation.
    """
    if params.flag_set_at is not FlagSetAt.OUTCOME:
        return []
    return _changed(stats_of(node, record, now, params), record, now, params)


def _changed(stats: NodeStats, record: Record, now: float, params: Parameters) -> list[Effect]:
    if stats.attempts and record.successes:
        return clearing(stats.node, record, now, params)
    return setting(stats, now, params)
