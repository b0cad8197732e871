"""Searches for better rule values, one rule at a time, until nothing improves.

The best values are simulated again with other seeds, which shows whether the improvement was only
due to chance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.backtest.system_columns import SystemBase, SystemColumn
from lab.closed_loop.closed_loop import LoopJob, run_jobs
from lab.closed_loop.loop_plan import LoopPlan, build_mixed_participants
from lab.closed_loop.rule_measures import Goal, RuleMeasures

# Offset that is added to the seeds when the best values are simulated a second time.
_SEED_OFFSET = 1_000_000


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """The plan for simulating each system.

    There are `runs` runs with consecutive seeds, in at most `jobs` processes.
    """

    loop: LoopPlan
    runs: int = 1
    jobs: int = 1

    @property
    def with_other_seeds(self) -> "ComparisonPlan":
        return replace(self, loop=replace(self.loop, seed=self.loop.seed + _SEED_OFFSET))


def measure_systems(
    columns: Sequence[SystemColumn],
    plan: ComparisonPlan,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> list[RuleMeasures]:
    """Simulate every system in the same networks, and measure each of them.

    Raises:
        ValueError: a system cannot be simulated.
        FatalError: a worker process ended before its work was done.
    """
    jobs = [
        LoopJob(column, replace(plan.loop, seed=plan.loop.seed + run), build_mixed_participants)
        for column in columns
        for run in range(plan.runs)
    ]
    results = run_jobs(jobs, plan.jobs, on_progress)
    return [
        RuleMeasures(
            column, tuple(results[column_index * plan.runs : (column_index + 1) * plan.runs])
        )
        for column_index, column in enumerate(columns)
    ]


@dataclass(frozen=True, slots=True)
class Trial:
    """A system with changed rule values, its measures and its distance from the goal."""

    changes: Mapping[str, str]
    measures: RuleMeasures
    distance: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """All trials in order, and the best of them.

    `distance_on_other_seeds` is the distance of the best trial when both it and the first trial
    are simulated with other seeds. Distances are in units of 10^-18; the first trial is always at
    distance 1.
    """

    trials: tuple[Trial, ...]
    best: Trial
    distance_on_other_seeds: int

    @property
    def first_trial(self) -> Trial:
        """The trial of the unchanged system, with which the others are compared."""
        return self.trials[0]


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The system to start from, the values to try for each rule, and the goal.

    The search ends after `max_trials` systems at the latest.
    """

    base: SystemBase
    values: Mapping[str, Sequence[str]]
    goal: Goal
    max_trials: int = 40


def search_rules(
    search_plan: SearchPlan,
    plan: ComparisonPlan,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> SearchResult:
    """Search for the best value of one rule after another, until no rule improves.

    Raises:
        ValueError: a value is invalid, or a system cannot be simulated.
    """
    (start_measures,) = measure_systems([_build_column(search_plan.base, {})], plan)
    trials = {
        _make_trial_key({}): Trial(
            {}, start_measures, search_plan.goal.compute_distance(start_measures, start_measures)
        )
    }
    best_trial = trials[_make_trial_key({})]
    is_better = True
    while is_better and len(trials) < search_plan.max_trials:
        is_better = False
        for name, values in search_plan.values.items():
            candidate_changes = [{**best_trial.changes, name: value} for value in values]
            new_changes = [
                trial_changes
                for trial_changes in candidate_changes
                if _make_trial_key(trial_changes) not in trials
            ]
            new_changes = new_changes[: search_plan.max_trials - len(trials)]
            columns = [
                _build_column(search_plan.base, trial_changes) for trial_changes in new_changes
            ]
            for tried_changes, measures in zip(
                new_changes, measure_systems(columns, plan), strict=True
            ):
                distance = search_plan.goal.compute_distance(measures, start_measures)
                trials[_make_trial_key(tried_changes)] = Trial(tried_changes, measures, distance)
            on_progress(len(trials), search_plan.max_trials)
            nearest_trial = min(trials.values(), key=lambda trial: trial.distance)
            if nearest_trial.distance < best_trial.distance:
                best_trial, is_better = nearest_trial, True
    return SearchResult(
        tuple(trials.values()), best_trial, _measure_on_other_seeds(search_plan, plan, best_trial)
    )


def _measure_on_other_seeds(
    search_plan: SearchPlan, plan: ComparisonPlan, best_trial: Trial
) -> int:
    columns = [
        _build_column(search_plan.base, {}),
        _build_column(search_plan.base, best_trial.changes),
    ]
    first_measures, best_measures = measure_systems(columns, plan.with_other_seeds)
    return search_plan.goal.compute_distance(best_measures, first_measures)


def _build_column(base: SystemBase, changes: Mapping[str, str]) -> SystemColumn:
    name = " ".join((base.full_name, *(f"{key}={value}" for key, value in changes.items())))
    return base.build_column(name, changes)


def _make_trial_key(changes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(changes.items()))
