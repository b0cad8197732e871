"""Formats the fields of a leaf and of a round's summary as text, for the pages and `proof`.

The script daemon/web/pages/static/proof.js formats its results in the same way.
"""

from oracle.domain.fixed_point import format_decimal
from oracle.queries.leaf_models import ProofLeaf, ProofSummary
from oracle.queries.text.human_numbers import format_time

# Decimal places of an on-chain QoS.
_DECIMALS = 4


def describe_leaf(leaf: ProofLeaf) -> list[tuple[str, str]]:
    """Return the name and value of each field of a leaf."""
    return [
        ("score", "do not select" if leaf.qos is None else f"QoS {_format_fraction(leaf.qos)}"),
        ("H", _format_fraction(leaf.reliability)),
        (
            "scores that count",
            f"{leaf.score_count}, with a sum of {leaf.score_sum}" if leaf.score_count else "none",
        ),
        ("last score", _describe_time(leaf.last_scored_at)),
        ("kickout due", _describe_kickout(leaf)),
        ("state", _describe_state(leaf)),
        ("seat", str(leaf.seat)),
    ]


def describe_summary(summary: ProofSummary) -> list[tuple[str, str]]:
    """Return the name and value of each field of a round's summary that concerns its nodes."""
    return [
        ("nodes", f"{summary.node_count:,}"),
        ("may be selected", f"{summary.open_count:,}"),
        ("total weight", f"{summary.total_weight:,}"),
    ]


def _describe_time(time: int | None) -> str:
    return "none" if time is None else format_time(time)


def _describe_kickout(leaf: ProofLeaf) -> str:
    due_since = leaf.kickout_due_since
    due_text = "no" if due_since is None else f"since {format_time(due_since)}"
    return f"{due_text}, held until an operator decides" if leaf.is_held else due_text


def _describe_state(leaf: ProofLeaf) -> str:
    states = ["member" if leaf.is_member else "not a member"]
    if leaf.is_paused:
        states.append("paused")
    if leaf.is_excluded:
        states.append("excluded")
    return ", ".join(states)


def _format_fraction(value: int) -> str:
    return format_decimal(value, _DECIMALS)
