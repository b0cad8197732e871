"""Ranks candidates by latency, and computes the tickets by which a node is picked.

The ranking is a pure function of statistics and parameters. A pick is a pure function of the
ranking and of numbers that anyone can recompute from a seed. A row of the ranking is explained in
one line, for the operator of the node. See
docs/explanation/pocket.md#ranking, docs/explanation/pocket.md#evaluation and
docs/explanation/pocket.md#the-selector.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import format_five_decimals, round_half_up
from oracle.systems.pocket.parameters import Parameters, PortalParameters


class NodeStats(NamedTuple):
    """The statistics of a node for a ranking.

    Latencies are in seconds, or 0 if unknown. If `failing`, the node gets no tickets because of
    its failures (`article`), or is flagged and has had no success since then (`portal_api_head`).
    `out_until_ms` is the time from which the node gets tickets again unless more failures follow,
    or None if there is no such time.
    """

    node: Address
    attempts: int
    success_rate: float
    median: float
    weighted: float
    failing: bool
    p90: float | None = None
    out_until_ms: int | None = None


class ChainMemory(Protocol):
    """The data that a profile stores about the nodes of one chain.

    Times are in whole milliseconds. Outcomes count in the order in which they are recorded.
    `compute_stats` changes nothing, even if it is called repeatedly and for different times.
    """

    def record_success(self, node: Address, latency: float, now: int) -> None:
        """Record that a node answered after `latency` seconds."""
        ...

    def record_failure(self, node: Address, now: int) -> None:
        """Record that a node failed."""
        ...

    def record_passed_health_check(self, node: Address, now: int) -> None:
        """Record that a health check of the node passed.

        See docs/explanation/pocket.md#special-rules.
        """
        ...

    def reset_node(self, node: Address) -> None:
        """Clear the history of a node."""
        ...

    def compute_stats(self, node: Address, now: int) -> NodeStats:
        """Compute the statistics that determine the node's rank."""
        ...

    def update_failure_flags(self, nodes: Container[Address], now: int) -> None:
        """Update the failure flags of these nodes, if the profile has such flags."""
        ...


class TicketReason(StrEnum):
    """The reason for a node's number of tickets.

    `untested` means all tickets, because there is no recent outcome, and `top_tier` means all
    tickets because of low latency. `penalised` and `zeroed` mean that latency cost some or all
    tickets. `low_success` means one ticket, because of the success rate. The node has no ticket
    with `out` because of recent failures, with `flagged` because of an active flag, and with
    `shelved` because all attempts failed. `probation_one` means one ticket instead of none in the
    last two cases, because there are few attempts.
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
    """A node in a ranking, with the steps by which its tickets were computed.

    `benchmark` is the latency with which the node was compared, or None if it was not compared.
    `difference` is the latency above the benchmark, and `lost` the tickets lost for it.
    `factor_before` and `factor_after` are the running weight before and after the node. `chances`
    is the number of tickets, or 1 if no node has any. `probability` is from 0 to 1.
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
        return self.stats.node


@dataclass(frozen=True, slots=True)
class Ranking:
    """The nodes that may be picked, ordered by rank.

    `input_order` holds the ranked nodes in the order of the input, and `total` is the number of
    all tickets. If `degraded`, there are no tickets, so all nodes have the same chance. `left_out`
    holds the candidates that were not ranked, with the reasons.
    """

    rows: tuple[RankedNode, ...]
    input_order: tuple[Address, ...]
    total: int
    degraded: bool
    params: Parameters
    left_out: Mapping[Address, str]


def rank_nodes(
    all_stats: Iterable[NodeStats],
    params: Parameters,
    omitted_nodes: Mapping[Address, str] | None = None,
) -> Ranking:
    """Rank nodes by weighted latency, and compute tickets.

    Nodes with equal latencies keep their order.
    """
    all_stats = list(all_stats)
    rows: list[RankedNode] = []
    remaining_factor, previous_latency = params.max_tickets, 0.0
    for stats in sorted(all_stats, key=lambda node_stats: node_stats.weighted):
        rows.append(_rank_node(stats, remaining_factor, previous_latency, params))
        remaining_factor = rows[-1].factor_after
        previous_latency = stats.weighted
    total_tickets = sum(row.tickets for row in rows)
    return Ranking(
        rows=add_draw_probabilities(rows),
        input_order=tuple(stats.node for stats in all_stats),
        total=total_tickets,
        degraded=total_tickets == 0 and bool(rows),
        params=params,
        left_out=omitted_nodes or {},
    )


def _rank_node(
    stats: NodeStats, factor: int, previous_latency: float, params: Parameters
) -> RankedNode:
    """Build the row of a node with its tickets.

    `factor` and `previous_latency` are the remaining factor and the latency of the previous node
    in the ranking.
    """
    benchmark = _compute_benchmark_latency(stats, previous_latency, params)
    latency_difference = 0.0 if benchmark is None else stats.weighted - benchmark
    lost_tickets, remaining_factor = 0, factor
    if latency_difference:
        lost_tickets = round_half_up(latency_difference * params.multiplier)
        remaining_factor = factor - lost_tickets
        if remaining_factor <= 0:
            remaining_factor = _compute_remaining_factor(stats, params)
    tickets, reason = _assign_tickets(stats, remaining_factor, params)
    return RankedNode(
        stats,
        benchmark,
        latency_difference,
        lost_tickets,
        factor,
        remaining_factor,
        tickets,
        reason,
        params,
    )


def _compute_benchmark_latency(
    stats: NodeStats, previous_latency: float, params: Parameters
) -> float | None:
    """Return the latency to compare the node with, or None if its median is as expected."""
    # The condition is not `<=`, so that a median of NaN counts as expected, too.
    if not stats.median > params.expected or previous_latency <= 0:
        return None
    return max(previous_latency, params.expected)


def _compute_remaining_factor(stats: NodeStats, params: Parameters) -> int:
    """Return the factor that is left to a node whose latency would reduce it to 0."""
    if isinstance(params, PortalParameters):
        return int(stats.attempts < params.zero_weight_attempts)
    return 1


def _assign_tickets(stats: NodeStats, factor: int, params: Parameters) -> tuple[int, TicketReason]:
    if not stats.failing and stats.success_rate > params.success_rate_full:
        return factor, _get_full_weight_reason(stats, factor, params)
    if isinstance(params, PortalParameters):
        return _assign_portal_tickets(stats, params)
    return (0, TicketReason.OUT) if stats.failing else (1, TicketReason.LOW_SUCCESS)


def _assign_portal_tickets(stats: NodeStats, params: PortalParameters) -> tuple[int, TicketReason]:
    if not stats.failing and stats.success_rate > 0:
        return 1, TicketReason.LOW_SUCCESS
    if stats.attempts < params.shelve_failures:
        return 1, TicketReason.PROBATION_ONE
    return 0, TicketReason.FLAGGED if stats.failing else TicketReason.SHELVED


def _get_full_weight_reason(stats: NodeStats, factor: int, params: Parameters) -> TicketReason:
    if factor == 0:
        return TicketReason.ZEROED
    if factor < params.max_tickets:
        return TicketReason.PENALISED
    return TicketReason.TOP_TIER if stats.attempts else TicketReason.UNTESTED


def add_draw_probabilities(rows: Iterable[RankedNode]) -> tuple[RankedNode, ...]:
    """Add each node's probability to its row.

    If no row has tickets, all probabilities are equal.
    """
    rows = tuple(rows)
    total_tickets = sum(row.tickets for row in rows)
    ticket_count = total_tickets or len(rows)
    # The chances are the last two fields. The row is built by position, because `_replace` takes
    # three times as long.
    return tuple(
        RankedNode(*row[:-2], chances, chances / ticket_count)
        for row in rows
        for chances in (row.tickets if total_tickets else 1,)
    )


def format_ticket_explanation(row: RankedNode) -> str:
    """Format how many tickets a node has, and why it does not have all of them."""
    max_tickets = row.params.max_tickets
    return f"{row.tickets} of {max_tickets} tickets: {_format_reason(row)}"


def _format_reason(row: RankedNode) -> str:
    stats, params = row.stats, row.params
    attempts_text = f"{stats.attempts} attempts"
    success_rate_text = f"success rate {stats.success_rate:.4f} of {attempts_text}"
    text_by_reason = {
        TicketReason.UNTESTED: "no outcome lately, so it counts as fast",
        TicketReason.LOW_SUCCESS: f"{success_rate_text} is not above {params.success_rate_full}",
        TicketReason.OUT: (
            f"out until {_format_seconds(stats.out_until_ms)} for its failures, "
            f"{success_rate_text}"
        ),
    }
    if isinstance(params, PortalParameters):
        state_text = "flagged as failing" if stats.failing else "no success"
        attempts_note = f"with {stats.attempts} of {params.shelve_failures} attempts"
        text_by_reason |= {
            TicketReason.PROBATION_ONE: f"{state_text}, {attempts_note}",
            TicketReason.FLAGGED: f"{state_text}, with {attempts_text}",
            TicketReason.SHELVED: f"{state_text} in {attempts_text}",
        }
    return text_by_reason.get(row.reason) or _format_latency(row)


def _format_latency(row: RankedNode) -> str:
    stats = row.stats
    weighted_text = f"weighted latency {format_five_decimals(stats.weighted)} s"
    lost_before = row.params.max_tickets - row.factor_before
    lost_note = f"; {lost_before} lost to the nodes ranked before" if lost_before else ""
    if row.benchmark is None:
        if stats.median <= row.params.expected:
            median_text = f"median {format_five_decimals(stats.median)} s"
            return f"{median_text} is within the expected {row.params.expected:g} s{lost_note}"
        return f"{weighted_text} is the first that is measured, and costs nothing"
    excess_text = (
        f"{format_five_decimals(row.difference)} s over {format_five_decimals(row.benchmark)} s"
    )
    zero_note = ", and nothing is left" if row.factor_after == 0 else ""
    return f"{weighted_text} is {excess_text}, which costs {row.lost}{lost_note}{zero_note}"


def _format_seconds(ms: int | None) -> str:
    """Format a time in whole milliseconds as seconds."""
    seconds, remainder_ms = divmod(ms or 0, 1000)
    return f"{seconds}.{remainder_ms:03}"


def build_ticket_components(row: RankedNode) -> dict[str, str]:
    """Return the numbers from which a node's tickets follow, in order.

    The names are those of docs/explanation/pocket.md. Rates have 18 digits, and latencies (in
    seconds) have 5. Components that do not apply are left out.
    """
    stats = row.stats
    components = {
        "attempts": str(stats.attempts),
        "success_rate": f"{stats.success_rate:.18f}",
        "median": format_five_decimals(stats.median),
    }
    if stats.p90 is not None:
        components["p90"] = format_five_decimals(stats.p90)
    components["weighted"] = format_five_decimals(stats.weighted)
    if row.benchmark is not None:
        components["benchmark"] = format_five_decimals(row.benchmark)
        components["difference"] = format_five_decimals(row.difference)
    if stats.out_until_ms is not None:
        components["out_until"] = _format_seconds(stats.out_until_ms)
    return components | {
        "lost": str(row.lost),
        "factor_before": str(row.factor_before),
        "factor_after": str(row.factor_after),
        "tickets": str(row.tickets),
        "reason": row.reason.value,
        "probability": f"{row.probability:.18f}",
        "why": format_ticket_explanation(row),
    }
