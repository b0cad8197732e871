"""The world that a fault case is played in: a chain, what indexes it, and how one goes on.

A play says which faults there are and what happens meanwhile; `World.read` indexes as the daemon
does, whatever fails for now.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from devnet.fakechain.block_json import Block
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.indexer import Indexer

# More than any fault of a play lasts.
_TURNS = 200
# What is not asked at once is asked some time later.
_REST_SECONDS = 20.0
# So many turns without a block taken in, and nothing left to do: it is done, or it is held.
_QUIET_TURNS = 4

Open = Callable[..., Indexer]


@dataclass
class World:
    """A chain with a history behind two endpoints; `open` begins to index it, by whoever.

    `resume` goes on with an indexer as another process would.
    `expected`: the block whose chain must be stored in the end; None: the newest of all.
    """

    chain: AChain
    open: Open
    resume: Callable[[Indexer], Indexer]
    clock: VirtualClock = field(default_factory=VirtualClock)
    expected: Block | None = None
    faults: list[InjectedFault] = field(default_factory=list)

    def spoil(self, *faults: InjectedFault, at: int = 0) -> None:
        """Let one of the endpoints have these faults."""
        self.faults += faults
        self.chain.providers[at].faults += faults

    def spoil_all(self, make: Callable[[], InjectedFault]) -> None:
        """Let every endpoint have this fault, each its own."""
        for at in range(len(self.chain.providers)):
            self.spoil(make(), at=at)

    def heal(self) -> None:
        """Let every endpoint be well."""
        for provider in self.chain.providers:
            provider.faults.clear()

    def indexer(self, *, first: int | None = None, **settings: object) -> Indexer:
        """Begin to index; `first` alone is asked where one is named."""
        urls = self.chain.urls if first is None else self.chain.urls[first : first + 1]
        return self.open(urls, clock=self.clock, **settings)

    def read(self, indexer: Indexer, after_each: Callable[[], object] | None = None) -> Indexer:
        """Index until nothing is left to be done, and wait where something fails for now."""
        quiet, failed = 0, None
        for _ in range(_TURNS):
            try:
                done = indexer.step()
            except TransientError as error:
                done, failed = None, error
                quiet -= 1
                self.clock.advance(_REST_SECONDS)
            if done is not None:
                quiet = 0
                if after_each is not None:
                    after_each()
                continue
            quiet += 1
            self.clock.advance(_REST_SECONDS)
            if quiet >= _QUIET_TURNS:
                return indexer
        raise AssertionError(f"still not at the head: {failed}")
