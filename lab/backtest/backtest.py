"""Runs a complete backtest: applies one history to each system, and compares the results."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.backtest.comparison import Comparison, summarize_system
from lab.backtest.event_history import History, write_history
from lab.backtest.measurement import MeasurementPlan
from lab.backtest.system_columns import SystemColumn
from lab.backtest.task_distribution import sample_start_numbers
from lab.backtest.worker_pool import MeasurementTask, measure_all_columns
from oracle.domain.events.network_events import DomainEvent

# A function that is called with the current activity, the number of events processed, and the
# total (None if unknown).
ProgressCallback = Callable[[str, int, int | None], None]

# Default of the maximum number of starts that are judged.
DEFAULT_MAX_STARTS = 10_000


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """The blocks that a backtest counts, and the measurements to take.

    The blocks from `first_block` to `last_block` are counted. Earlier events are folded but not
    counted, and later events are ignored. `max_starts` is the maximum number of task starts that
    the policies judge; if there are more, `seed` selects a sample. `instant_count` is the number
    of moments at which scores are recorded.
    """

    first_block: int = 0
    last_block: int | None = None
    max_starts: int = DEFAULT_MAX_STARTS
    seed: int = 0
    instant_count: int = 0
    max_processes: int = 1


def compare_systems_on_events(
    events: Iterable[DomainEvent],
    columns: Sequence[SystemColumn],
    plan: BacktestPlan,
    on_progress: ProgressCallback = lambda *_: None,
) -> Comparison:
    """Process a history under every system, and compare the results.

    `events` must be ordered by position. They are written to a temporary file instead of being
    kept in memory.

    Raises:
        InputError: there is no event in the counted range.
        FatalError: a worker process ended before its work was done.
    """
    with TemporaryDirectory(prefix="qos-oracle-backtest-") as folder:
        path = Path(folder) / "events"
        history = write_history(
            events,
            path,
            plan.first_block,
            plan.last_block,
            lambda event_count: on_progress("reading", event_count, None),
        )
        return compare_systems_on_history(history, columns, plan, on_progress)


def compare_systems_on_history(
    history: History,
    columns: Sequence[SystemColumn],
    plan: BacktestPlan,
    on_progress: ProgressCallback = lambda *_: None,
) -> Comparison:
    """Process a history stored in files under every system, and compare the results.

    The history must have been written with the first and the last block of the plan.
    """
    measurement_plan = MeasurementPlan(
        measures_task_spread=plan.max_starts > 0,
        chosen_starts=sample_start_numbers(history.start_count, plan.max_starts, plan.seed),
        instants=_choose_instants(history, plan.instant_count),
    )
    total_events = history.folded_count * len(columns)
    measurements = measure_all_columns(
        columns,
        MeasurementTask(history, measurement_plan, plan.max_processes),
        lambda event_count: on_progress("folding", event_count, total_events),
    )
    results = [summarize_system(*pair) for pair in zip(columns, measurements, strict=True)]
    return Comparison(
        history, results, results[0].measurement.spread.judged, measurement_plan.instants
    )


def _choose_instants(history: History, count: int) -> tuple[int, ...]:
    """Return evenly spaced block times over the counted range, including both ends."""
    from_time, to_time = history.from_time, history.to_time
    if not count:
        return ()
    step_count = max(1, count - 1)
    sample_times = {
        from_time + (to_time - from_time) * step // step_count for step in range(count)
    }
    return tuple(sorted(sample_times | {to_time}))
