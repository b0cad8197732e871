"""What else happens at a block: features hang on to the fold, which knows none of them by name.

Hooks are called in the order of registration, inside the transaction that folds or rewinds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.fold.working_set import Changes
from oracle.domain.reports.rounds import Rounds
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp


class HookNote(NamedTuple):
    """What a hook wrote: `name` for the log, and the number that it is known by."""

    name: str
    number: int


class BlockHook:
    """Wants nothing; a feature overrides what it wants.

    `header_depth`: within so many blocks of the newest one all headers are wanted. `first_block`:
    from there on they are wanted everywhere, None: nowhere.
    """

    header_depth: int = 0
    first_block: int | None = None

    def wanted_stops(self, headers: Sequence[BlockRef], newest: int) -> Sequence[BlockRef]:
        """Return the blocks at whose end to be called.

        `headers` follow each other: the window's, and before them the last block that was folded.
        `newest` is the height of the newest known header.
        """
        del headers, newest
        return ()

    def passed_over(
        self, uow: UnitOfWork, headers: Sequence[BlockRef], last: BlockRef, newest: int
    ) -> None:
        """Be told of a window up to `last` before it is folded; history comes without headers."""

    def folded(self, changes: Changes) -> None:
        """Be told what was folded and written; the rows in it are the fold's own, and go on."""

    def at_block(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> HookNote | None:
        """Act where `uow` and `rounds` stand exactly as of `block`."""
        del uow, rounds, block
        return None

    def kept_stops(self, uow: UnitOfWork, blocks: BlockRange) -> Sequence[BlockRef]:
        """Return the blocks of this range at which a rebuild must give what is kept."""
        del uow, blocks
        return ()

    def differing_at(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> HookNote | None:
        """Compare what is kept of `block` with the state anew, changing neither; None: equal."""
        del uow, rounds, block
        return None

    def rewound(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        """Take back what was written above block `ancestor`."""

    def rebuilding(self) -> None:
        """Know that all stored rows are folded anew: they may be others than before."""

    def reset(self) -> None:
        """Remember nothing: memory may not be what the database says."""


@dataclass(slots=True)
class HookStops:
    """Who is called at which block."""

    _blocks: dict[int, BlockRef] = field(default_factory=dict)
    _hooks: defaultdict[int, list[BlockHook]] = field(default_factory=lambda: defaultdict(list))

    def add(self, hook: BlockHook, blocks: Iterable[BlockRef]) -> None:
        """Call `hook` at the end of these blocks, after those that were added before."""
        for block in blocks:
            self._blocks[block.number] = block
            self._hooks[block.number].append(hook)

    @property
    def blocks(self) -> list[BlockRef]:
        """Every block to stop at, ascending."""
        return [self._blocks[number] for number in sorted(self._blocks)]

    def at(self, block: BlockRef) -> Sequence[BlockHook]:
        """Return who is to be called at this block, in order."""
        return self._hooks[block.number]


def header_depth(hooks: Iterable[BlockHook]) -> int:
    """Return how many blocks under the newest one somebody wants headers of."""
    return max((hook.header_depth for hook in hooks), default=0)


def first_block(hooks: Iterable[BlockHook]) -> int | None:
    """Return the block from which on somebody wants every header."""
    return min((h.first_block for h in hooks if h.first_block is not None), default=None)


def numbers_by_name(notes: Iterable[HookNote]) -> Mapping[str, Sequence[int]]:
    """Sort notes for the log."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for note in notes:
        found[note.name].append(note.number)
    return found
