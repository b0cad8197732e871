"""Choosing nodes out of a ranking, by numbers that somebody else drew.

See docs/explanation/pocket.md#ranking and docs/explanation/pocket.md#evaluation.
"""

import math
from collections.abc import Iterable

from oracle.domain.ids import Address
from oracle.systems.pocket.parameters import AllShelved
from oracle.systems.pocket.ranking import RankedNode, Ranking, with_chances


def pick(ranking: Ranking, u: float) -> Address:
    """Return the node that holds ticket number floor(u * total); `u` in [0, 1).

    Raises:
        ValueError: `u` out of its range; nobody is ranked.
    """
    return _chosen(_in_order_of_tickets(ranking), u).node


def pick_many(ranking: Ranking, us: Iterable[float]) -> list[Address]:
    """Return one node for each number, none twice; fewer where the ranking has no more.

    A node's tickets leave with it. Where only nodes without a ticket are left, they are chosen
    among as where all are shelved.

    Raises:
        ValueError: a number out of [0, 1).
    """
    rows = _in_order_of_tickets(ranking)
    chosen: list[Address] = []
    for u in us:
        if not rows:
            break
        row = _chosen(rows, u)
        chosen.append(row.node)
        rows = list(with_chances([r for r in rows if r.node != row.node], ranking.params))
    return chosen


def _in_order_of_tickets(ranking: Ranking) -> list[RankedNode]:
    """Return the rows as ranked; chosen among all alike, in the order in which they were given."""
    rows = list(ranking.rows)
    if ranking.degraded and ranking.params.all_shelved is AllShelved.UNIFORM:
        place = {node: n for n, node in enumerate(ranking.given)}
        rows.sort(key=lambda row: place[row.node])
    return rows


def _chosen(rows: list[RankedNode], u: float) -> RankedNode:
    if not 0 <= u < 1:
        raise ValueError(f"u must be at least 0 and below 1, not {u}")
    if not rows:
        raise ValueError("nobody is ranked, so nobody can be picked")
    ticket = math.floor(u * sum(row.chances for row in rows))
    passed = 0
    for row in rows:
        passed += row.chances
        if ticket < passed:
            return row
    raise AssertionError("a ticket below the total is held by somebody")
