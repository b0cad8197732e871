"""A ranking with the tickets of each node at one time.

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
    """The nodes to draw from, in the order of their tickets.

    `as_of` is in milliseconds since 1970. `chances` lists the nodes with tickets; if no node has
    any, it lists all nodes with one ticket each. `degraded` is set in that case, and if no node
    passes the checks. `bounds` has the cumulative numbers of tickets.
    """

    as_of: int
    ranking: Ranking
    chances: tuple[tuple[str, int], ...]
    degraded: bool
    cumulative_tickets: tuple[int, ...]

    @property
    def total(self) -> int:
        """The total number of tickets."""
        return self.cumulative_tickets[-1] if self.cumulative_tickets else 0

    @property
    def id(self) -> str:
        """The SHA-256 of a text: `as_of`, then a line with tickets and name for each node."""
        lines = [str(self.as_of), *(f"{tickets} {node}" for node, tickets in self.chances)]
        return sha256("\n".join(lines).encode()).hexdigest()

    def mark_degraded(self) -> "SessionRanking":
        """Return the same ranking marked as degraded, because no node passed the checks."""
        return replace(self, degraded=True)

    def exclude_nodes(self, excluded: Collection[str]) -> "SessionRanking":
        """Return the ranking without the excluded nodes; the others keep their tickets.

        If no other node has tickets, each gets one, because another try is better than a failure.
        """
        remaining = tuple(pair for pair in self.chances if pair[0] not in excluded)
        if remaining:
            tickets = _accumulate_tickets(remaining)
            return replace(self, chances=remaining, cumulative_tickets=tickets)
        remaining = tuple((row.node, 1) for row in self.ranking.rows if row.node not in excluded)
        tickets = _accumulate_tickets(remaining)
        return replace(self, chances=remaining, cumulative_tickets=tickets, degraded=True)

    def find_ticket_holder(self, value: bytes) -> str:
        """Return the node that holds the drawn ticket; the ranking must have a ticket.

        The ticket number is floor(total * first 8 bytes of `value` / 2^64). The result equals that
        of `oracle.systems.pocket.ranking`, which uses fractions and passes over all rows.
        """
        ticket = int.from_bytes(value[:8], "big") * self.total >> _BITS
        return self.chances[bisect_right(self.cumulative_tickets, ticket)][0]


def build_session_ranking(ranking: Ranking, as_of: int) -> SessionRanking:
    """Return a ranking together with the tickets of its nodes."""
    if ranking.degraded:
        chances: tuple[tuple[str, int], ...] = tuple((node, 1) for node in ranking.input_order)
    else:
        chances = tuple((row.node, row.tickets) for row in ranking.rows if row.tickets)
    return SessionRanking(as_of, ranking, chances, ranking.degraded, _accumulate_tickets(chances))


def _accumulate_tickets(chances: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    return tuple(accumulate(tickets for _, tickets in chances))
