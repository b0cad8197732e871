"""Looks for better numbers: one rule after the other, as long as the goal comes nearer.

What was found on some seeds is played again on others: chance that looked like merit shows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.backtest.system_columns import SystemBase, SystemColumn
from lab.closed_loop.loop_jobs import LoopJob, play_all
from lab.closed_loop.loop_plan import LoopPlan
from lab.closed_loop.mixed_cast import mixed_cast
from lab.closed_loop.rule_measures import Goal, RuleMeasures

# Seeds of the second look lie so far from those of the first.
_OTHER_SEEDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """Loops to be played for each system: `runs` seeds, in so many processes at most."""

    loop: LoopPlan
    runs: int = 1
    jobs: int = 1

    @property
    def elsewhere(self) -> "ComparisonPlan":
        """Return the same with other seeds."""
        return replace(self, loop=replace(self.loop, seed=self.loop.seed + _OTHER_SEEDS))


def measured(
    columns: Sequence[SystemColumn],
    plan: ComparisonPlan,
    told: Callable[[int, int], None] = lambda *_: None,
) -> list[RuleMeasures]:
    """Play every system in the same networks and measure it.

    Raises:
        ValueError: a system that cannot be played in the loop.
        FatalError: a process ended before its work was done.
    """
    jobs = [
        LoopJob(column, replace(plan.loop, seed=plan.loop.seed + run), mixed_cast)
        for column in columns
        for run in range(plan.runs)
    ]
    results = play_all(jobs, plan.jobs, told)
    return [
        RuleMeasures(column, tuple(results[place * plan.runs : (place + 1) * plan.runs]))
        for place, column in enumerate(columns)
    ]


@dataclass(frozen=True, slots=True)
class Trial:
    """One choice of numbers, and how far from the goal it is."""

    changes: Mapping[str, str]
    found: RuleMeasures
    distance: int


@dataclass(frozen=True, slots=True)
class Search:
    """Everything that was tried, in order, and how the best did on seeds that it had not seen.

    `first` and `best` are of `trials`; `again`: the distance of the best there, where the first
    is at 1 by definition; both in units of 10^-18.
    """

    trials: tuple[Trial, ...]
    best: Trial
    again: int

    @property
    def first(self) -> Trial:
        """Return the system as it was."""
        return self.trials[0]


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Where to begin, what to try for each rule, and what is wanted; `tries` systems at most."""

    basis: SystemBase
    values: Mapping[str, Sequence[str]]
    goal: Goal
    tries: int = 40


def search(
    wanted: SearchPlan,
    plan: ComparisonPlan,
    told: Callable[[int, int], None] = lambda *_: None,
) -> Search:
    """Try values of one rule after the other, keep what is better, until nothing is.

    Raises:
        ValueError: a value that cannot be, or a system that cannot be played.
    """
    (start,) = measured([_column(wanted.basis, {})], plan)
    trials = {_key({}): Trial({}, start, wanted.goal.of(start, start))}
    best = trials[_key({})]
    is_better = True
    while is_better and len(trials) < wanted.tries:
        is_better = False
        for name, values in wanted.values.items():
            open_changes = [{**best.changes, name: value} for value in values]
            fresh = [each for each in open_changes if _key(each) not in trials]
            fresh = fresh[: wanted.tries - len(trials)]
            columns = [_column(wanted.basis, each) for each in fresh]
            for changes, found in zip(fresh, measured(columns, plan), strict=True):
                distance = wanted.goal.of(found, start)
                trials[_key(changes)] = Trial(changes, found, distance)
            told(len(trials), wanted.tries)
            nearest = min(trials.values(), key=lambda trial: trial.distance)
            if nearest.distance < best.distance:
                best, is_better = nearest, True
    return Search(tuple(trials.values()), best, _again(wanted, plan, best))


def _again(wanted: SearchPlan, plan: ComparisonPlan, best: Trial) -> int:
    columns = [_column(wanted.basis, {}), _column(wanted.basis, best.changes)]
    first, found = measured(columns, plan.elsewhere)
    return wanted.goal.of(found, first)


def _column(basis: SystemBase, changes: Mapping[str, str]) -> SystemColumn:
    name = " ".join((basis.full_name, *(f"{key}={value}" for key, value in changes.items())))
    return basis.column(name, changes)


def _key(changes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(changes.items()))
