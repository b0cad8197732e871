"""Explains a node's row in a ranking in one line, for the operator of the node.

See docs/explanation/pocket.md#explaining-tickets-to-node-owners.
"""

from oracle.systems.pocket.js_arithmetic import format_five_decimals
from oracle.systems.pocket.parameters import PortalParameters
from oracle.systems.pocket.ranking import RankedNode, TicketReason


def format_ticket_explanation(row: RankedNode) -> str:
    """Return the number of a node's tickets, and why the node does not have all tickets."""
    max_tickets = row.params.max_tickets
    return f"{row.tickets} of {max_tickets} tickets: {_format_reason(row)}"


def _format_reason(row: RankedNode) -> str:
    stats, params = row.stats, row.params
    attempts = f"{stats.attempts} attempts"
    rate = f"success rate {stats.success_rate:.4f} of {attempts}"
    text_by_reason = {
        TicketReason.UNTESTED: "no outcome lately, so it counts as fast",
        TicketReason.LOW_SUCCESS: f"{rate} is not above {params.success_rate_full}",
        TicketReason.OUT: (
            f"out until {_format_seconds(stats.out_until_ms)} for its failures, {rate}"
        ),
    }
    if isinstance(params, PortalParameters):
        state = "flagged as failing" if stats.failing else "no success"
        attempts_note = f"with {stats.attempts} of {params.shelve_failures} attempts"
        text_by_reason |= {
            TicketReason.PROBATION_ONE: f"{state}, {attempts_note}",
            TicketReason.FLAGGED: f"{state}, with {attempts}",
            TicketReason.SHELVED: f"{state} in {attempts}",
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
    excess = (
        f"{format_five_decimals(row.difference)} s over {format_five_decimals(row.benchmark)} s"
    )
    zero_note = ", and nothing is left" if row.factor_after == 0 else ""
    return f"{weighted_text} is {excess}, which costs {row.lost}{lost_note}{zero_note}"


def _format_seconds(ms: int | None) -> str:
    """Format a time in whole milliseconds as seconds."""
    seconds, remainder_ms = divmod(ms or 0, 1000)
    return f"{seconds}.{remainder_ms:03}"


def build_ticket_components(row: RankedNode) -> dict[str, str]:
    """Return the components of a node's tickets, in order.

    The names are those of docs/explanation/pocket.md. Rates have 18 digits, and latencies (in
    seconds) have 5. Components that do not apply are left out.
    """
    stats = row.stats
    parts = {
        "attempts": str(stats.attempts),
        "success_rate": f"{stats.success_rate:.18f}",
        "median": format_five_decimals(stats.median),
    }
    if stats.p90 is not None:
        parts["p90"] = format_five_decimals(stats.p90)
    parts["weighted"] = format_five_decimals(stats.weighted)
    if row.benchmark is not None:
        parts["benchmark"] = format_five_decimals(row.benchmark)
        parts["difference"] = format_five_decimals(row.difference)
    if stats.out_until_ms is not None:
        parts["out_until"] = _format_seconds(stats.out_until_ms)
    return parts | {
        "lost": str(row.lost),
        "factor_before": str(row.factor_before),
        "factor_after": str(row.factor_after),
        "tickets": str(row.tickets),
        "reason": row.reason.value,
        "probability": f"{row.probability:.18f}",
        "why": format_ticket_explanation(row),
    }
