"""Measures for comparing rules in a closed loop, and the goal of a search.

The goal is a weighted mean of measures.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.loop_result import LoopResult
from oracle.domain.fixed_point import UNIT

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class RuleMeasures:
    """The measures of one system over all runs of its loop.

    Rates are in millionths.
    """

    column: SystemColumn
    results: tuple[LoopResult, ...]

    @property
    def failure_rate(self) -> int:
        """The share of orders with a wrong result or none."""
        return _compute_rate(
            [(result.failed + result.lies, result.orders) for result in self.results]
        )

    @property
    def wrongful_exclusion_rate(self) -> int:
        """The share of time during which good nodes were excluded."""
        return _compute_rate(
            [(result.excluded_seconds, result.present_seconds) for result in self.results]
        )

    @property
    def kicked_good_node_count(self) -> int:
        """The number of good nodes that were kicked out."""
        return sum(result.kicked_good_nodes for result in self.results)

    @property
    def gini(self) -> int:
        """The Gini coefficient of the good nodes' tasks, in millionths."""
        return sum(result.gini for result in self.results) * _MILLION // (UNIT * len(self.results))

    @property
    def mean_seconds_until_kickout(self) -> int:
        """The mean time in seconds from a node's stop to its kickout.

        Without a kickout, the time ends with the loop.
        """
        durations = [seconds for result in self.results for seconds in result.stay_durations]
        return sum(durations) // len(durations) if durations else 0

    @property
    def remaining_stopped_node_count(self) -> int:
        """The number of stopped nodes that were never kicked out."""
        return sum(delay is None for result in self.results for delay in result.kickout_delays)

    @property
    def stopped_node_count(self) -> int:
        return sum(len(result.kickout_delays) for result in self.results)

    @property
    def wasted_task_rate(self) -> int:
        """The share of tasks that were started on stopped nodes."""
        return _compute_rate([(result.wasted, result.tasks) for result in self.results])


def _compute_rate(parts: Sequence[tuple[int, int]]) -> int:
    total = sum(part_total for _, part_total in parts)
    return sum(part for part, _ in parts) * _MILLION // total if total else 0


# Measures that a goal can use. For each of them, lower is better.
MEASURES: Mapping[str, Callable[[RuleMeasures], int]] = MappingProxyType({
    "failures": lambda measures: measures.failure_rate,
    "wrongful": lambda measures: measures.wrongful_exclusion_rate,
    "kicked": lambda measures: measures.kicked_good_node_count,
    "gini": lambda measures: measures.gini,
    "dead": lambda measures: measures.mean_seconds_until_kickout,
    "wasted": lambda measures: measures.wasted_task_rate,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a search: measures with their weights."""

    weights: Mapping[str, int]

    @classmethod
    def parse(cls, text: str) -> "Goal":
        """Parse `failures` or `failures=3,gini=1`.

        Raises:
            ValueError: a measure is unknown or given twice, or a weight is invalid.
        """
        weights: dict[str, int] = {}
        for part in text.split(","):
            name, equals_sign, weight = part.strip().partition("=")
            if name not in MEASURES:
                raise ValueError(
                    f"unknown measure {name!r}; expected one of: {', '.join(MEASURES)}"
                )
            if name in weights:
                raise ValueError(f"{name}: this measure is given twice")
            if equals_sign and not (
                weight.isascii() and weight.isdigit() and 0 < int(weight) < UNIT
            ):
                raise ValueError(f"{name}: the weight must be a whole number of at least 1")
            weights[name] = int(weight) if equals_sign else 1
        return cls(weights)

    def compute_distance(self, measures: RuleMeasures, first_measures: RuleMeasures) -> int:
        """Return how far a system is from the goal, in units of 10^-18.

        The distance is the weighted mean of the measures, each divided by its value for the first
        system. The first system is therefore at distance 1.
        """
        total_weight = sum(self.weights.values())
        weighted_ratios = (
            weight * MEASURES[name](measures) * UNIT // max(1, MEASURES[name](first_measures))
            for name, weight in self.weights.items()
        )
        return sum(weighted_ratios) // total_weight
