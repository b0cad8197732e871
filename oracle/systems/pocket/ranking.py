"""Candidates in order of latency, each with its tickets and why.

A pure function of records, candidates, time and parameters: no randomness, no side effect.
See docs/explanation/pocket.md#ranking and docs/explanation/pocket.md#evaluation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import round_half_up
from oracle.systems.pocket.node_record import Record, Records
from oracle.systems.pocket.parameters import AllShelved, Benchmark, FlagSetAt, Parameters
from oracle.systems.pocket.record_stats import Effect, NodeStats, looked_at, setting, stats_of


class Reason(StrEnum):
    """Why a node has the tickets it has.

    `untested`: all of them, for it has no outcome lately. `top_tier`: all of them. `penalised`,
    `zeroed`: latency took some, or all. `low_success`: one, for its success rate. `flagged`,
    `shelved`: none, for a standing flag, or for failing alone; `probation_one`: one, for either
    with too few attempts to be sure.
    """

    UNTESTED = "untested"
    TOP_TIER = "top_tier"
    PENALISED = "penalised"
    LOW_SUCCESS = "low_success"
    PROBATION_ONE = "probation_one"
    ZEROED = "zeroed"
    FLAGGED = "flagged"
    SHELVED = "shelved"


class RankedNode(NamedTuple):
    """One node's place in a ranking, with the trace of how its tickets came about.

    `benchmark`: the latency it was compared with, None where it was not. `difference`: how far
    it lies above, `lost`: the tickets that cost. `factor_before`, `factor_after`: the running
    weight as the node found it and as it left it. `chances`: the tickets, or where nobody has
    any, the node's share in the choice all the same. `probability` and `score` are 0 to 1.
    """

    stats: NodeStats
    benchmark: float | None
    difference: float
    lost: int
    factor_before: int
    factor_after: int
    tickets: int
    reason: Reason
    params: Parameters
    chances: int = 0
    probability: float = 0.0

    @property
    def node(self) -> Address:
        """Return whose place it is."""
        return self.stats.node

    @property
    def score(self) -> float:
        """Return the tickets as a part of the most there are."""
        return self.tickets / self.params.max_tickets


@dataclass(frozen=True, slots=True)
class Ranking:
    """Who may be picked, in order of rank.

    `given`: the ranked nodes in the order in which they were given. `total`: all tickets.
    `degraded`: there are none, so that the choice falls back on `params.all_shelved`.
    `left_out`: removed or busy to their cap, not ranked. `effects`: what whoever keeps the
    records has to do to them for this evaluation to have happened.
    """

    rows: tuple[RankedNode, ...]
    given: tuple[Address, ...]
    total: int
    degraded: bool
    params: Parameters
    left_out: tuple[Address, ...] = ()
    effects: tuple[Effect, ...] = ()

    def row_of(self, node: Address) -> RankedNode | None:
        """Return a node's row, None for one that is not ranked."""
        return next((row for row in self.rows if row.node == node), None)


def evaluate(
    records: Records, candidates: Iterable[Address], now: float, params: Parameters
) -> Ranking:
    """Rank the candidates as their records stand at `now`; ties keep the candidates' order."""
    unknown = Record()
    every: list[NodeStats] = []
    left_out: list[Address] = []
    effects: list[Effect] = []
    for node in candidates:
        record = records.get(node, unknown)
        stats = stats_of(node, record, now, params)
        if is_left_out(record, stats, now, params):
            left_out.append(node)
            continue
        every.append(stats)
        effects += looked_at(stats, record, now, params)
    ranked = rank(every, now, params)
    return replace(ranked, left_out=tuple(left_out), effects=tuple(effects))


def is_left_out(record: Record, stats: NodeStats, now: float, params: Parameters) -> bool:
    """Tell whether the node is removed, or has as many tasks as it may have.

    See docs/explanation/pocket.md#special-rules, archival.
    """
    if now < record.removed_until:
        return True
    cap = params.in_flight_cap
    if cap is None:
        return False
    return record.in_flight >= (cap if stats.attempts else 1)


def rank(every: Iterable[NodeStats], now: float, params: Parameters) -> Ranking:
    """Rank nodes of which the statistics are given."""
    every = list(every)
    rows: list[RankedNode] = []
    factor, previous = params.max_tickets, 0.0
    for stats in sorted(every, key=lambda s: s.weighted):
        rows.append(_walked(stats, factor, previous, params))
        factor, previous = rows[-1].factor_after, stats.weighted
    total = sum(row.tickets for row in rows)
    effects: list[Effect] = []
    if params.flag_set_at is FlagSetAt.EVALUATION:
        effects = [effect for row in rows for effect in setting(row.stats, now, params)]
    return Ranking(
        rows=with_chances(rows, params),
        given=tuple(stats.node for stats in every),
        total=total,
        degraded=total == 0 and bool(rows),
        params=params,
        effects=tuple(effects),
    )


def _walked(stats: NodeStats, factor: int, previous: float, params: Parameters) -> RankedNode:
    """Give one node its tickets, `factor` and `previous` being what the node before it left."""
    benchmark = _benchmark(stats, previous, params)
    difference = 0.0 if benchmark is None else stats.weighted - benchmark
    lost, after = 0, factor
    if difference:
        lost = round_half_up(difference * params.multiplier)
        # Against what is expected, the carry is the latency itself, not yet rounded.
        absolute = params.benchmark is Benchmark.EXPECTED
        after = (params.max_tickets if absolute else factor) - lost
        if after <= 0:
            after = _at_bottom(stats, params)
    tickets, reason = _tickets(stats, after, params)
    return RankedNode(stats, benchmark, difference, lost, factor, after, tickets, reason, params)


def _benchmark(stats: NodeStats, previous: float, params: Parameters) -> float | None:
    """Return what the node is compared with; at or below the expected median, with nothing."""
    # Not `<=`: a median that is not known must not be compared either.
    if not stats.median > params.top_tier:
        return None
    if params.benchmark is Benchmark.EXPECTED:
        return params.top_tier
    return max(previous, params.top_tier) if previous > 0 else None


def _at_bottom(stats: NodeStats, params: Parameters) -> int:
    limit = params.zero_weight_attempts
    return 0 if limit is not None and stats.attempts >= limit else 1


def _tickets(stats: NodeStats, factor: int, params: Parameters) -> tuple[int, Reason]:
    if not stats.failing and stats.success_rate > params.success_rate_full:
        return factor, _of_full_weight(stats, factor, params)
    if not stats.failing and stats.success_rate > 0:
        return 1, Reason.LOW_SUCCESS
    if stats.attempts < params.shelve_failures:
        return 1, Reason.PROBATION_ONE
    return 0, Reason.FLAGGED if stats.failing else Reason.SHELVED


def _of_full_weight(stats: NodeStats, factor: int, params: Parameters) -> Reason:
    if factor == 0:
        return Reason.ZEROED
    if factor < params.max_tickets:
        return Reason.PENALISED
    return Reason.TOP_TIER if stats.attempts else Reason.UNTESTED


def with_chances(rows: Sequence[RankedNode], params: Parameters) -> tuple[RankedNode, ...]:
    """Return the rows with their shares in the choice: by tickets, or as where all are shelved."""
    chances = [row.tickets for row in rows]
    if not any(chances):
        chances = _where_all_are_shelved(rows, params)
    total = sum(chances)
    return tuple(
        row._replace(chances=n, probability=n / total)
        for row, n in zip(rows, chances, strict=True)
    )


def _where_all_are_shelved(rows: Sequence[RankedNode], params: Parameters) -> list[int]:
    if params.all_shelved is AllShelved.UNIFORM:
        return [1] * len(rows)
    least = min((_badness(row) for row in rows), default=None)
    return [int(_badness(row) == least) for row in rows]


def _badness(row: RankedNode) -> tuple[bool, bool, float, int]:
    """Order nodes without a ticket: the slow before the failing, then by how much of it."""
    s = row.stats
    unreliable = s.success_rate <= row.params.success_rate_full
    return unreliable, s.failing, s.weighted, s.attempts
