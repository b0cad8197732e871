"""A ranking as it is drawn from: who holds which ticket, as of a time.

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
    """What is drawn from, in the order of tickets; `as_of` in milliseconds since 1970.

    `chances`: the tickets of those that have any, or where nobody has, one each. `degraded`: that,
    or nobody passes the checks. `bounds`: the tickets up to and with each.
    """

    as_of: int
    ranking: Ranking
    chances: tuple[tuple[str, int], ...]
    degraded: bool
    bounds: tuple[int, ...]

    @property
    def total(self) -> int:
        """The tickets that there are to draw from."""
        return self.bounds[-1] if self.bounds else 0

    @property
    def id(self) -> str:
        """The hash of what is drawn from: as of when; then tickets and node, line by line."""
        said = [str(self.as_of), *(f"{tickets} {node}" for node, tickets in self.chances)]
        return sha256("\n".join(said).encode()).hexdigest()

    def as_degraded(self) -> "SessionRanking":
        """Return the same, marked: nobody passed the checks."""
        return replace(self, degraded=True)

    def without(self, excluded: Collection[str]) -> "SessionRanking":
        """Return the same without some; the others keep their tickets.

        Where none of them has any, they get one each: a second try is better than none.
        """
        left = tuple(pair for pair in self.chances if pair[0] not in excluded)
        if left:
            return replace(self, chances=left, bounds=_bounds(left))
        left = tuple((row.node, 1) for row in self.ranking.rows if row.node not in excluded)
        return replace(self, chances=left, bounds=_bounds(left), degraded=True)

    def holder(self, value: bytes) -> str:
        """Return who holds the ticket that a draw's value names; there is one at least.

        Its number is floor(total * first 8 bytes / 2^64), in whole numbers: what
        `oracle.systems.pocket.picking` finds by fractions, without going through all rows.
        """
        ticket = int.from_bytes(value[:8], "big") * self.total >> _BITS
        return self.chances[bisect_right(self.bounds, ticket)][0]


def drawn_from(ranking: Ranking, as_of: int) -> SessionRanking:
    """Return a ranking as it is drawn from."""
    if ranking.degraded:
        chances: tuple[tuple[str, int], ...] = tuple((node, 1) for node in ranking.given)
    else:
        chances = tuple((row.node, row.tickets) for row in ranking.rows if row.tickets)
    return SessionRanking(as_of, ranking, chances, ranking.degraded, _bounds(chances))


def _bounds(chances: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    return tuple(accumulate(tickets for _, tickets in chances))
