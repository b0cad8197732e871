"""What services need of the chain, in their own words; `app` and mypy check that rooms fit.

Only what has two implementations has a port: the real chain and the scripted one of the tests.
The publishing side's port stands in `publisher`'s own words, next to the services that use it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from oracle.chain.feed.relay_reader import RelayReader
from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import Decoded
from oracle.chain.witnesses import Witness
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import IngestScope, Level
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, Log


class ChainReader(Protocol):
    """Reads the chain; every method may raise TransientError (try again at the next tick)."""

    def heads(self) -> Heads:
        """Return newest, safe and final block; `final` never goes down."""
        ...

    def header(self, number: int) -> BlockRef | None:
        """Return the block of this height; None: this endpoint has not (yet) got it."""
        ...

    def header_up_to(self, height: int) -> BlockRef:
        """Return the block of this height, or the last one before it where the chain skipped it.

        Raises TransientError: the endpoint lacks it.
        """
        ...

    def headers(self, blocks: BlockRange) -> list[BlockRef]:
        """Return every block of the range, asked anew, linked by parent hash.

        Heights that the chain skipped are left out, by the proof of the parent hashes.

        Raises:
            TransientError: one is missing, or they do not link.
        """
        ...

    def window(
        self, blocks: BlockRange, *, with_headers: bool, most: int | None = None
    ) -> BlockWindow:
        """Return what happened from `blocks.first` on, up to `blocks.last` or less.

        Above it only where the chain skipped every height up to there: then up to the next block.

        The chain sizes the range by what its endpoints like, but for `most`, about the most
        blocks that are wanted now; and without headers, for final blocks, it may prepare the
        next ones: whoever asks for `blocks.first = window.range.last + 1` next is served in
        order. With headers, every block of the window is in `headers`, whether or not it has
        logs.
        """
        ...

    def witness(
        self, number: int, than: str | None = None, *, spares_slow: bool = False
    ) -> Sequence[Witness]:
        """Ask every endpoint but `than` which block is at this height; who is silent is left out.

        One whose head is below the height is no witness of it. `spares_slow`: endpoints that were
        slow of late are left out, as for a comparison that is made again and again.
        """
        ...

    def second(self, number: int, than: str) -> tuple[str, BlockRef] | None:
        """Return an endpoint of another provider than `than`, and the block that it shows there.

        None: no other provider answers now.
        """
        ...

    def is_linked(self, endpoint: str, blocks: BlockRange) -> bool:
        """Tell whether the endpoint's headers from before to after the range hash and link."""
        ...

    def deprioritise(self, endpoint: str, why: str, newest: int) -> None:
        """Let the others work for a while: they outvoted it about a block that may change.

        `newest` is the highest block of those who did: nobody lags who has come so far.
        """
        ...

    def blame(self, endpoint: str, why: str) -> None:
        """Let the others work for a while: it left out, invented or changed logs."""
        ...

    def quarantine(self, endpoint: str, why: str, final: tuple[int, Hash]) -> None:
        """Do not use it until it shows our final block of this height and hash."""
        ...

    def convict(self, endpoint: str, why: str) -> None:
        """Do not ask it anything until an operator readmits it: it was proven wrong."""
        ...

    def proven_wrong(self) -> Mapping[str, str]:
        """Return who was proven wrong and not readmitted since, by name, and of what."""
        ...

    def is_vouched(self) -> bool:
        """Tell whether a block's hash vouches for what its receipts prove, as this chain is."""
        ...

    def endpoint_names(self) -> tuple[str, ...]:
        """Return how the endpoints are named here, the preferred one first."""
        ...

    def providers(self) -> Mapping[str, str]:
        """Return the provider of each endpoint, by the endpoint's name: one is one witness."""
        ...

    def verified(
        self,
        blocks: BlockRange,
        level: Level,
        endpoint: str | None = None,
        *,
        than: str | None = None,
        most: int | None = None,
    ) -> BlockWindow:
        """Return what one endpoint says of `blocks.first` on, up to `blocks.last` or less, anew.

        Checked up to `level`, or as far as the chain allows: `window.level` tells. Asked is the
        endpoint of the name `endpoint`, or without one any other than `than`. Who names `most`,
        the most blocks that are wanted at once, goes on with the block after the window:
        workers may prepare what follows.

        Raises:
            InputError: there is no endpoint of that name.
            TransientError: it does not answer now, or there is no other.
        """
        ...

    def level_allowed(self) -> Level:
        """Return the highest level that settings and calibration allow now; asks nobody."""
        ...

    def calibrate(self) -> None:
        """Find out what the chain's headers are worth, where that is not known."""
        ...

    def level_of_history(self) -> Level:
        """Return the level that every block of history reaches now; asks nobody.

        Below BLOOMED the chain's headers are not, or not yet, known to prove anything.
        """
        ...

    def narrowed(self, scope: IngestScope) -> "ChainReader":
        """Return the same chain, asked for no more than this scope."""
        ...

    def counted(self, block_hash: Hash) -> Mapping[str, int]:
        """Return what the contracts count at the end of this block, by name; empty: nothing."""
        ...


class LogReader(Protocol):
    """Turns stored rows into events; never asks the chain."""

    @property
    def addresses(self) -> Sequence[Address]:
        """The contracts whose logs it reads."""
        ...

    @property
    def topics(self) -> Sequence[str]:
        """The first topics of the logs that it reads."""
        ...

    @property
    def selectors(self) -> Mapping[Address, frozenset[str]]:
        """The calls that it reads: the first four bytes of their input, by contract."""
        ...

    @property
    def identity(self) -> str:
        """What changes with whatever changes what is read."""
        ...

    @property
    def feed(self) -> RelayReader | None:
        """What reads the rows of a feed beside the chain; None: there is no feed."""
        ...

    def read(self, logs: Sequence[Log], calls: Sequence[Call]) -> Decoded:
        """Return what the logs and calls say, in order of position.

        What it knows and cannot read is in `dead`, and says nothing.
        """
        ...
