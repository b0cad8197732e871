"""Explains a row of a ranking in one line, for the operator of a node.

See docs/explanation/pocket.md#explaining-tickets-to-node-owners.
"""

from oracle.systems.pocket.js_arithmetic import to_fixed
from oracle.systems.pocket.parameters import PortalParameters
from oracle.systems.pocket.ranking import RankedNode, Reason


def explain_line(row: RankedNode) -> str:
    """Return a node's number of tickets and the reason for the missing ones."""
    most = row.params.max_tickets
    return f"{row.tickets} of {most} tickets: {_reason_text(row)}"


def _reason_text(row: RankedNode) -> str:
    stats, params = row.stats, row.params
    attempts = f"{stats.attempts} attempts"
    rate = f"success rate {stats.success_rate:.4f} of {attempts}"
    said = {
        Reason.UNTESTED: "no outcome lately, so it counts as fast",
        Reason.LOW_SUCCESS: f"{rate} is not above {params.success_rate_full}",
        Reason.OUT: f"out until {_seconds(stats.out_until_ms)} for its failures, {rate}",
    }
    if isinstance(params, PortalParameters):
        state = "flagged as failing" if stats.failing else "no success"
        few = f"with {stats.attempts} of {params.shelve_failures} attempts"
        said |= {
            Reason.PROBATION_ONE: f"{state}, {few}",
            Reason.FLAGGED: f"{state}, with {attempts}",
            Reason.SHELVED: f"{state} in {attempts}",
        }
    return said.get(row.reason) or _latency(row)


def _latency(row: RankedNode) -> str:
    stats = row.stats
    weighted = f"weighted latency {to_fixed(stats.weighted)} s"
    lost = row.params.max_tickets - row.factor_before
    before = f"; {lost} lost to the nodes ranked before" if lost else ""
    if row.benchmark is None:
        if stats.median <= row.params.expected:
            median = f"median {to_fixed(stats.median)} s"
            return f"{median} is within the expected {row.params.expected:g} s{before}"
        return f"{weighted} is the first that is measured, and costs nothing"
    over = f"{to_fixed(row.difference)} s over {to_fixed(row.benchmark)} s"
    bottom = ", and nothing is left" if row.factor_after == 0 else ""
    return f"{weighted} is {over}, which costs {row.lost}{before}{bottom}"


def _seconds(ms: int | None) -> str:
    """Format a time in whole milliseconds as seconds."""
    whole, rest = divmod(ms or 0, 1000)
    return f"{whole}.{rest:03}"


def parts_of(row: RankedNode) -> dict[str, str]:
    """Return the components of the tickets, by the names of docs/explanation/pocket.md, in order.

    Rates have 18 digits, latencies 5, in seconds. Components that do not apply are left out.
    """
    stats = row.stats
    parts = {
        "attempts": str(stats.attempts),
        "success_rate": f"{stats.success_rate:.18f}",
        "median": to_fixed(stats.median),
    }
    if stats.p90 is not None:
        parts["p90"] = to_fixed(stats.p90)
    parts["weighted"] = to_fixed(stats.weighted)
    if row.benchmark is not None:
        parts["benchmark"] = to_fixed(row.benchmark)
        parts["difference"] = to_fixed(row.difference)
    if stats.out_until_ms is not None:
        parts["out_until"] = _seconds(stats.out_until_ms)
    return parts | {
        "lost": str(row.lost),
        "factor_before": str(row.factor_before),
        "factor_after": str(row.factor_after),
        "tickets": str(row.tickets),
        "reason": row.reason.value,
        "probability": f"{row.probability:.18f}",
        "why": explain_line(row),
    }
