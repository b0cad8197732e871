"""Measures by which rules are judged in a closed loop, and goals made of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.loop_result import LoopResult
from oracle.domain.fixed_point import UNIT

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class RuleMeasures:
    """Measures of one system over the runs of its loop.

    `failure_rate`, `wrongful_exclusion_rate`: failed orders, and the time for which good nodes
    were excluded, in millionths. `gini`: of the tasks of good nodes, in millionths.
    `mean_stopped_seconds`: how long stopped nodes stayed on average; a node that is still there
    counts to the end, and in `remaining_stopped_nodes`. `wasted_rate`: tasks given to stopped
    nodes, in millionths of all.
    """

    column: SystemColumn
    results: tuple[LoopResult, ...]

    @property
    def failures(self) -> int:
        """The rate of orders without a result or with a false one."""
        return _rate([(one.failed + one.lies, one.orders) for one in self.results])

    @property
    def wrongful(self) -> int:
        """The part of their time for which good nodes were excluded or kicked out."""
        return _rate([(one.excluded, one.present) for one in self.results])

    @property
    def kicked_good(self) -> int:
        """The number of good nodes that were kicked out."""
        return sum(one.kicked_good for one in self.results)

    @property
    def gini(self) -> int:
        """The Gini coefficient of the tasks of good nodes, in millionths."""
        return sum(one.gini for one in self.results) * _MILLION // (UNIT * len(self.results))

    @property
    def dead_seconds(self) -> int:
        """The mean time that stopped nodes stayed, in seconds."""
        lasted = [seconds for one in self.results for seconds in one.stayed]
        return sum(lasted) // len(lasted) if lasted else 0

    @property
    def still_in(self) -> int:
        """The number of stopped nodes that stayed to the end."""
        return sum(each is None for one in self.results for each in one.out_after)

    @property
    def stopped(self) -> int:
        """The number of nodes that stopped."""
        return sum(len(one.out_after) for one in self.results)

    @property
    def wasted(self) -> int:
        """The part of all tasks that was given to stopped nodes."""
        return _rate([(one.wasted, one.tasks) for one in self.results])


def _rate(parts: Sequence[tuple[int, int]]) -> int:
    whole = sum(total for _, total in parts)
    return sum(part for part, _ in parts) * _MILLION // whole if whole else 0


# Measures that a goal can use; lower is better.
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
    """Weighted measures; each counts relative to its value for the first system."""

    weights: Mapping[str, int]

    @classmethod
    def read(cls, text: str) -> "Goal":
        """Parse `failures` or `failures=3,gini=1`.

        Raises:
            ValueError: unknown measure, a measure given twice, or an invalid weight.
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
        """Return a system's distance from the goal, in units of 10^-18; the first is at 1."""
        total = sum(self.weights.values())
        parts = (
            weight * MEASURES[name](found) * UNIT // max(1, MEASURES[name](first))
            for name, weight in self.weights.items()
        )
        return sum(parts) // total
