"""What rules are judged by in a network that feeds back, and goals made of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.loop_result import LoopResult
from oracle.domain.fixed_point import UNIT

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class RuleMeasures:
    """One system, over the runs of its loop.

    `failures`, `wrongful`: orders that came to nothing, and the time for which good nodes were
    excluded, in millionths. `gini`: of the tasks of good nodes, in millionths. `dead_seconds`: how
    long nodes that had stopped stayed, on average; one that was still there counts up to the end,
    as one of `still_in`. `wasted`: tasks given to them, in millionths of all.
    """

    column: SystemColumn
    results: tuple[LoopResult, ...]

    @property
    def failures(self) -> int:
        """Return the rate of orders without a result."""
        return _rate([(one.failed + one.lies, one.orders) for one in self.results])

    @property
    def wrongful(self) -> int:
        """Return the part of their time for which good nodes were excluded or kicked out."""
        return _rate([(one.excluded, one.present) for one in self.results])

    @property
    def kicked_good(self) -> int:
        """Return how many good nodes were kicked out."""
        return sum(one.kicked_good for one in self.results)

    @property
    def gini(self) -> int:
        """Return how unevenly good nodes were given tasks."""
        return sum(one.gini for one in self.results) * _MILLION // (UNIT * len(self.results))

    @property
    def dead_seconds(self) -> int:
        """Return how long a node that had stopped stayed."""
        lasted = [seconds for one in self.results for seconds in one.stayed]
        return sum(lasted) // len(lasted) if lasted else 0

    @property
    def still_in(self) -> int:
        """Return how many of them were there to the end."""
        return sum(each is None for one in self.results for each in one.out_after)

    @property
    def stopped(self) -> int:
        """Return how many there were."""
        return sum(len(one.out_after) for one in self.results)

    @property
    def wasted(self) -> int:
        """Return the part of all tasks that was given to them."""
        return _rate([(one.wasted, one.tasks) for one in self.results])


def _rate(parts: Sequence[tuple[int, int]]) -> int:
    whole = sum(total for _, total in parts)
    return sum(part for part, _ in parts) * _MILLION // whole if whole else 0


# What a goal can be made of; less is better.
MEASURES: Mapping[str, Callable[[RuleMeasures], int]] = MappingProxyType({
    "failures": lambda found: found.failures,
    "wrongful": lambda found: found.wrongful,
    "kicked": lambda found: found.kicked_good,
    "gini": lambda found: found.gini,
    "dead": lambda found: found.dead_seconds,
    "wasted": lambda found: found.wasted,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Goal:
    """Measures with their weights, whole numbers; each counts in parts of what it was at first."""

    weights: Mapping[str, int]

    @classmethod
    def read(cls, text: str) -> "Goal":
        """Read `failures` or `failures=3,gini=1`.

        Raises:
            ValueError: no such measure, one named twice, or a weight that is none.
        """
        weights: dict[str, int] = {}
        for part in text.split(","):
            name, equals, weight = part.strip().partition("=")
            if name not in MEASURES:
                raise ValueError(f"no measure {name!r} (there is {', '.join(MEASURES)})")
            if name in weights:
                raise ValueError(f"{name}: given twice")
            if equals and not (weight.isascii() and weight.isdigit() and 0 < int(weight) < UNIT):
                raise ValueError(f"{name}: its weight must be a whole number, 1 or more")
            weights[name] = int(weight) if equals else 1
        return cls(weights)

    def of(self, found: RuleMeasures, first: RuleMeasures) -> int:
        """Return how far from the goal a system is, in units of 10^-18; the first one is at 1."""
        total = sum(self.weights.values())
        parts = (
            weight * MEASURES[name](found) * UNIT // max(1, MEASURES[name](first))
            for name, weight in self.weights.items()
        )
        return sum(parts) // total
