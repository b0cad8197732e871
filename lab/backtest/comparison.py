"""What several systems made of one history, side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.backtest.results import DueInterval, ExclusionInterval, Measured
from lab.backtest.statistics import gini, rank_correlation, ranks_of
from lab.backtest.system_columns import SystemColumn
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.event_history import History
from oracle.systems.rule_overrides import format_rules

_ABSENT = "-"


@dataclass(frozen=True, slots=True)
class FinalRank:
    """A node's score at the end, in units of 10^-18, and its rank, 1 for the best."""

    score: int
    rank: int


@dataclass(frozen=True, slots=True)
class Exclusion:
    """All intervals of exclusion under a system; times in seconds."""

    intervals: int
    nodes: int
    total: int
    longest: int


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system of a comparison.

    `final_ranks`: of those who are members at the end. The Gini coefficients are over everybody
    who was a member at any moment of what is counted, or had a task; in units of 10^-18, None
    where there was no task.
    """

    column: SystemColumn
    measured: Measured
    final_ranks: Mapping[Address, FinalRank]
    exclusion: Exclusion
    gini_actual: int | None
    gini_expected: int | None
    # Sums of the spread: all starts, and all chances.
    started: int
    placed: int

    def actual(self, node: Address) -> int:
        """Return how many tasks the node started."""
        return self.measured.spread.actual.get(node, 0)

    def expected(self, node: Address) -> int:
        """Return the node's part in what the policy would have given, in units of 10^-27."""
        return self.measured.spread.expected.get(node, 0)

    def actual_share(self, node: Address) -> int | None:
        """Return the node's share of all tasks, in units of 10^-18; None: there were none."""
        return _share(self.actual(node), self.started)

    def expected_share(self, node: Address) -> int | None:
        """Return the same of the tasks that the policy could place."""
        return _share(self.expected(node), self.placed)

    def intervals_of(self, node: Address) -> list[ExclusionInterval]:
        """Return the node's intervals of exclusion, in order of time."""
        return [interval for interval in self.measured.intervals if interval.node == node]

    def kickouts_of(self, node: Address) -> list[DueInterval]:
        """Return the times in which the node's kickout was due, in order."""
        return [due for due in self.measured.kickouts if due.node == node]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Systems side by side.

    `judged`: how many starts the policies were asked about. `instants`: the block times of the
    scores over time, none where nobody wants them.
    """

    history: History
    sides: Sequence[SystemResult]
    judged: int
    instants: Sequence[int]

    @property
    def present(self) -> tuple[Address, ...]:
        """Everybody who was a member at any moment of what is counted, or had a task."""
        return self.sides[0].measured.present

    def correlation(self, one: SystemResult, other: SystemResult) -> int | None:
        """Return Spearman's correlation of the scores at the end, in units of 10^-18.

        Of nodes that have a score under both; None where one system orders nobody.
        """
        both = [node for node in one.final_ranks if node in other.final_ranks]
        return rank_correlation(
            [one.final_ranks[node].score for node in both],
            [other.final_ranks[node].score for node in both],
        )


def _share(part: int, total: int) -> int | None:
    return part * UNIT // total if total else None


def side_of(column: SystemColumn, measured: Measured) -> SystemResult:
    """Sum up what one system made of a history."""
    spread, intervals = measured.spread, measured.intervals
    return SystemResult(
        column=column,
        measured=measured,
        final_ranks=_final_ranks(measured),
        exclusion=Exclusion(
            intervals=len(intervals),
            nodes=len({interval.node for interval in intervals}),
            total=sum(interval.seconds for interval in intervals),
            longest=max((interval.seconds for interval in intervals), default=0),
        ),
        gini_actual=gini([spread.actual.get(node, 0) for node in measured.present]),
        gini_expected=gini([spread.expected.get(node, 0) for node in measured.present]),
        started=sum(spread.actual.values()),
        placed=sum(spread.expected.values()),
    )


def _final_ranks(measured: Measured) -> dict[Address, FinalRank]:
    scored = {end.node: end.score for end in measured.nodes if end.score is not None}
    ranks = ranks_of(list(scored.values()))
    return {
        node: FinalRank(score, rank)
        for (node, score), rank in zip(scored.items(), ranks, strict=True)
    }


def differing(columns: Sequence[SystemColumn]) -> dict[str, list[str]]:
    """Return the rules, and the policies' own numbers, in which systems differ: a text for each.

    They are called and written as they are changed, `legacy.vram_weight` included; "-": it has
    none. A rule that only some of those with rules have is one in which they differ; numbers are
    compared among the policies that have them.
    """
    rules = [_rules_of(column) for column in columns]
    numbers = [column.parameters for column in columns]
    found = {
        name: rules for name in _names(rules) if len({row.get(name) for row in rules if row}) > 1
    } | {
        name: numbers
        for name in _names(numbers)
        if len({row[name] for row in numbers if name in row}) > 1
    }
    return {name: [row.get(name, _ABSENT) for row in rows] for name, rows in found.items()}


def _names(rows: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _rules_of(column: SystemColumn) -> dict[str, str]:
    return format_rules(json.loads(column.rules.to_json())) if column.has_rules else {}
