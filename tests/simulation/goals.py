"""What is wanted on chain, each effect once, and how much of it was done in the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from tests.simulation.books import Wished
from tests.simulation.chain import Chain

# Kickouts may stand beside pushes, and beside each other.
_KICKS_AT_ONCE = 3
_FIRST_KICK = 1 << 20


@dataclass(frozen=True, slots=True)
class Goals:
    """So many pushes, one after the other, and a kickout for every fourth."""

    rounds: int

    @property
    def pushes(self) -> list[str]:
        return [f"0x{number:08x}" for number in range(1, self.rounds + 1)]

    @property
    def kicks(self) -> list[str]:
        return [f"0x{_FIRST_KICK + number:08x}" for number in range(self.rounds // 4)]

    @property
    def all(self) -> list[str]:
        return [*self.pushes, *self.kicks]

    def next_push(self, known: Mapping[str, Wished]) -> str | None:
        """Return the first push that nobody tries now; None: all are done or under way."""
        return next((one for one in self.pushes if _is_wanted(known.get(one))), None)

    def push_beyond(self, known: Mapping[str, Wished]) -> str:
        """Return a push after the last one, which no goal asks for."""
        beyond = (f"0x{self.rounds + more:08x}" for more in count(1))
        return next(one for one in beyond if _is_wanted(known.get(one)))

    def next_kick(self, known: Mapping[str, Wished]) -> str | None:
        """Return a kickout that is due by now: with every fourth push one.

        What ended without its effect is under way no more: it is wanted again, as pushes are.
        """
        done = sum(one in known for one in self.pushes)
        due = self.kicks[: done // 4]
        under_way = [one for one in due if one in known and not known[one].is_over]
        if len(under_way) >= _KICKS_AT_ONCE:
            return None
        return next((one for one in due if _is_wanted(known.get(one))), None)

    def is_reached(self, known: Mapping[str, Wished]) -> bool:
        """Tell whether the books say that everything happened, and nothing else is under way."""
        is_done = all(one in known and known[one].state == "final" for one in self.all)
        return is_done and all(one.is_over or one.state == "final" for one in known.values())


def _is_wanted(known: Wished | None) -> bool:
    return known is None or (known.is_over and known.state != "final")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`doubles`: executions beyond the first; `lost`: called done and never executed.

    `unfinished`: neither executed nor called done, though there was time.
    """

    doubles: int
    lost: int
    unfinished: int

    @classmethod
    def of(cls, goals: Goals, done: set[str], chain: Chain) -> "Verdict":
        """Compare what the publisher calls done with what the chain did."""
        executed = chain.executed()
        counts = [executed.count(one) for one in goals.all]
        lost = sum(one in done and one not in executed for one in goals.all)
        unfinished = sum(one not in done and one not in executed for one in goals.all)
        return cls(sum(max(count - 1, 0) for count in counts), lost, unfinished)

    @property
    def is_clean(self) -> bool:
        return self == Verdict(0, 0, 0)
