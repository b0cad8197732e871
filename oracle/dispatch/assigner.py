"""Draws nodes for waiting tasks at the end of every block, while the block is being folded.

The draws are committed in the transaction that folds the block. The same hook plans model
downloads when a task starts. Draws are stored in the table `draw` and planned downloads in
`planned_download`, and a rewind undoes both exactly. Armed tasks, which have a candidate but no
draw yet, are not stored, because they can be computed from the state at the cursor (decision
0060).
"""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, field

from typing_extensions import override

from oracle.chain.profiles.event_reader import EventReader
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.downloads import plan_model_downloads
from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.fold.working_set import Changes
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.state import Node, Task
from oracle.errors import FatalError, InputError
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.stored_events import iterate_stored_events
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.pocket.pocket_policy import PocketEvaluator, PocketPolicy


@dataclass(slots=True)
class _EvaluatorState:
    """An evaluator to which every stored event up to the end of `block` was applied."""

    evaluator: PocketEvaluator
    block: int = -1

    def catch_up(self, uow: UnitOfWork, reader: EventReader, block: int) -> None:
        if block <= self.block:
            return
        for event in iterate_stored_events(uow, reader, BlockRange(self.block + 1, block)):
            self.evaluator.apply_event(event)
        self.block = block


class EvaluatorCache:
    """Keeps the evaluator of a stateful policy (Pocket's) up to date with the fold.

    A second evaluator is kept at the final block, so that a reorg is cheap. Nothing is stored,
    because the same events always give the same evaluator. After the daemon starts, the stored
    events are read once from the beginning (docs/explanation/pocket.md#in-the-daemon).
    """

    def __init__(self, policy: PocketPolicy, reader: EventReader) -> None:
        self._policy = policy
        self._reader = reader
        self._newest_state: _EvaluatorState | None = None
        self._final_state: _EvaluatorState | None = None

    def get_pocket_evaluator(self, uow: UnitOfWork, block: int) -> PocketEvaluator:
        """Return the evaluator as of the end of `block`.

        The logs of the block must be stored. Callers must not change the evaluator.
        """
        self._advance_final_evaluator(uow, block)
        if self._newest_state is None or self._newest_state.block > block:
            self._newest_state = deepcopy(self._final_state) or self._create_evaluator_state()
        self._newest_state.catch_up(uow, self._reader, block)
        return self._newest_state.evaluator

    def discard_unfinalized_evaluator(self) -> None:
        """Discard the evaluator that is ahead of the final block."""
        self._newest_state = None

    def discard_evaluators_above(self, block: int) -> None:
        """Discard every evaluator that is ahead of `block`."""
        self._newest_state = None
        if self._final_state is not None and self._final_state.block > block:
            self._final_state = None

    def _advance_final_evaluator(self, uow: UnitOfWork, block: int) -> None:
        cursor = uow.cursor.get()
        final_number = None if cursor is None else cursor.final_number
        if final_number is not None:
            if self._final_state is None:
                self._final_state = self._create_evaluator_state()
            self._final_state.catch_up(uow, self._reader, min(final_number, block))

    def _create_evaluator_state(self) -> _EvaluatorState:
        return _EvaluatorState(self._policy.create_evaluator())


# The first bookmark holds the fingerprint of the settings with which nodes are drawn. The second
# holds the last block whose draws are stored.
_SETTINGS_BOOKMARK = "dispatch_settings"
_THROUGH_BOOKMARK = "dispatch_through"


@dataclass(frozen=True, slots=True)
class StoredNetworkView:
    """The tasks and nodes in the database, in the form that a block drawer reads.

    `evaluator_cache` is set only for a stateful policy (Pocket's). `changed_by_key` has the tasks
    that changed since the last draw.
    """

    uow: UnitOfWork
    evaluator_cache: EvaluatorCache | None = None
    changed_by_key: dict[TaskKey, Task] = field(default_factory=dict)

    def get_waiting_tasks(self) -> Sequence[Task]:
        return self.uow.tasks.list_waiting()

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return self.uow.tasks.list_unscored_in_groups(groups)

    def pop_changed_tasks(self) -> Sequence[Task]:
        tasks = list(self.changed_by_key.values())
        self.changed_by_key.clear()
        return tasks

    def get_nodes_changed_since(self, block: int | None) -> Iterable[Node]:
        if block is None:
            return self.uow.nodes.iterate_all()
        return self.uow.nodes.iterate_changed_since(block)

    def get_pocket_evaluator(self, block: int) -> PocketEvaluator:
        if self.evaluator_cache is None:
            raise FatalError("this view has no evaluator; a stateful policy cannot draw from it")
        return self.evaluator_cache.get_pocket_evaluator(self.uow, block)


class DrawHook(BlockHook):
    """Draws nodes at the end of each folded block, starting at `start_block`."""

    def __init__(self, settings: DispatchSettings | None, reader: EventReader) -> None:
        """Create the hook.

        Without `settings`, it draws nothing, but a rewind undoes old draws. `reader` decodes the
        stored events for a stateful policy.
        """
        self._drawer = None if settings is None else BlockDrawer(settings)
        policy = None if settings is None else settings.pocket_policy
        self._evaluator_cache = None if policy is None else EvaluatorCache(policy, reader)
        # Tasks that changed since the last draw. They are collected only while the drawer tracks
        # waiting tasks.
        self._changed_by_key: dict[TaskKey, Task] = {}
        self.first_block = None if settings is None else settings.start_block

    @override
    def reset(self) -> None:
        """Discard data in memory that a rewind or a rollback has invalidated."""
        self._changed_by_key.clear()
        if self._drawer is not None:
            self._drawer.reset()
        if self._evaluator_cache is not None:
            self._evaluator_cache.discard_unfinalized_evaluator()

    @override
    def on_rebuild(self) -> None:
        """Discard all evaluators, because stored events may have been repaired."""
        if self._evaluator_cache is not None:
            self._evaluator_cache.discard_evaluators_above(-1)

    @override
    def select_stop_blocks(self, headers: Sequence[BlockRef], newest_block: int) -> list[BlockRef]:
        start_block = self.first_block
        if start_block is None:
            return []
        return [block for block in headers if block.number >= start_block]

    @override
    def on_folded(self, changes: Changes) -> None:
        if self._drawer is not None and self._drawer.is_tracking_tasks:
            self._changed_by_key |= changes.tasks

    @override
    def on_block(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef, final_number: int
    ) -> None:
        """Draw nodes at the end of a block.

        If the draws of the block are already stored, the plan is restored instead.
        """
        if self._drawer is None:
            return
        view = StoredNetworkView(uow, self._evaluator_cache, self._changed_by_key)
        drawn_through = uow.bookmarks.get(_THROUGH_BOOKMARK)
        if drawn_through is not None and int(drawn_through) >= block.number:
            if self._drawer.block_number != block.number:
                self._drawer.restore_plan(view, block, load_active_draws(uow))
            return
        if block.number == self.first_block:
            # The active draws were made with the earlier settings, which end at this block.
            _void_draws(uow, [draw.task for draw in uow.draws.list_active()], block.number)
        draw_step = self._drawer.draw_at_block(view, block)
        _void_draws(uow, draw_step.ended_draws, block.number)
        for draw_number, draw in enumerate(draw_step.new_draws):
            uow.draws.add(
                StoredDraw(
                    task=draw.task,
                    seed_block=block.number,
                    seed_hash=block.hash,
                    seed_time=block.time,
                    node=draw.node,
                    voided_block=None,
                    total_weight=draw.node_draw.total,
                    candidate_count=draw.node_draw.candidate_count,
                    number_in_block=draw_number,
                )
            )
        plan_model_downloads(uow, self._drawer, block, draw_step.ended_draws)
        uow.bookmarks.set(_THROUGH_BOOKMARK, str(block.number))

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        """Undo draws, ends of draws and planned downloads above the block `ancestor`."""
        if self._evaluator_cache is not None:
            self._evaluator_cache.discard_evaluators_above(ancestor)
        uow.draws.rollback_to(ancestor)
        uow.downloads.delete_above(ancestor)
        drawn_through = uow.bookmarks.get(_THROUGH_BOOKMARK)
        if drawn_through is not None and int(drawn_through) > ancestor:
            uow.bookmarks.set(_THROUGH_BOOKMARK, str(ancestor))


def bind_or_check_dispatch_settings(uow: UnitOfWork, settings: DispatchSettings) -> None:
    """Store the dispatch settings, or check that the folded blocks were drawn with them.

    The blocks from `start_block` on are checked. If none of them is folded yet, the settings are
    stored for the coming draws.

    Raises:
        InputError: blocks from `start_block` on were folded without draws, or with other settings.
    """
    cursor = uow.cursor.get()
    stored_fingerprint = uow.bookmarks.get(_SETTINGS_BOOKMARK)
    folded_through = -1 if cursor is None else cursor.number
    start_block = settings.start_block
    if stored_fingerprint != settings.fingerprint:
        if folded_through >= start_block:
            mismatch = (
                "without draws"
                if stored_fingerprint is None
                else "with other settings of [dispatch]"
            )
            raise InputError(
                f"dispatch.start_block: block {start_block} is already folded {mismatch}; choose "
                f"a block above {folded_through}, or {_format_rewind_hint(start_block - 1)}"
            )
        uow.bookmarks.set(_SETTINGS_BOOKMARK, settings.fingerprint)
        uow.bookmarks.set(_THROUGH_BOOKMARK, str(start_block - 1))
        return
    drawn_through = int(uow.bookmarks.get(_THROUGH_BOOKMARK) or -1)
    if folded_through >= start_block and drawn_through < folded_through:
        raise InputError(
            f"dispatch: blocks {drawn_through + 1} to {folded_through} were folded without draws; "
            f"choose a dispatch.start_block above {folded_through}, or "
            f"{_format_rewind_hint(drawn_through)}"
        )


def check_draw_settings(uow: UnitOfWork, settings: DispatchSettings) -> None:
    """Check that the stored draws were made with these settings.

    A database without draws passes with any settings.

    Raises:
        InputError: the draws were made with other settings.
    """
    stored_fingerprint = uow.bookmarks.get(_SETTINGS_BOOKMARK)
    if stored_fingerprint is not None and stored_fingerprint != settings.fingerprint:
        raise InputError(
            "[dispatch]: the draws in the database were made with other settings or rules; "
            "restore the previous configuration, or run the daemon with the new one first"
        )


def _format_rewind_hint(block: int) -> str:
    """Return a hint on how to rewind to a block; -1 means an empty index."""
    if block < 0:
        return "start with an empty database"
    return f"run `qos-oracle resync rewind --to-block {block}`"


def load_active_draws(uow: UnitOfWork) -> dict[TaskKey, Address]:
    """Return the drawn node of each task with an active draw at the cursor."""
    return {draw.task: draw.node for draw in uow.draws.list_active()}


def _void_draws(uow: UnitOfWork, tasks: Iterable[TaskKey], block: int) -> None:
    for task in tasks:
        uow.draws.void(task, block)
