"""What services need of the chain, in their own words; `app` and mypy check that rooms fit.

Only what has two implementations has a port: the real chain and the scripted one of the tests.
The publishing side's port stands in `publisher`'s own words, next to the services that use it.
"""

from collections.abc import Sequence
from typing import Protocol

from oracle.chain.heads import Heads
from oracle.chain.reader import Decoded
from oracle.chain.source import Window
from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.logs import Call, Log


class Chain(Protocol):
    """Reads the chain; every method may raise TransientError (try again at the next tick)."""

    def heads(self) -> Heads:
        """Return newest, safe and final block; `final` never goes down."""
        ...

    def header(self, number: int) -> BlockRef | None:
        """Return the block of this height; None: this endpoint has not (yet) got it."""
        ...

    def headers(self, blocks: BlockRange) -> list[BlockRef]:
        """Return every block of the range, asked anew, linked by parent hash.

        Raises:
            TransientError: one is missing, or they do not link.
        """
        ...

    def window(self, blocks: BlockRange, *, with_headers: bool) -> Window:
        """Return what happened from `blocks.first` on, up to `blocks.last` or less.

        The chain sizes the range by what its endpoints like, and may read ahead; whoever asks
        for `blocks.first = window.range.last + 1` next is served in order. With headers, every
        block of the window is in `headers`, whether or not it has logs.
        """
        ...


class Reader(Protocol):
    """Turns stored rows into events; never asks the chain."""

    def read(self, logs: Sequence[Log], calls: Sequence[Call]) -> Decoded:
        """Return what the logs and calls say, in order of position.

        Raises:
            FatalError: a log of an event that we know cannot be read; the log is named.
        """
        ...
