"""A complete backtest: one history, folded under each system, and the results compared."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.backtest.comparison import Comparison, summarize_system
from lab.backtest.measurement import MeasurementPlan
from lab.backtest.system_columns import SystemColumn
from lab.backtest.task_distribution import choose_starts
from lab.backtest.worker_pool import MeasurementTask, measure_all
from oracle.domain.events.network_events import DomainEvent
from oracle.queries.event_history import History, write_history

# Called with the current activity, the progress, and the total (None if unknown).
ProgressCallback = Callable[[str, int, int | None], None]

# Default for the number of judged starts; small histories are judged completely.
DEFAULT_MAX_STARTS = 10_000


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """The range and the extent of a backtest.

    `first_block`, `last_block`: block numbers; events before the range are folded but not counted,
    events after it are ignored. `max_starts`: the maximum number of starts that the policies
    judge, selected by `seed`; 0 for none. `instant_count`: the number of moments at which scores
    are recorded. `max_processes`: the maximum number of processes.
    """

    first_block: int = 0
    last_block: int | None = None
    max_starts: int = DEFAULT_MAX_STARTS
    seed: int = 0
    instant_count: int = 0
    max_processes: int = 1


def compare_events(
    events: Iterable[DomainEvent],
    columns: Sequence[SystemColumn],
    plan: BacktestPlan,
    on_progress: ProgressCallback = lambda *_: None,
) -> Comparison:
    """Fold a history under every system and return the results side by side.

    Args:
        events: in order of position; read once, and not kept in memory.
        columns: the systems, in their order.
        plan: the range and the measurements.
        on_progress: called with the activity, the progress and the total.

    Raises:
        InputError: there is no event to count.
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
        return compare_history(history, columns, plan, on_progress)


def compare_history(
    history: History,
    columns: Sequence[SystemColumn],
    plan: BacktestPlan,
    on_progress: ProgressCallback = lambda *_: None,
) -> Comparison:
    """Fold a history that is already stored in files; otherwise like `compare_events`.

    `wanted.first` and `wanted.last` must be those that the history was written with.
    """
    measurement_plan = MeasurementPlan(
        judges_starts=plan.max_starts > 0,
        chosen_starts=choose_starts(history.start_count, plan.max_starts, plan.seed),
        instants=_choose_instants(history, plan.instant_count),
    )
    total = history.folded_count * len(columns)
    measurements = measure_all(
        columns,
        MeasurementTask(history, measurement_plan, plan.max_processes),
        lambda event_count: on_progress("folding", event_count, total),
    )
    results = [summarize_system(*pair) for pair in zip(columns, measurements, strict=True)]
    return Comparison(
        history, results, results[0].measured.spread.judged, measurement_plan.instants
    )


def _choose_instants(history: History, count: int) -> tuple[int, ...]:
    """Return moments evenly spread over the counted range, including its first and last second."""
    from_time, to_time = history.from_time, history.to_time
    if not count:
        return ()
    steps = max(1, count - 1)
    instants = {from_time + (to_time - from_time) * step // steps for step in range(count)}
    return tuple(sorted(instants | {to_time}))
