"""Rows of a feed: what a second kind of source beside the chain said, as it said it.

A feed is a stream of events over HTTP that nobody can prove (docs/explanation/feed.md).
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from oracle.domain.blocks import Position
from oracle.domain.ids import Hash

# A feed's events stand before every transaction of their block: a stream's number less this.
_STREAMS = 1 << 20
# The largest id of a row that is read: databases hold 2^63 - 1, and windows of ids around a row
# reach beyond it.
LARGEST_ID = 2**63 - 1 - 2**20
# The longest kind, node or task of a row: PostgreSQL indexes at most 2,704 bytes, and these are
# hashes, addresses and words.
MAX_NAME_CHARS = 256
# Rows that one transaction of the source wrote are seen within so many seconds, but for the pages
# of a poll.
SAME_SECONDS = 10


@dataclass(frozen=True)
class FeedRow:
    """One row as it was told; `id` ascends in its stream, the texts are the source's own.

    `stream` counts how often the feed began anew. `seen_from` and `seen_to` are the feed's clock,
    in seconds, at the last poll that showed all there was, this row not among it, and at the one
    that brought it; the same where there was no such poll. `time` None: it may still move;
    `block` None: it has no place in the chain's order yet.
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
        """What two readers compare: the sha256 of what the source said, and of nothing of ours."""
        said = [self.id, self.kind, self.node, self.task, self.args]
        text = json.dumps(said, separators=(",", ":"))
        return Hash("0x" + hashlib.sha256(text.encode()).hexdigest())

    @property
    def at(self) -> Position:
        """Where its first event stands; raises ValueError where it has no place yet."""
        if self.block is None:
            raise ValueError(f"row {self.id} has no place yet")
        return Position(self.block, self.stream - _STREAMS, self.id, 0)


def is_of_feed(at: Position) -> bool:
    """Tell whether what stands at this position was told by a feed: nobody proves it."""
    return at.tx < 0


def row_of(at: Position) -> tuple[int, int]:
    """Return the stream and the id of the row that an event of a feed came from."""
    return at.tx + _STREAMS, at.log


@dataclass(frozen=True, slots=True)
class FeedFault:
    """What is wrong with a feed: `kind` as docs/explanation/feed.md#faults spells it.

    `row` is the id of the row that it is about, or where the reader stood; `found_at` by the
    feed's clock. `accepted_at` None: nobody has accepted it, and nothing is published.
    """

    kind: str
    stream: int
    row: int
    found_at: int
    detail: str
    accepted_at: int | None = None
