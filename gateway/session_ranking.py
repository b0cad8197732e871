"""A ranking with the tickets of each node, as of a time.

See docs/explanation/gateway.md#verifiable-draws.
"""

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate

from oracle.systems.pocket.ranking import Ranking

_BITS = 64


@dataclass(frozen=True, slots=True)
class SessionRanking:
    """The nodes to draw from, in ticket order; `as_of` in milliseconds since 1970.

    `chances` has the nodes with tickets, or all nodes with one ticket each if none has any.
    `degraded`: the second case, or no node passes the checks. `bounds` has the cumulative tickets.
    """

    as_of: int
    ranking: Ranking
    chances: tuple[tuple[str, int], ...]
    degraded: bool
    bounds: tuple[int, ...]

    @property
    def total(self) -> int:
        """The total number of tickets."""
        return self.bounds[-1] if self.bounds else 0

    @property
    def id(self) -> str:
        """The hash of `as_of`, then tickets and node line by line."""
        lines = [str(self.as_of), *(f"{tickets} {node}" for node, tickets in self.chances)]
        return sha256("\n".join(lines).encode()).hexdigest()

    def mark_degraded(self) -> "SessionRanking":
        """Return the same ranking marked as degraded, because no node passed the checks."""
        return replace(self, degraded=True)

    def exclude_nodes(self, excluded: Collection[str]) -> "SessionRanking":
        """Return the ranking without some nodes; the others keep their tickets.

        If none of the others has tickets, each gets one, because a second try is better than none.
        """
        remaining = tuple(pair for pair in self.chances if pair[0] not in excluded)
        if remaining:
            return replace(self, chances=remaining, bounds=_accumulate_tickets(remaining))
        remaining = tuple((row.node, 1) for row in self.ranking.rows if row.node not in excluded)
        return replace(
            self, chances=remaining, bounds=_accumulate_tickets(remaining), degraded=True
        )

    def find_ticket_holder(self, value: bytes) -> str:
        """Return the node whose ticket a draw's value denotes; there is at least one.

        The ticket number is floor(total * first 8 bytes / 2^64), in integers: the same result as
        the fractions of `oracle.systems.pocket.picking`, without a pass over all rows.
        """
        ticket = int.from_bytes(value[:8], "big") * self.total >> _BITS
        return self.chances[bisect_right(self.bounds, ticket)][0]


def build_session_ranking(ranking: Ranking, as_of: int) -> SessionRanking:
    """Return the tickets of a ranking."""
    if ranking.degraded:
        chances: tuple[tuple[str, int], ...] = tuple((node, 1) for node in ranking.input_order)
    else:
        chances = tuple((row.node, row.tickets) for row in ranking.rows if row.tickets)
    return SessionRanking(as_of, ranking, chances, ranking.degraded, _accumulate_tickets(chances))


def _accumulate_tickets(chances: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    return tuple(accumulate(tickets for _, tickets in chances))
