"""The events of a backtest, in an export or a temporary file that all processes can read."""

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

# Number of events per chunk, which limits the memory use.
EVENTS_PER_CHUNK = 5_000


class EventSource(Protocol):
    """A source of events given by file names, for reading in other processes."""

    def read_chunks(self) -> Iterator[list[DomainEvent]]:
        """Yield all events in order of position, in chunks of a few thousand."""
        ...


@dataclass(frozen=True, slots=True)
class History:
    """The events of a backtest.

    All events are folded, but only those from `first_block` on count. `event_count` is the number
    of counted events, and `start_count` the number of task starts among them. `folded_count` is
    the number of all events. `from_time` and `to_time` are the block times of the first and the
    last counted event.
    """

    source: EventSource
    folded_count: int
    event_count: int
    start_count: int
    first_block: int
    last_block: int
    from_time: int
    to_time: int

    def read_chunks(self) -> Iterator[list[DomainEvent]]:
        """Yield all events in chunks, including those before `first_block`."""
        chunks = self.source.read_chunks()
        while True:
            with _pause_gc():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


@dataclass(frozen=True, slots=True)
class _PickledEvents:
    """A pickle file of `event_count` events, written by this process."""

    path: Path
    event_count: int

    def read_chunks(self) -> Iterator[list[DomainEvent]]:
        with self.path.open("rb") as stream:
            for _ in range(0, self.event_count, EVENTS_PER_CHUNK):
                # This command itself created the file in a private folder, so unpickling it is
                # safe.
                chunk: list[DomainEvent] = pickle.load(stream)  # noqa: S301
                yield chunk


def write_history(
    events: Iterable[DomainEvent],
    path: Path,
    min_block: int = 0,
    max_block: int | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> History:
    """Write a history to a file that all processes can read.

    Args:
        events: in order of position.
        path: the file to write, in the caller's own folder, because it is trusted when read.
        min_block: the first block that is counted; earlier events are folded but not counted.
        max_block: the last block that is read, or None for all blocks.
        on_progress: called from time to time with the number of events written.

    Raises:
        InputError: there is no event to count.
    """
    # The stream is read to its end even with `max_block`, so that faults anywhere in the file are
    # found.
    selected_events = (
        event for event in events if max_block is None or event.at.block <= max_block
    )
    folded_count = event_count = start_count = 0
    first_event: DomainEvent | None = None
    last_event: DomainEvent | None = None
    with path.open("wb") as stream:
        while chunk := list(islice(selected_events, EVENTS_PER_CHUNK)):
            counted_events = [event for event in chunk if event.at.block >= min_block]
            if counted_events and first_event is None:
                first_event = counted_events[0]
            last_event = chunk[-1]
            event_count += len(counted_events)
            start_count += sum(isinstance(event, TaskStarted) for event in counted_events)
            pickle.dump(chunk, stream, protocol=pickle.HIGHEST_PROTOCOL)
            folded_count += len(chunk)
            on_progress(folded_count)
    if first_event is None or last_event is None:
        raise InputError(_format_no_events_message(min_block, max_block, folded_count))
    return History(
        source=_PickledEvents(path, folded_count),
        folded_count=folded_count,
        event_count=event_count,
        start_count=start_count,
        first_block=first_event.at.block,
        last_block=last_event.at.block,
        from_time=first_event.time,
        to_time=last_event.time,
    )


def _format_no_events_message(min_block: int, max_block: int | None, folded_count: int) -> str:
    if not folded_count and max_block is None:
        return "no events: the history is empty"
    if not folded_count:
        return f"--to {max_block}: the history has no event up to this block"
    return f"--from {min_block}: the history has no event from this block on"


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Disable the garbage collector, which would scan many long-lived objects in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
