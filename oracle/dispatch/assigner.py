"""Draws nodes for waiting tasks at the end of every block, in the transaction that folds it.

The same hook plans model downloads when a task starts. Draws are stored in `draw` and planned
downloads in `planned_download`; a rewind undoes both exactly. The armed tasks are never stored,
because they follow from the state at the cursor (decision 0060).
"""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, field

from typing_extensions import override

from oracle.chain.protocols import LogReader
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.downloads import plan_downloads
from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.fold.working_set import Changes
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.reports.rounds import Rounds
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.errors import FatalError, InputError
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.stored_events import stored_events
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
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
    """Keeps the follower of a policy with a memory up to date with the fold.

    The follower of final blocks is kept apart, so that a reorg is cheap. Nothing is stored: the
    same events give the same memory however often the daemon restarts. After a start the stored
    events are read once, from the first (docs/explanation/pocket.md#in-the-daemon).
    """

    def __init__(self, policy: PocketPolicy, reader: LogReader) -> None:
        self._policy = policy
        self._reader = reader
        self._newest: _FollowerState | None = None
        self._final: _FollowerState | None = None

    def at(self, uow: UnitOfWork, block: int) -> PocketFollower:
        """Return the follower at the end of `block`; callers must not change it.

        The logs of the block are stored.
        """
        self._settle(uow, block)
        if self._newest is None or self._newest.block > block:
            self._newest = deepcopy(self._final) or self._nothing()
        self._newest.go_on(uow, self._reader, block)
        return self._newest.follower

    def forget_newest(self) -> None:
        """Discard everything that came from blocks that are not final."""
        self._newest = None

    def forget_above(self, block: int) -> None:
        """Discard everything that came from blocks above `block`."""
        self._newest = None
        if self._final is not None and self._final.block > block:
            self._final = None

    def _settle(self, uow: UnitOfWork, block: int) -> None:
        """Advance the follower of final blocks to the final block of the cursor."""
        cursor = uow.cursor.get()
        final = None if cursor is None else cursor.final_number
        if final is not None:
            if self._final is None:
                self._final = self._nothing()
            self._final.go_on(uow, self._reader, min(final, block))

    def _nothing(self) -> _FollowerState:
        return _FollowerState(self._policy.follow())


# Bookmarks of the draws: the settings they were made by, and the last block drawn for.
_SETTINGS = "dispatch_settings"
_THROUGH = "dispatch_through"


@dataclass(frozen=True, slots=True)
class StoredNetworkView:
    """The network as stored in the database, for a drawer.

    `follower_cache`: set for a policy with a memory. `changed_by_key`: the tasks that have
    changed.
    """

    uow: UnitOfWork
    memory: PolicyMemory | None = None
    changed: dict[TaskKey, Task] = field(default_factory=dict)

    def waiting(self) -> Sequence[Task]:
        return self.uow.tasks.waiting()

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return self.uow.tasks.of_groups(groups)

    def changed_tasks(self) -> Sequence[Task]:
        told = list(self.changed.values())
        self.changed.clear()
        return told

    def changed_since(self, block: int | None) -> Iterable[Node]:
        return self.uow.nodes.all() if block is None else self.uow.nodes.changed_since(block)

    def remembered(self, block: int) -> PocketFollower:
        if self.memory is None:
            raise FatalError("nobody remembers outcomes: this view is not for drawing")
        return self.memory.at(self.uow, block)


class DrawHook(BlockHook):
    """Draws nodes at the end of each folded block, from `start_block` on."""

    def __init__(self, settings: DispatchSettings | None, reader: LogReader) -> None:
        """Create the hook; without `settings` nothing is drawn, but a rewind still undoes draws.

        `reader` reads the stored events, for a policy with a memory.
        """
        self._drawer = None if settings is None else BlockDrawer(settings)
        policy = None if settings is None else settings.pocket
        self._memory = None if policy is None else PolicyMemory(policy, reader)
        # Tasks that changed since the last draw, recorded once the drawer tracks the waiting
        # tasks.
        self._changed: dict[TaskKey, Task] = {}
        self.first_block = None if settings is None else settings.start_block

    @override
    def reset(self) -> None:
        """Start again from stored data, after a rewind or a rolled-back transaction."""
        self._changed.clear()
        if self._drawer is not None:
            self._drawer.forget()
        if self._memory is not None:
            self._memory.forget_newest()

    @override
    def rebuilding(self) -> None:
        """Discard the whole memory, because stored events may have been repaired."""
        if self._memory is not None:
            self._memory.forget_above(-1)

    @override
    def wanted_stops(self, headers: Sequence[BlockRef], newest: int) -> list[BlockRef]:
        start = self.first_block
        return [] if start is None else [block for block in headers if block.number >= start]

    @override
    def folded(self, changes: Changes) -> None:
        if self._drawer is not None and self._drawer.is_following:
            self._changed |= changes.tasks

    @override
    def at_block(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> None:
        """Draw at the end of a block, or only catch up if the block was drawn for before."""
        if self._drawer is None:
            return
        view = StoredNetworkView(uow, self._memory, self._changed)
        known = uow.bookmarks.get(_THROUGH)
        if known is not None and int(known) >= block.number:
            if self._drawer.at != block.number:
                self._drawer.resume(view, block, active_draws_in(uow))
            return
        if block.number == self.first_block:
            # These draws were made by earlier settings, which end at this block.
            _void(uow, [one.task for one in uow.draws.active()], block.number)
        turn = self._drawer.turn(view, block)
        _void(uow, turn.over, block.number)
        for one in turn.drawn:
            uow.draws.add(one.task, block, one.node)
        plan_downloads(uow, self._drawer, block, turn.over)
        uow.bookmarks.set(_THROUGH, str(block.number))

    @override
    def rewound(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        """Undo the draws, the ends of draws and the planned downloads above the ancestor."""
        if self._memory is not None:
            self._memory.forget_above(ancestor)
        uow.draws.take_back_above(ancestor)
        uow.downloads.take_back_above(ancestor)
        known = uow.bookmarks.get(_THROUGH)
        if known is not None and int(known) > ancestor:
            uow.bookmarks.set(_THROUGH, str(ancestor))


def check_dispatch(uow: UnitOfWork, settings: DispatchSettings) -> None:
    """Check that no block from `start_block` on lacks draws or was drawn for by other settings.

    Raises:
        InputError: blocks from `start_block` on were folded without draws, or by other settings.
    """
    cursor, known = uow.cursor.get(), uow.bookmarks.get(_SETTINGS)
    at, start = -1 if cursor is None else cursor.number, settings.start_block
    if known != settings.sign:
        if at >= start:
            what = "without draws" if known is None else "with other settings of [dispatch]"
            raise InputError(
                f"dispatch.start_block: block {start} is folded already, {what}: name one above "
                f"{at}, or {_back_to(start - 1)}"
            )
        uow.bookmarks.set(_SETTINGS, settings.sign)
        uow.bookmarks.set(_THROUGH, str(start - 1))
        return
    through = int(uow.bookmarks.get(_THROUGH) or -1)
    if at >= start and through < at:
        raise InputError(
            f"dispatch: blocks {through + 1} to {at} were folded without draws: name a "
            f"dispatch.start_block above {at}, or {_back_to(through)}"
        )


def refuse_other_settings(uow: UnitOfWork, settings: DispatchSettings) -> None:
    """Check that the draws in the database were made by these settings.

    A database without draws passes with any settings.

    Raises:
        InputError: the draws were made by other settings.
    """
    known = uow.bookmarks.get(_SETTINGS)
    if known is not None and known != settings.sign:
        raise InputError(
            "[dispatch]: the database draws by other settings or rules than the configuration's: "
            "put the configuration back, or let the daemon begin with the new one"
        )


def _back_to(block: int) -> str:
    """Return the command after which no block above `block` is folded; blocks start at 0."""
    if block < 0:
        return "start with an empty database"
    return f"run `qos-oracle resync rewind --to-block {block}`"


def active_draws_in(uow: UnitOfWork) -> dict[TaskKey, Address]:
    """Return the node drawn for each task whose draw is active at the cursor."""
    return {one.task: one.node for one in uow.draws.active()}


def _void(uow: UnitOfWork, tasks: Iterable[TaskKey], block: int) -> None:
    for task in tasks:
        uow.draws.void(task, block)
