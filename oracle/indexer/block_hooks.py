"""Hooks by which features act at blocks, in the transaction that folds or rewinds them.

Hooks are called in the order of their registration. The fold itself depends on no hook.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.fold.working_set import Changes
from oracle.domain.reports.contract_state import ContractState
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Stamp


class HookNote(NamedTuple):
    """A log note about what a hook wrote.

    `number` is, for example, a period.
    """

    name: str
    number: int


class BlockHook:
    """Base class of block hooks, which does nothing.

    A feature overrides the methods that it needs. The hook needs all headers within `header_depth`
    blocks of the head. If `first_block` is not None, it also needs all headers from this block on.
    """

    header_depth: int = 0
    first_block: int | None = None

    def select_stop_blocks(
        self, headers: Sequence[BlockRef], newest_block: int
    ) -> Sequence[BlockRef]:
        """Return the blocks for which `on_block` is called.

        `headers` are the last folded block, followed by the blocks of the window. `newest_block`
        is the height of the newest known header.
        """
        del headers, newest_block
        return ()

    def on_window(
        self, uow: UnitOfWork, headers: Sequence[BlockRef], last_block: BlockRef, newest_block: int
    ) -> None:
        """Act before a window up to `last_block` is folded.

        `headers` is empty in history.
        """

    def on_folded(self, changes: Changes) -> None:
        """Act after changes were folded and stored.

        Do not keep their row objects, because the fold changes these objects later.
        """

    def on_block(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef, final_number: int
    ) -> HookNote | None:
        """Act at the end of a block.

        `uow` and `contract_state` are exactly as of this block. `final_number` is the height of
        the highest final block, or -1. It may be above `block`.
        """
        del uow, contract_state, block, final_number
        return None

    def on_committed(self, store: Store, last_block: BlockRef, newest_block: int) -> None:
        """Act after a window up to `last_block` was committed.

        The transaction has ended. `newest_block` is the height of the newest known header. A
        thread that the hook starts must end before its next `reset` returns.
        """

    def get_stored_stop_blocks(self, uow: UnitOfWork, blocks: BlockRange) -> Sequence[BlockRef]:
        """Return the blocks in a range whose stored results a rebuild must reproduce."""
        del uow, blocks
        return ()

    def find_difference(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef
    ) -> HookNote | None:
        """Compare the stored result of `block` with the new state.

        Return None if both are equal. The method changes nothing.
        """
        del uow, contract_state, block
        return None

    def on_rewind(self, uow: UnitOfWork, ancestor_number: int, stamp: Stamp) -> None:
        """Undo what the hook wrote for blocks above `ancestor_number`."""

    def on_rebuild(self) -> None:
        """Act at the start of a full refold, for which the raw rows may have changed."""

    def reset(self) -> None:
        """Discard all data in memory that may differ from the database."""


@dataclass(slots=True)
class HookStops:
    """The blocks at which the fold stops, and the hooks to call at each."""

    _block_by_number: dict[int, BlockRef] = field(default_factory=dict)
    _hooks_by_number: defaultdict[int, list[BlockHook]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, hook: BlockHook, blocks: Iterable[BlockRef]) -> None:
        """Call `hook` at the end of these blocks, after the hooks that were added earlier."""
        for block in blocks:
            self._block_by_number[block.number] = block
            self._hooks_by_number[block.number].append(hook)

    @property
    def blocks(self) -> list[BlockRef]:
        """All blocks at which the fold stops, in ascending order."""
        return [self._block_by_number[number] for number in sorted(self._block_by_number)]

    def get_hooks_at_block(self, block: BlockRef) -> Sequence[BlockHook]:
        """Return the hooks to call at this block, in order."""
        return self._hooks_by_number[block.number]


def get_max_header_depth(hooks: Iterable[BlockHook]) -> int:
    """Return the largest `header_depth` of these hooks, or 0 without hooks."""
    return max((hook.header_depth for hook in hooks), default=0)


def find_first_block_needing_headers(hooks: Iterable[BlockHook]) -> int | None:
    """Return the first block from which a hook needs all headers, if any."""
    return min((hook.first_block for hook in hooks if hook.first_block is not None), default=None)


def group_note_numbers_by_hook(notes: Iterable[HookNote]) -> Mapping[str, Sequence[int]]:
    """Group the numbers of notes by the name of their hook, for the log."""
    note_numbers: defaultdict[str, list[int]] = defaultdict(list)
    for note in notes:
        note_numbers[note.name].append(note.number)
    return note_numbers
