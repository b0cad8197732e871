"""Rows of a feed: events from a second source besides the chain, unchanged.

A feed is a stream of events over HTTP that cannot be proven (docs/explanation/feed.md).
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from oracle.domain.blocks import Position
from oracle.domain.ids import Hash

# A feed's events precede every transaction of their block: the transaction index is the stream
# number less this offset.
_STREAM_OFFSET = 1 << 20
# The largest id of an accepted row: databases hold 2^63 - 1, and windows of ids around a row reach
# beyond it.
MAX_ROW_ID = 2**63 - 1 - 2**20
# The longest kind, node or task of a row: PostgreSQL indexes at most 2,704 bytes, and these are
# hashes, addresses and names.
MAX_NAME_CHARS = 256
# Rows that one transaction of the source wrote are seen within this many seconds, apart from the
# pages of a poll.
SAME_TRANSACTION_SECONDS = 10


@dataclass(frozen=True)
class FeedRow:
    """One row as received; `id` ascends in its stream, the texts are the source's own.

    `stream` counts the restarts of the feed. `seen_from` and `seen_to` are the feed's clock, in
    seconds, at the last complete poll without this row, and at the poll that returned it; both are
    equal if there was no earlier poll. `time` None: it may still change; `block` None: the row has
    no position in the chain's order yet.
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
        """The sha256 of the source's own values, by which two readers compare rows."""
        values = [self.id, self.kind, self.node, self.task, self.args]
        text = json.dumps(values, separators=(",", ":"))
        return Hash("0x" + hashlib.sha256(text.encode()).hexdigest())

    @property
    def position(self) -> Position:
        """The position of the row's first event; raises ValueError if it has no position yet."""
        if self.block is None:
            raise ValueError(f"row {self.id} has no place yet")
        return Position(self.block, self.stream - _STREAM_OFFSET, self.id, 0)


def is_feed_position(position: Position) -> bool:
    """Return whether the event at this position came from a feed, so that it cannot be proven."""
    return position.tx < 0


def get_feed_row_key(position: Position) -> tuple[int, int]:
    """Return the stream and the id of the row that an event of a feed came from."""
    return position.tx + _STREAM_OFFSET, position.log


@dataclass(frozen=True, slots=True)
class FeedFault:
    """A fault of a feed; `kind` is one of docs/explanation/feed.md#faults.

    `row` is the id of the faulty row, or the position of the reader; `found_at` by the feed's
    clock. `accepted_at` None: the fault is open, and nothing is published.
    """

    kind: str
    stream: int
    row: int
    found_at: int
    detail: str
    accepted_at: int | None = None
