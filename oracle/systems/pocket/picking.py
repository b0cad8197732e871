"""Picks nodes from a ranking by numbers that anyone can recompute from a seed.

See docs/explanation/pocket.md#ranking and docs/explanation/pocket.md#the-selector.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from hashlib import sha256

from oracle.domain.ids import Address
from oracle.systems.pocket.ranking import RankedNode, Ranking, with_chances

_COUNTER_BYTES = 8
_DRAWN_BYTES = 8


def unit_of(seed: bytes, session: str, counter: int) -> Fraction:
    """Return the number in [0, 1) that a seed gives to draw number `counter` of a session.

    The number is the first 8 bytes of sha256(seed || session || counter) over 2^64, `counter`
    being written as 8 bytes; all numbers are big-endian. It is a fraction, since no double holds
    64 bits.
    """
    said = seed + session.encode() + counter.to_bytes(_COUNTER_BYTES, "big")
    drawn = sha256(said).digest()[:_DRAWN_BYTES]
    return Fraction(int.from_bytes(drawn, "big"), 1 << 8 * _DRAWN_BYTES)


def pick(ranking: Ranking, u: float | Fraction) -> Address:
    """Return the node that holds ticket number floor(u * total); `u` in [0, 1).

    Raises:
        ValueError: `u` is out of range, or no node is ranked.
    """
    return _ticket_holder(_in_order_of_tickets(ranking), u).node


def pick_many(ranking: Ranking, us: Iterable[float | Fraction]) -> list[Address]:
    """Return one node for each number, without duplicates; fewer if the ranking has no more.

    A picked node's tickets are removed. If only nodes without a ticket are left, all of them have
    the same chance.

    Raises:
        ValueError: a number out of [0, 1).
    """
    rows = _in_order_of_tickets(ranking)
    chosen: list[Address] = []
    for u in us:
        if not rows:
            break
        row = _ticket_holder(rows, u)
        chosen.append(row.node)
        rows = list(with_chances(r for r in rows if r.node != row.node))
    return chosen


def _in_order_of_tickets(ranking: Ranking) -> list[RankedNode]:
    """Return the rows in rank order, or in input order if all chances are equal."""
    rows = list(ranking.rows)
    if ranking.degraded:
        place = {node: n for n, node in enumerate(ranking.given)}
        rows.sort(key=lambda row: place[row.node])
    return rows


def _ticket_holder(rows: list[RankedNode], u: float | Fraction) -> RankedNode:
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
