"""The environment of a fault case: a chain, its indexers, and how they continue.

A scenario sets the faults and runs actions meanwhile. `World.read` indexes like the daemon, and
retries after temporary failures.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from devnet.fakechain.block_json import Block
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

# Longer than any fault of a scenario.
_TURNS = 200
# A failed request is repeated after this time.
_REST_SECONDS = 20.0
# After this many ticks without an ingested block, the indexer is done or blocked.
_QUIET_TURNS = 4

Open = Callable[..., Indexer]


@dataclass
class World:
    """A chain with a history behind two endpoints; `open` starts to index it with an indexer.

    `resume` continues with an indexer as another process would. `expected`: the block whose chain
    must be stored at the end; None: the newest of all.
    """

    chain: FakeChain
    open: Open
    resume: Callable[[Indexer], Indexer]
    clock: VirtualClock = field(default_factory=VirtualClock)
    expected: Block | None = None
    faults: list[InjectedFault] = field(default_factory=list)

    def spoil(self, *faults: InjectedFault, at: int = 0) -> None:
        """Add faults to one of the endpoints."""
        self.faults += faults
        self.chain.providers[at].faults += faults

    def spoil_all(self, make: Callable[[], InjectedFault]) -> None:
        """Add a separate instance of this fault to every endpoint."""
        for at in range(len(self.chain.providers)):
            self.spoil(make(), at=at)

    def heal(self) -> None:
        """Remove all faults."""
        for provider in self.chain.providers:
            provider.faults.clear()

    def indexer(self, *, first: int | None = None, **settings: object) -> Indexer:
        """Start to index; `first` alone is queried if it is given."""
        urls = self.chain.urls if first is None else self.chain.urls[first : first + 1]
        return self.open(urls, clock=self.clock, **settings)

    def read(self, indexer: Indexer, after_each: Callable[[], object] | None = None) -> Indexer:
        """Index until nothing is left to do, and wait after temporary failures."""
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
