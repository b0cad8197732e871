"""A complete backtest: one history, folded under each system, and the results compared."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.backtest.comparison import Comparison, side_of
from lab.backtest.measurement import MeasurementPlan
from lab.backtest.system_columns import SystemColumn
from lab.backtest.task_distribution import chosen_starts
from lab.backtest.worker_pool import WorkerPool, measure_all
from oracle.domain.events.network_events import DomainEvent
from oracle.queries.event_history import History, write_history

# Called with the current activity, the progress, and the total (None if unknown).
Told = Callable[[str, int, int | None], None]

# Default for the number of judged starts; small histories are judged completely.
MOST_DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """The range and the extent of a backtest.

    `first_block`, `last_block`: block numbers; events before the range are folded but not counted,
    events after it are ignored. `max_starts`: the maximum number of starts that the policies
    judge, selected by `seed`; 0 for none. `instant_count`: the number of moments at which scores
    are recorded. `max_processes`: the maximum number of processes.
    """

    first: int = 0
    last: int | None = None
    draws: int = MOST_DRAWS
    seed: int = 0
    instants: int = 0
    jobs: int = 1


def compare(
    events: Iterable[DomainEvent],
    columns: Sequence[SystemColumn],
    wanted: BacktestPlan,
    told: Told = lambda *_: None,
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
            events, path, wanted.first, wanted.last, lambda done: told("reading", done, None)
        )
        return compare_kept(history, columns, wanted, told)


def compare_kept(
    history: History,
    columns: Sequence[SystemColumn],
    wanted: BacktestPlan,
    told: Told = lambda *_: None,
) -> Comparison:
    """Fold a history that is already stored in files; otherwise like `compare_events`.

    `wanted.first` and `wanted.last` must be those that the history was written with.
    """
    asked = MeasurementPlan(
        judges=wanted.draws > 0,
        chosen=chosen_starts(history.start_count, wanted.draws, wanted.seed),
        instants=_instants(history, wanted.instants),
    )
    total = history.folded_count * len(columns)
    measured = measure_all(
        columns,
        WorkerPool(history, asked, wanted.jobs),
        lambda done: told("folding", done, total),
    )
    sides = [side_of(*both) for both in zip(columns, measured, strict=True)]
    return Comparison(history, sides, sides[0].measured.spread.judged, asked.instants)


def _instants(history: History, count: int) -> tuple[int, ...]:
    """Return moments evenly spread over the counted range, including its first and last second."""
    low, high = history.from_time, history.to_time
    if not count:
        return ()
    steps = max(1, count - 1)
    moments = {low + (high - low) * place // steps for place in range(count)}
    return tuple(sorted(moments | {high}))
