"""Ranks candidates by latency, and gives each its tickets and the reason for their number.

The ranking is a pure function of statistics and parameters. See docs/explanation/pocket.md#ranking
and docs/explanation/pocket.md#evaluation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import round_half_up
from oracle.systems.pocket.node_stats import NodeStats
from oracle.systems.pocket.parameters import Parameters, PortalParameters


class TicketReason(StrEnum):
    """The reason for a node's number of tickets.

    `untested`: all tickets, because there is no recent outcome. `top_tier`: all tickets.
    `penalised` and `zeroed`: latency cost some or all tickets. `low_success`: one ticket, because
    of the success rate. `out`: no ticket, because of recent failures. `flagged` and `shelved`: no
    ticket, because of an active flag, or because all attempts failed. `probation_one`: one ticket
    in these two cases, as long as there are too few attempts to be sure.
    """

    UNTESTED = "untested"
    TOP_TIER = "top_tier"
    PENALISED = "penalised"
    LOW_SUCCESS = "low_success"
    OUT = "out"
    PROBATION_ONE = "probation_one"
    ZEROED = "zeroed"
    FLAGGED = "flagged"
    SHELVED = "shelved"


class RankedNode(NamedTuple):
    """One node's place in a ranking, with the steps that led to its tickets.

    `benchmark` is the latency that the node was compared with, or None without a comparison.
    `difference` is the latency above the benchmark, and `lost` the tickets lost for it.
    `factor_before` and `factor_after` are the running weight before and after the node. `chances`
    is the number of tickets, or 1 if no node has any. `probability` is 0 to 1.
    """

    stats: NodeStats
    benchmark: float | None
    difference: float
    lost: int
    factor_before: int
    factor_after: int
    tickets: int
    reason: TicketReason
    params: Parameters
    chances: int = 0
    probability: float = 0.0

    @property
    def node(self) -> Address:
        """Return the node at this place."""
        return self.stats.node


@dataclass(frozen=True, slots=True)
class Ranking:
    """The nodes that may be picked, in order of rank.

    `input_order` holds the ranked nodes in the order of the input, and `total` is the number of
    all tickets. `degraded` means that there are no tickets, so that all nodes have the same
    chance. `left_out` holds the candidates that were not ranked, with the reasons.
    """

    rows: tuple[RankedNode, ...]
    input_order: tuple[Address, ...]
    total: int
    degraded: bool
    params: Parameters
    left_out: Mapping[Address, str]

    def find_row(self, node: Address) -> RankedNode | None:
        """Return a node's row, or None if it is not ranked."""
        return next((row for row in self.rows if row.node == node), None)


def rank_nodes(
    all_stats: Iterable[NodeStats],
    params: Parameters,
    left_out: Mapping[Address, str] | None = None,
) -> Ranking:
    """Rank nodes by weighted latency, and assign tickets; ties keep their order."""
    all_stats = list(all_stats)
    rows: list[RankedNode] = []
    factor, previous = params.max_tickets, 0.0
    for stats in sorted(all_stats, key=lambda s: s.weighted):
        rows.append(_rank_node(stats, factor, previous, params))
        factor, previous = rows[-1].factor_after, stats.weighted
    total = sum(row.tickets for row in rows)
    return Ranking(
        rows=add_chances(rows),
        input_order=tuple(stats.node for stats in all_stats),
        total=total,
        degraded=total == 0 and bool(rows),
        params=params,
        left_out=left_out or {},
    )


def _rank_node(stats: NodeStats, factor: int, previous: float, params: Parameters) -> RankedNode:
    """Assign one node its tickets, given `factor` and `previous` of the node ranked before it."""
    benchmark = _get_benchmark(stats, previous, params)
    difference = 0.0 if benchmark is None else stats.weighted - benchmark
    lost, remaining_factor = 0, factor
    if difference:
        lost = round_half_up(difference * params.multiplier)
        remaining_factor = factor - lost
        if remaining_factor <= 0:
            remaining_factor = _compute_remaining_factor(stats, params)
    tickets, reason = _assign_tickets(stats, remaining_factor, params)
    return RankedNode(
        stats, benchmark, difference, lost, factor, remaining_factor, tickets, reason, params
    )


def _get_benchmark(stats: NodeStats, previous: float, params: Parameters) -> float | None:
    """Return the latency that the node is compared with, or None if its median is as expected."""
    # Not `<=`, because an unknown median must not be compared either.
    if not stats.median > params.expected or previous <= 0:
        return None
    return max(previous, params.expected)


def _compute_remaining_factor(stats: NodeStats, params: Parameters) -> int:
    """Return what remains of a factor that latency has used up ("as few as a single time")."""
    if isinstance(params, PortalParameters):
        return int(stats.attempts < params.zero_weight_attempts)
    return 1


def _assign_tickets(stats: NodeStats, factor: int, params: Parameters) -> tuple[int, TicketReason]:
    if not stats.failing and stats.success_rate > params.success_rate_full:
        return factor, _full_weight_reason(stats, factor, params)
    if isinstance(params, PortalParameters):
        return _assign_portal_tickets(stats, params)
    return (0, TicketReason.OUT) if stats.failing else (1, TicketReason.LOW_SUCCESS)


def _assign_portal_tickets(stats: NodeStats, params: PortalParameters) -> tuple[int, TicketReason]:
    if not stats.failing and stats.success_rate > 0:
        return 1, TicketReason.LOW_SUCCESS
    if stats.attempts < params.shelve_failures:
        return 1, TicketReason.PROBATION_ONE
    return 0, TicketReason.FLAGGED if stats.failing else TicketReason.SHELVED


def _full_weight_reason(stats: NodeStats, factor: int, params: Parameters) -> TicketReason:
    if factor == 0:
        return TicketReason.ZEROED
    if factor < params.max_tickets:
        return TicketReason.PENALISED
    return TicketReason.TOP_TIER if stats.attempts else TicketReason.UNTESTED


def add_chances(rows: Iterable[RankedNode]) -> tuple[RankedNode, ...]:
    """Return the rows with their chances, which are the tickets or, if no row has any, equal."""
    rows = tuple(rows)
    total = sum(row.tickets for row in rows)
    denominator = total or len(rows)
    # The chances are the last two fields; `_replace` takes three times as long.
    return tuple(
        RankedNode(*row[:-2], chances, chances / denominator)
        for row in rows
        for chances in (row.tickets if total else 1,)
    )
