"""Draws of nodes by their tickets, as the test vectors define them; the gateway draws the same."""

import math
from collections.abc import Iterable
from fractions import Fraction
from hashlib import sha256

from oracle.domain.ids import Address
from oracle.systems.pocket.ranking import RankedNode, Ranking, add_draw_probabilities

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
