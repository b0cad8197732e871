"""Writes what the stored logs say as JSON lines, for `replay` and for other tools.

See docs/reference/events-and-jsonl.md#the-file-format.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.logs import Log
from oracle.indexer.feeds.feed_events import with_feed
from oracle.store.database import UnitOfWork

# Logs read at once; memory stays flat.
LOGS_AT_ONCE = 5_000


def export(uow: UnitOfWork, reader: LogReader, blocks: BlockRange) -> Iterator[str]:
    """Yield the events of these blocks as lines without their ends, in order of position.

    Reads canonical rows only, all from the snapshot of `uow`; nothing is asked of the chain.

    Raises:
        FatalError: a stored log that we know cannot be read; it is named.
    """
    return written(stored_events(uow, reader, blocks))


def stored_events(uow: UnitOfWork, reader: LogReader, blocks: BlockRange) -> Iterator[DomainEvent]:
    """Yield the events themselves, in order of position; as `export`."""
    for chunk, logs in chunks(uow, blocks):
        said = reader.read(logs, list(uow.calls.between(chunk.first, chunk.last)))
        yield from with_feed(uow, reader, said, chunk).events


def written(events: Iterable[DomainEvent]) -> Iterator[str]:
    """Yield each event as a line without its end."""
    return map(event_to_json, events)


def chunks(uow: UnitOfWork, blocks: BlockRange) -> Iterator[tuple[BlockRange, list[Log]]]:
    """Cut the logs into whole blocks; the ranges leave no gap, for calls stand between logs."""
    first, chunk = blocks.first, list[Log]()
    stored = uow.logs.between(blocks.first, blocks.last)
    for number, logs in groupby(stored, key=attrgetter("block")):
        if len(chunk) >= LOGS_AT_ONCE:
            yield BlockRange(first, number - 1), chunk
            first, chunk = number, []
        chunk.extend(logs)
    yield BlockRange(first, blocks.last), chunk
