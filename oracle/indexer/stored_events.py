"""Exports the events in the stored logs as JSON lines, for `replay` and other tools.

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

# Logs read at once, so that memory use stays constant.
LOGS_AT_ONCE = 5_000


def export(uow: UnitOfWork, reader: LogReader, blocks: BlockRange) -> Iterator[str]:
    """Yield the events of these blocks as JSON lines without line ends, in order of position.

    Only canonical rows are read, all from the snapshot of `uow`, without requests to the chain.

    Raises:
        FatalError: a stored log of a known kind cannot be decoded; the message names it.
    """
    return written(stored_events(uow, reader, blocks))


def stored_events(uow: UnitOfWork, reader: LogReader, blocks: BlockRange) -> Iterator[DomainEvent]:
    """Yield the events in order of position; raises as `export_events`."""
    for chunk, logs in chunks(uow, blocks):
        said = reader.read(logs, list(uow.calls.between(chunk.first, chunk.last)))
        yield from with_feed(uow, reader, said, chunk).events


def written(events: Iterable[DomainEvent]) -> Iterator[str]:
    """Yield each event as a JSON line without its line end."""
    return map(event_to_json, events)


def chunks(uow: UnitOfWork, blocks: BlockRange) -> Iterator[tuple[BlockRange, list[Log]]]:
    """Yield the logs in chunks of whole blocks; the ranges have no gaps, because of calls."""
    first, chunk = blocks.first, list[Log]()
    stored = uow.logs.between(blocks.first, blocks.last)
    for number, logs in groupby(stored, key=attrgetter("block")):
        if len(chunk) >= LOGS_AT_ONCE:
            yield BlockRange(first, number - 1), chunk
            first, chunk = number, []
        chunk.extend(logs)
    yield BlockRange(first, blocks.last), chunk
