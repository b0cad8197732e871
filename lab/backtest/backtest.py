"""A whole backtest: the history kept once, folded under each system, and laid side by side."""

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

# Told what is done, how far it is, and how far it goes; None: nobody knows.
Told = Callable[[str, int, int | None], None]

# Starts that policies judge where nobody says how many: all of a small history's.
MOST_DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """What to count and to measure.

    `first`, `last`: blocks; what is before is folded and not counted, what is after is left out.
    `draws`: so many starts at most are judged by the policies, chosen by `seed`; 0: none.
    `instants`: at how many moments scores are noted. `jobs`: processes at most.
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
    """Fold a history under every system and return them side by side.

    Args:
        events: in order of position; read once, and not kept in memory.
        columns: the systems, in their order.
        wanted: what to count and to measure.
        told: hears how far it is.

    Raises:
        InputError: there is no event to count.
        FatalError: a process ended before its work was done.
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
    """Fold a history that is in files already; otherwise as `compare`.

    `wanted.first` and `wanted.last` are those that it was counted by.
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
    """Return moments evenly over what is counted, its first and last second included."""
    low, high = history.from_time, history.to_time
    if not count:
        return ()
    steps = max(1, count - 1)
    moments = {low + (high - low) * place // steps for place in range(count)}
    return tuple(sorted(moments | {high}))
