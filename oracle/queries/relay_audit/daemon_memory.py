"""Observations of a daemon that reads a relay and the chain: arrival times of rows, and stakes.

See docs/reference/crynux-relay.md#contradictions.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange
from oracle.domain.events.network_events import NodeUpdated
from oracle.domain.feed_rows import FeedRow, is_feed_position
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.indexer.stored_events import iterate_stored_events
from oracle.queries.relay_audit.contradictions import ChainStakes
from oracle.store.database import UnitOfWork


@dataclass(frozen=True, slots=True)
class DaemonObservations:
    """Rows by id, each with the time at which it was observed, and the stakes on chain."""

    rows: Mapping[int, FeedRow]
    stakes: ChainStakes


def load_observations(
    uow: UnitOfWork, reader: LogReader, network: str | None
) -> DaemonObservations:
    """Read the observations from a daemon's database; `network`: the relay's name of its chain.

    Raises:
        InputError: the daemon has read no block, or no feed.
        FatalError: a stored log cannot be decoded.
    """
    cursor, feed = uow.cursor.get(), uow.feed.get_cursor()
    if cursor is None or feed is None:
        missing_kind = "block" if cursor is None else "feed"
        raise InputError(f"--config: the daemon has not read any {missing_kind} yet")
    changes: dict[Address, list[tuple[int, int]]] = defaultdict(list)
    for event in iterate_stored_events(uow, reader, BlockRange(0, cursor.number)):
        if (
            isinstance(event, NodeUpdated)
            and event.stake is not None
            and not is_feed_position(event.at)
        ):
            changes[event.node].append((event.time, event.stake))
    rows = {row.id: row for row in uow.feed.iterate_settled() if row.stream == feed.stream}
    return DaemonObservations(rows, ChainStakes(cursor.time, changes, network))
