"""The events of a backtest, in files that every process reads: an export, or one of our own."""

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

# Events that are read at once; memory stays flat.
EVENTS_AT_ONCE = 5_000


class EventSource(Protocol):
    """Where every process finds all events: names of files, which travel between processes."""

    def chunks(self) -> Iterator[list[DomainEvent]]:
        """Yield every event in order of position, some thousand at a time."""
        ...


@dataclass(frozen=True, slots=True)
class History:
    """Events in order of position, in files; counted are those from block `first_block` on.

    `events` and `starts` (of tasks) are the numbers of those counted, `folded` of all.
    `from_time` and `to_time` are the block times of the first and the last event counted.
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
        """Yield every event, from the first, those before `first_block` included."""
        chunks = self.source.chunks()
        while True:
            with _without_collections():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


@dataclass(frozen=True, slots=True)
class _KeptEvents:
    """A file of our own, of so many events."""

    path: Path
    events: int

    def chunks(self) -> Iterator[list[DomainEvent]]:
        with self.path.open("rb") as stream:
            for _ in range(0, self.events, EVENTS_AT_ONCE):
                # In a folder of our own, of this very command.
                chunk: list[DomainEvent] = pickle.load(stream)  # noqa: S301
                yield chunk


@dataclass(slots=True)
class _Tally:
    """What is counted while the events go by."""

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
    """Write a history to a file, for every process to read.

    Args:
        events: in order of position.
        path: where it is written; of the caller's own folder, for it is trusted when read.
        first: the first block that is counted; events before it are folded all the same.
        last: the last one that is read at all; None: all.
        told: hears now and then how many events have been written.

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
    # Read to the end: whoever reads a file finds its faults wherever they are.
    return (event for event in events if event.at.block <= last)


def _nothing(first: int, last: int | None, folded: int) -> str:
    if not folded and last is None:
        return "no events: the history is empty"
    if not folded:
        return f"--to {last} lies before the first event of the history"
    return f"--from {first}: there is no event at or after it"


@contextmanager
def _without_collections() -> Iterator[None]:
    """Objects that are made by the thousand and stay are looked through in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
