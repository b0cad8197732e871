"""Blocks, ranges of blocks, and positions inside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from oracle.domain.ids import Hash


class Position(NamedTuple):
    """The position of an event on the chain; positions sort in order of execution.

    See docs/reference/events-and-jsonl.md#position-and-time.
    """

    block: int
    tx: int
    # The event of a call itself has index -1, so that it precedes the logs of the call.
    log: int
    sub: int = 0


# Sorts before every position of the chain, including positions of calls.
BEFORE_EVERYTHING = Position(-1, -1, -1, -1)


class BlockRef(NamedTuple):
    """The number, hash, parent hash and time of a block; `time` is in whole seconds."""

    number: int
    hash: Hash
    parent_hash: Hash
    time: int


@dataclass(frozen=True, slots=True)
class BlockRange:
    """The blocks from `first` to `last`, both included, as in `eth_getLogs`.

    Raises:
        ValueError: `first` is above `last`, because a range cannot be empty.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"block range {self.first}..{self.last}: first is above last")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def take_first(self, size: int) -> Self:
        """Return the first `size` blocks of the range, or the whole range if it has fewer."""
        return type(self)(self.first, min(self.last, self.first + size - 1))

    def iter_chunks(self, size: int) -> Iterator[Self]:
        """Split the range into consecutive ranges of at most `size` blocks."""
        for first in range(self.first, self.last + 1, size):
            yield type(self)(first, min(first + size - 1, self.last))


def format_block_count(count: int) -> str:
    """Format a number of blocks for messages, for example `1 block` or `1,200 blocks`."""
    return f"{count:,} {'block' if count == 1 else 'blocks'}"
