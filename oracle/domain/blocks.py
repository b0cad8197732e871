"""Blocks, ranges of blocks, and positions inside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from oracle.domain.ids import Hash


class Position(NamedTuple):
    """Where something was said; sorts as executed.

    See docs/reference/events-and-jsonl.md#position-and-time.
    """

    block: int
    tx: int
    # -1 for what a call itself said, which comes before the call's logs.
    log: int
    sub: int = 0


# Sorts before every place of the chain, those of calls included.
BEFORE_EVERYTHING = Position(-1, -1, -1, -1)


class BlockRef(NamedTuple):
    """A block as we refer to it; `time` in whole seconds."""

    number: int
    hash: Hash
    parent_hash: Hash
    time: int


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Blocks `first` to `last`, both included, as `eth_getLogs` counts.

    Raises:
        ValueError: `first` lies above `last`; an empty range cannot be said.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"empty block range {self.first}..{self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def chunks(self, size: int) -> Iterator[Self]:
        """Cut into ranges of at most `size` blocks, in order."""
        for first in range(self.first, self.last + 1, size):
            yield type(self)(first, min(first + size - 1, self.last))
