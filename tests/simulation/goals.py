"""The effects that are wanted on chain, each once, and which of them were achieved."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from tests.simulation.books import Wished
from tests.simulation.chain import Chain

# Other calls may be open at the same time as pushes and as each other.
_OTHERS_AT_ONCE = 3
_FIRST_OTHER = 1 << 20


@dataclass(frozen=True, slots=True)
class Goals:
    """A number of pushes, one after the other, and another call for every fourth push."""

    rounds: int

    @property
    def pushes(self) -> list[str]:
        return [f"0x{number:08x}" for number in range(1, self.rounds + 1)]

    @property
    def others(self) -> list[str]:
        return [f"0x{_FIRST_OTHER + number:08x}" for number in range(self.rounds // 4)]

    @property
    def all(self) -> list[str]:
        return [*self.pushes, *self.others]

    def next_push(self, wished_by_effect: Mapping[str, Wished]) -> str | None:
        """Return the first push that is neither done nor under way, or None."""
        return next(
            (effect for effect in self.pushes if _is_wanted(wished_by_effect.get(effect))), None
        )

    def push_beyond(self, wished_by_effect: Mapping[str, Wished]) -> str:
        """Return a push after the last wanted push.

        No goal requires this push.
        """
        beyond = (f"0x{self.rounds + more:08x}" for more in count(1))
        return next(effect for effect in beyond if _is_wanted(wished_by_effect.get(effect)))

    def next_other(self, wished_by_effect: Mapping[str, Wished]) -> str | None:
        """Return another call that is due, or None.

        There is one for every fourth push. A call that ended without its effect is wanted again,
        as pushes are.
        """
        done = sum(effect in wished_by_effect for effect in self.pushes)
        due = self.others[: done // 4]
        under_way = [
            effect
            for effect in due
            if effect in wished_by_effect and not wished_by_effect[effect].is_over
        ]
        if len(under_way) >= _OTHERS_AT_ONCE:
            return None
        return next((effect for effect in due if _is_wanted(wished_by_effect.get(effect))), None)

    def is_reached(self, wished_by_effect: Mapping[str, Wished]) -> bool:
        """Return whether the books show every goal as achieved, and no effect as under way."""
        is_done = all(
            effect in wished_by_effect and wished_by_effect[effect].state == "final"
            for effect in self.all
        )
        return is_done and all(
            wished.is_over or wished.state == "final" for wished in wished_by_effect.values()
        )


def _is_wanted(wished: Wished | None) -> bool:
    return wished is None or (wished.is_over and wished.state != "final")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of the reported effects with the executed ones.

    `doubles`: executions after the first. `lost`: effects that were reported as done but never
    executed. `unfinished`: effects that were neither executed nor reported as done, although there
    was time.
    """

    doubles: int
    lost: int
    unfinished: int

    @classmethod
    def of(cls, goals: Goals, done: set[str], chain: Chain) -> "Verdict":
        """Compare the effects that the publisher reports as done with the chain's executions."""
        executed = chain.executed()
        counts = [executed.count(effect) for effect in goals.all]
        lost = sum(effect in done and effect not in executed for effect in goals.all)
        unfinished = sum(effect not in done and effect not in executed for effect in goals.all)
        return cls(sum(max(count - 1, 0) for count in counts), lost, unfinished)

    @property
    def is_clean(self) -> bool:
        return self == Verdict(0, 0, 0)
