"""Ranks candidates by latency, gives each its tickets with the reason, and picks nodes by tickets.

The ranking is a pure function of statistics and parameters. A pick is a pure function of the
ranking and of numbers that anyone can recompute from a seed. See
docs/explanation/pocket.md#ranking, docs/explanation/pocket.md#evaluation and
docs/explanation/pocket.md#the-selector.
"""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple, Protocol

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import round_half_up
from oracle.systems.pocket.parameters import Parameters, PortalParameters


class NodeStats(NamedTuple):
    """A node's statistics for a ranking. Latencies are in seconds, 0 if unknown.

    `failing` means that the node gets no tickets because of its failures (`article`), or that it
    is flagged and has had no success since. `out_until_ms` is the time from which the node gets
    tickets again unless more failures follow, or None if there is no such time.
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
    """A profile's memory of the nodes of one chain. Times are in whole milliseconds.

    Outcomes count in the order in which they are recorded. `compute_stats` changes nothing, even
    if it is called repeatedly and for different times.
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
        """Clear a node's history."""
        ...

    def compute_stats(self, node: Address, now: int) -> NodeStats:
        """Return the statistics by which the node is ranked."""
        ...

    def evaluate_nodes(self, nodes: Container[Address], now: int) -> None:
        """Evaluate these nodes, if the profile uses evaluations."""
        ...


class TicketReason(StrEnum):
    """The reason for a node's number of tickets.

    `untested`: all tickets, because there is no recent outcome. `top_tier`: all tickets.
    `penalised` and `zeroed`: latency cost some or all tickets. `low_success`: one ticket, because
    of the success rate. `out`: no ticket, because of recent failures. `flagged`: no ticket,
    because of an active flag. `shelved`: no ticket, because all attempts failed. `probation_one`:
    one ticket instead of none in the last two cases, because there are few attempts.
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
    """One node in a ranking, with the steps that led to its tickets.

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


def rank_nodes(
    all_stats: Iterable[NodeStats],
    params: Parameters,
    omitted_nodes: Mapping[Address, str] | None = None,
) -> Ranking:
    """Rank nodes by weighted latency, and assign tickets; ties keep their order."""
    all_stats = list(all_stats)
    rows: list[RankedNode] = []
    factor, previous_latency = params.max_tickets, 0.0
    for stats in sorted(all_stats, key=lambda s: s.weighted):
        rows.append(_rank_node(stats, factor, previous_latency, params))
        factor = rows[-1].factor_after
        previous_latency = stats.weighted
    total = sum(row.tickets for row in rows)
    return Ranking(
        rows=add_draw_probabilities(rows),
        input_order=tuple(stats.node for stats in all_stats),
        total=total,
        degraded=total == 0 and bool(rows),
        params=params,
        left_out=omitted_nodes or {},
    )


def _rank_node(
    stats: NodeStats, factor: int, previous_latency: float, params: Parameters
) -> RankedNode:
    """Assign a node its tickets from the remaining factor and the previous node's latency."""
    benchmark = _get_benchmark_latency(stats, previous_latency, params)
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


def _get_benchmark_latency(
    stats: NodeStats, previous_latency: float, params: Parameters
) -> float | None:
    """Return the latency that the node is compared with, or None if its median is as expected."""
    # Not `<=`, because an unknown median must not be compared either.
    if not stats.median > params.expected or previous_latency <= 0:
        return None
    return max(previous_latency, params.expected)


def _compute_remaining_factor(stats: NodeStats, params: Parameters) -> int:
    """Return the factor that a node keeps if latency would reduce its factor to 0."""
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
    """Return the rows with draw probabilities, which are equal if no row has a ticket."""
    rows = tuple(rows)
    total = sum(row.tickets for row in rows)
    denominator = total or len(rows)
    # The chances are the last two fields; `_replace` takes three times as long.
    return tuple(
        RankedNode(*row[:-2], chances, chances / denominator)
        for row in rows
        for chances in (row.tickets if total else 1,)
    )


_COUNTER_BYTES = 8
_DRAWN_BYTES = 8


def compute_unit_draw(seed: bytes, session: str, counter: int) -> Fraction:
    """Return the number in [0, 1) of draw `counter` in a session, derived from a seed.

    The number is the first 8 bytes of sha256(seed || session || counter), divided by 2^64;
    `counter` is written as 8 bytes, and all numbers are big-endian. The result is a fraction,
    because no double holds 64 bits.
    """
    message = seed + session.encode() + counter.to_bytes(_COUNTER_BYTES, "big")
    digest_prefix = sha256(message).digest()[:_DRAWN_BYTES]
    return Fraction(int.from_bytes(digest_prefix, "big"), 1 << 8 * _DRAWN_BYTES)


def pick_node(ranking: Ranking, unit_draw: float | Fraction) -> Address:
    """Return the node that holds ticket number floor(`unit_draw` * total).

    This function defines a single draw, and is checked by the test vectors.

    Raises:
        ValueError: `unit_draw` is not in [0, 1), or no node is ranked.
    """
    return _find_ticket_holder(_sort_rows_for_draw(ranking), unit_draw).node


def pick_nodes(ranking: Ranking, unit_draws: Iterable[float | Fraction]) -> list[Address]:
    """Return one node for each number, without duplicates, until no ranked node is left.

    This function defines several draws; the gateway's selection is tested against it.

    A picked node's tickets are removed. If only nodes without a ticket are left, all of them have
    the same chance.

    Raises:
        ValueError: a number is not in [0, 1).
    """
    rows = _sort_rows_for_draw(ranking)
    chosen: list[Address] = []
    for unit_draw in unit_draws:
        if not rows:
            break
        row = _find_ticket_holder(rows, unit_draw)
        chosen.append(row.node)
        rows = list(
            add_draw_probabilities(other_row for other_row in rows if other_row.node != row.node)
        )
    return chosen


def _sort_rows_for_draw(ranking: Ranking) -> list[RankedNode]:
    """Return the rows by rank, or in input order if all nodes have the same chance."""
    rows = list(ranking.rows)
    if ranking.degraded:
        order_by_node = {node: n for n, node in enumerate(ranking.input_order)}
        rows.sort(key=lambda row: order_by_node[row.node])
    return rows


def _find_ticket_holder(rows: list[RankedNode], u: float | Fraction) -> RankedNode:
    if not 0 <= u < 1:
        raise ValueError(f"u must be at least 0 and below 1, not {u}")
    if not rows:
        raise ValueError("no node is ranked, so no node can be selected")
    ticket = math.floor(u * sum(row.chances for row in rows))
    ticket_count = 0
    for row in rows:
        ticket_count += row.chances
        if ticket < ticket_count:
            return row
    raise AssertionError(f"no node holds ticket {ticket} of {ticket_count}")
