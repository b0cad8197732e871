"""Decodes events from stored rows, for refolds and as JSON lines for `replay`.

See docs/reference/events-and-jsonl.md#the-file-format.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.domain.blocks import BlockRange
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.logs import Log
from oracle.indexer.feed_events import merge_feed_events
from oracle.store.database import UnitOfWork

# Number of logs per batch, which bounds the memory use.
LOGS_AT_ONCE = 5_000


def export_events(uow: UnitOfWork, reader: EventReader, blocks: BlockRange) -> Iterator[str]:
    """Yield the events of these blocks as JSON lines, in order.

    Lines have no line ends, and the order is that of positions. Only canonical rows are read, all
    from the snapshot of `uow`, without requests to the chain. Rows that cannot be decoded yield no
    event.
    """
    return format_events(iterate_stored_events(uow, reader, blocks))


def iterate_stored_events(
    uow: UnitOfWork, reader: EventReader, blocks: BlockRange
) -> Iterator[DomainEvent]:
    """Yield the events of these blocks, ordered by position."""
    for _, _, decoded_events in iterate_decoded_chunks(uow, reader, blocks):
        yield from decoded_events.events


def format_events(events: Iterable[DomainEvent]) -> Iterator[str]:
    """Yield each event as a JSON line without a line end."""
    return map(event_to_json, events)


def iterate_decoded_chunks(
    uow: UnitOfWork, reader: EventReader, blocks: BlockRange
) -> Iterator[tuple[BlockRange, int, DecodedEvents]]:
    """Yield chunks of whole blocks with their decoded events.

    Each chunk is its block range, its number of logs, and its events in order.
    """
    for chunk, logs in _iterate_log_chunks(uow, blocks):
        calls = list(uow.calls.iterate_between(chunk.first, chunk.last))
        decoded_events = reader.decode_rows(logs, calls)
        yield chunk, len(logs), merge_feed_events(uow, reader, decoded_events, chunk)


def _iterate_log_chunks(
    uow: UnitOfWork, blocks: BlockRange
) -> Iterator[tuple[BlockRange, list[Log]]]:
    """Yield the logs in chunks of whole blocks.

    The ranges have no gaps, so that the calls in blocks without logs can be read as well.
    """
    first_block = blocks.first
    log_chunk = list[Log]()
    stored_logs = uow.logs.iterate_between(blocks.first, blocks.last)
    for number, logs in groupby(stored_logs, key=attrgetter("block")):
        if len(log_chunk) >= LOGS_AT_ONCE:
            yield BlockRange(first_block, number - 1), log_chunk
            first_block, log_chunk = number, []
        log_chunk.extend(logs)
    yield BlockRange(first_block, blocks.last), log_chunk
