"""What a policy that remembers knows at the end of a block, read from the stored events.

Nothing of it is stored: the same events give the same memory, however a daemon came to them
(docs/explanation/pocket.md#in-the-daemon).
"""

from copy import deepcopy
from dataclasses import dataclass

from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange
from oracle.indexer.stored_events import stored_events
from oracle.store.database import UnitOfWork
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.pocket.pocket_policy import PocketPolicy


@dataclass(slots=True)
class _FollowerState:
    """A follower that has seen every stored event up to the end of block `block`."""

    follower: PocketFollower
    block: int = -1

    def go_on(self, uow: UnitOfWork, reader: LogReader, block: int) -> None:
        if block <= self.block:
            return
        for event in stored_events(uow, reader, BlockRange(self.block + 1, block)):
            self.follower.take(event)
        self.block = block


class PolicyMemory:
    """Goes along with the fold; what final blocks said is kept apart, for reorgs to cost little.

    After a start it reads the stored events once, from the first.
    """

    def __init__(self, policy: PocketPolicy, reader: LogReader) -> None:
        self._policy = policy
        self._reader = reader
        self._newest: _FollowerState | None = None
        self._final: _FollowerState | None = None

    def at(self, uow: UnitOfWork, block: int) -> PocketFollower:
        """Return the memory at the end of `block`, whose logs are stored; nobody may change it."""
        self._settle(uow, block)
        if self._newest is None or self._newest.block > block:
            self._newest = deepcopy(self._final) or self._nothing()
        self._newest.go_on(uow, self._reader, block)
        return self._newest.follower

    def forget_newest(self) -> None:
        """Keep only what final blocks said."""
        self._newest = None

    def forget_above(self, block: int) -> None:
        """Keep nothing of what was said above `block`."""
        self._newest = None
        if self._final is not None and self._final.block > block:
            self._final = None

    def _settle(self, uow: UnitOfWork, block: int) -> None:
        """Bring the memory of final blocks up to the one that the cursor knows."""
        cursor = uow.cursor.get()
        final = None if cursor is None else cursor.final_number
        if final is not None:
            if self._final is None:
                self._final = self._nothing()
            self._final.go_on(uow, self._reader, min(final, block))

    def _nothing(self) -> _FollowerState:
        return _FollowerState(self._policy.follow())
