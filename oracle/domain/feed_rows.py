"""Rows of a feed (a second source of events besides the chain), stored as received.

A feed is a stream of events over HTTP that cannot be proven (docs/explanation/feed.md).
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from oracle.domain.blocks import Position
from oracle.domain.ids import Hash

# The transaction index of a feed event is its stream number minus this offset, so feed events
# precede every transaction of their block.
_STREAM_OFFSET = 1 << 20
# The largest accepted row id. It leaves room for a range of ids around it in a signed 64-bit
# integer.
MAX_ROW_ID = 2**63 - 1 - 2**20
# The maximum length of a row's kind, node and task (hashes, addresses and names). These columns
# are indexed, and PostgreSQL indexes at most 2,704 bytes.
MAX_NAME_CHARS = 256
# Rows that the source wrote in one transaction become visible within this many seconds of each
# other, not counting the time between the pages of a poll.
SAME_TRANSACTION_SECONDS = 10


@dataclass(frozen=True)
class FeedRow:
    """A row of a feed, as received; the `id` increases within each stream.

    `stream` counts the restarts of the feed. `seen_from` is the time of the last complete poll
    without this row, and `seen_to` is the time of the poll that returned it, both by the feed's
    clock in seconds. They are equal if there was no earlier poll. `time` is None while it may
    still change, and `block` is None while the row has no position in the chain's order.
    """

    id: int
    kind: str
    node: str
    task: str
    args: str
    stream: int = 1
    seen_from: int = 0
    seen_to: int = 0
    time: int | None = None
    block: int | None = None

    @cached_property
    def hash(self) -> Hash:
        """The SHA-256 of the values that the source sent; readers compare rows by this hash."""
        hashed_values = [self.id, self.kind, self.node, self.task, self.args]
        row_json = json.dumps(hashed_values, separators=(",", ":"))
        return Hash("0x" + hashlib.sha256(row_json.encode()).hexdigest())

    @property
    def position(self) -> Position:
        """The position of the row's first event.

        Raises ValueError if the block is not known.
        """
        if self.block is None:
            raise ValueError(
                f"feed row {self.id} has no position yet, because its block is unknown"
            )
        return Position(self.block, self.stream - _STREAM_OFFSET, self.id, 0)


def is_feed_position(position: Position) -> bool:
    """Return whether the event at this position came from a feed.

    Such an event cannot be proven.
    """
    return position.tx < 0


def get_feed_row_key(position: Position) -> tuple[int, int]:
    """Return the stream and the id of the feed row from which an event came."""
    return position.tx + _STREAM_OFFSET, position.log


@dataclass(frozen=True, slots=True)
class FeedFault:
    """A fault of a feed; `kind` is one of the kinds in docs/explanation/feed.md#faults.

    `row` is the id of the faulty row, or the last id that the reader had settled. `found_at` is a
    time of the feed's clock in seconds. While `accepted_at` is None, the fault is open and nothing
    is published.
    """

    kind: str
    stream: int
    row: int
    found_at: int
    detail: str
    accepted_at: int | None = None
