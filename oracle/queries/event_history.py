"""The events of a backtest, in files that every process reads: an export, or a temporary file."""

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from oracle.domain.events.network_events import DomainEvent, TaskStarted
from oracle.errors import InputError

# Events per chunk, so that memory use stays flat.
EVENTS_AT_ONCE = 5_000


class EventSource(Protocol):
    """The source of all events, given by file names, so that it can be passed between processes."""

    def chunks(self) -> Iterator[list[DomainEvent]]:
        """Yield every event in order of position, in chunks of a few thousand."""
        ...


@dataclass(frozen=True, slots=True)
class History:
    """Events in order of position, in files; events from block `first_block` on are counted.

    `event_count` and `start_count` (of tasks) include the counted events only, `folded_count`
    includes all. `from_time` and `to_time` are the block times of the first and the last counted
    event.
    """

    source: EventSource
    folded: int
    events: int
    starts: int
    first_block: int
    last_block: int
    from_time: int
    to_time: int

    def chunks(self) -> Iterator[list[DomainEvent]]:
        """Yield every event from the first on, including those before `first_block`."""
        chunks = self.source.chunks()
        while True:
            with _without_collections():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


@dataclass(frozen=True, slots=True)
class _KeptEvents:
    """A pickle file of `event_count` events, written by this process."""

    path: Path
    events: int

    def chunks(self) -> Iterator[list[DomainEvent]]:
        with self.path.open("rb") as stream:
            for _ in range(0, self.events, EVENTS_AT_ONCE):
                # The file lies in a private folder that this command created.
                chunk: list[DomainEvent] = pickle.load(stream)  # noqa: S301
                yield chunk


@dataclass(slots=True)
class _Tally:
    """Counts of a stream of events."""

    first: int
    events: int = 0
    starts: int = 0
    first_block: int = 0
    from_time: int = 0
    last: DomainEvent | None = None

    def add(self, event: DomainEvent) -> None:
        self.last = event
        if event.at.block < self.first:
            return
        if not self.events:
            self.first_block, self.from_time = event.at.block, event.time
        self.events += 1
        self.starts += isinstance(event, TaskStarted)


def kept(
    events: Iterable[DomainEvent],
    path: Path,
    first: int = 0,
    last: int | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> History:
    """Write a history to a file for every process to read.

    Args:
        events: in order of position.
        path: the file to write, in the caller's own folder, because it is trusted when read.
        min_block: the first block that is counted; earlier events are folded but not counted.
        max_block: the last block that is read, or None for all blocks.
        on_progress: called from time to time with the number of events written.

    Raises:
        InputError: there is no event to count.
    """
    tally, folded = _Tally(first), 0
    wanted = iter(events) if last is None else _until(events, last)
    with path.open("wb") as stream:
        while chunk := list(islice(wanted, EVENTS_AT_ONCE)):
            for event in chunk:
                tally.add(event)
            pickle.dump(chunk, stream, protocol=pickle.HIGHEST_PROTOCOL)
            folded += len(chunk)
            told(folded)
    if tally.last is None or not tally.events:
        raise InputError(_nothing(first, last, folded))
    return History(
        source=_KeptEvents(path, folded),
        folded=folded,
        events=tally.events,
        starts=tally.starts,
        first_block=tally.first_block,
        last_block=tally.last.at.block,
        from_time=tally.from_time,
        to_time=tally.last.time,
    )


def _until(events: Iterable[DomainEvent], last: int) -> Iterator[DomainEvent]:
    # The stream is read to its end, so that faults anywhere in the file are found.
    return (event for event in events if event.at.block <= last)


def _nothing(first: int, last: int | None, folded: int) -> str:
    if not folded and last is None:
        return "no events: the history is empty"
    if not folded:
        return f"--to {last} lies before the first event of the history"
    return f"--from {first}: there is no event at or after it"


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disable the garbage collector; it would scan thousands of long-lived objects for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
