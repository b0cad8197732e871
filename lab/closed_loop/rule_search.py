"""Searches for better rule values, one rule after the other, as long as the distance shrinks.

The best values are tested again on other seeds, which reveals results that were only due to
chance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.backtest.system_columns import SystemBase, SystemColumn
from lab.closed_loop.loop_jobs import LoopJob, play_all
from lab.closed_loop.loop_plan import LoopPlan
from lab.closed_loop.mixed_cast import mixed_cast
from lab.closed_loop.rule_measures import Goal, RuleMeasures

# Distance of the seeds of the second test from those of the search.
_OTHER_SEEDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """Loops for each system: `runs` seeds, in at most `jobs` processes."""

    loop: LoopPlan
    runs: int = 1
    jobs: int = 1

    @property
    def elsewhere(self) -> "ComparisonPlan":
        """The same plan with other seeds."""
        return replace(self, loop=replace(self.loop, seed=self.loop.seed + _OTHER_SEEDS))


def measured(
    columns: Sequence[SystemColumn],
    plan: ComparisonPlan,
    told: Callable[[int, int], None] = lambda *_: None,
) -> list[RuleMeasures]:
    """Run every system in the same networks and measure it.

    Raises:
        ValueError: a system cannot be simulated.
        FatalError: a worker process ended before its work was done.
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
    """One choice of rule values, and its distance from the goal."""

    changes: Mapping[str, str]
    found: RuleMeasures
    distance: int


@dataclass(frozen=True, slots=True)
class Search:
    """All trials in order, and the best one's distance on other seeds.

    `first` and `best` are among `trials`. `distance_on_other_seeds` is the distance of the best on
    other seeds, where the first is at 1 by definition. Distances are in units of 10^-18.
    """

    trials: tuple[Trial, ...]
    best: Trial
    again: int

    @property
    def first(self) -> Trial:
        """The trial of the unchanged system."""
        return self.trials[0]


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The start, the values to try for each rule, and the goal; at most `max_trials` systems."""

    basis: SystemBase
    values: Mapping[str, Sequence[str]]
    goal: Goal
    tries: int = 40


def search(
    wanted: SearchPlan,
    plan: ComparisonPlan,
    told: Callable[[int, int], None] = lambda *_: None,
) -> Search:
    """Try the values of one rule after the other, keeping the best, until nothing improves.

    Raises:
        ValueError: a value is invalid, or a system cannot be simulated.
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
