"""Undoing blocks with the journal leaves no trace of them."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import Changes, KickoutDue, PreImages
from oracle.domain.state import LastEvent, Node
from oracle.errors import FatalError
from oracle.store.database import Store, UnitOfWork
from tests.support.examples import examples
from tests.unit.store import samples
from tests.unit.store.folding import LAST_BLOCK, Event, fold_into, forget_everything, histories
from tests.unit.store.samples import address, block, node, task, task_key

thorough = examples(25)


def dump_of(uow: UnitOfWork, events: list[Event], last: int) -> list[str]:
    """Return the rows of a new fold up to block `last`."""
    forget_everything(uow)
    fold_into(uow, [event for event in events if event.at.block <= last], last, final=last)
    return list(uow.projections.iterate_dump_lines())


@thorough
@given(events=histories(), ancestor=st.integers(0, LAST_BLOCK), final=st.integers(0, LAST_BLOCK))
def test_rollback_to_block_equals_state_at_block(
    store: Store, events: list[Event], ancestor: int, final: int
):
    final = min(final, ancestor)
    with store.transaction() as uow:
        forget_everything(uow)
        fold_into(uow, events, LAST_BLOCK, final=final)
        uow.undo.rollback_to(ancestor)
        after = list(uow.projections.iterate_dump_lines())
        assert after == dump_of(uow, events, ancestor)


@thorough
@given(
    events=histories(),
    ancestor=st.integers(1, LAST_BLOCK - 1),
    branch=histories(first=LAST_BLOCK - 1, last=LAST_BLOCK),
)
def test_folding_another_branch_after_rollback_equals_a_fresh_fold(
    store: Store, events: list[Event], ancestor: int, branch: list[Event]
):
    common = [event for event in events if event.at.block <= ancestor]
    branch_events = [event for event in branch if event.at.block > ancestor]
    with store.transaction() as uow:
        forget_everything(uow)
        fold_into(uow, events, LAST_BLOCK, final=0)
        uow.undo.rollback_to(ancestor)
        uow.cursor.clear()
        uow.cursor.move_to(block(ancestor), None, 0)
        fold_into(uow, branch_events, LAST_BLOCK, final=0)
        after = list(uow.projections.iterate_dump_lines())
        assert after == dump_of(uow, common + branch_events, LAST_BLOCK)


@thorough
@given(
    events=histories(),
    ancestor=st.integers(1, LAST_BLOCK - 2),
    branch=histories(first=LAST_BLOCK - 1, last=LAST_BLOCK),
    again=st.integers(LAST_BLOCK - 2, LAST_BLOCK),
)
def test_second_reorg_is_undone_with_the_journal_of_its_branch(
    store: Store, events: list[Event], ancestor: int, branch: list[Event], again: int
):
    common = [event for event in events if event.at.block <= ancestor]
    with store.transaction() as uow:
        forget_everything(uow)
        fold_into(uow, events, LAST_BLOCK, final=0)
        uow.undo.rollback_to(ancestor)
        fold_into(uow, branch, LAST_BLOCK, final=0)
        uow.undo.rollback_to(again)
        after = list(uow.projections.iterate_dump_lines())
        assert after == dump_of(uow, common + branch, again)


def test_rollback_clears_journal_above_ancestor(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(9), None, 0)
        journal_change(3, before=None, after=1, uow=uow)
        journal_change(5, before=1, after=2, uow=uow)
        uow.undo.rollback_to(3)
        journal_change(4, before=1, after=7, uow=uow)
        journal_change(5, before=7, after=8, uow=uow)
        uow.undo.rollback_to(4)
        assert stake(uow) == 7


@thorough
@given(
    events=histories(),
    steps=st.lists(st.integers(1, LAST_BLOCK), min_size=1, max_size=4, unique=True),
)
def test_stepwise_rollback_equals_single_rollback(
    store: Store, events: list[Event], steps: list[int]
):
    steps.sort(reverse=True)
    with store.transaction() as uow:
        forget_everything(uow)
        fold_into(uow, events, LAST_BLOCK, final=0)
        for step in steps:
            uow.undo.rollback_to(step)
        after = list(uow.projections.iterate_dump_lines())
        assert after == dump_of(uow, events, steps[-1])


@thorough
@given(events=histories(), cut=st.integers(0, LAST_BLOCK))
def test_journal_does_not_change_folded_state(store: Store, events: list[Event], cut: int):
    with store.transaction() as uow:
        forget_everything(uow)
        fold_into(uow, events, LAST_BLOCK, final=cut)
        after = uow.projections.compute_digest()
        dump_of(uow, events, LAST_BLOCK)
        assert after == uow.projections.compute_digest()


def journal_change(
    number: int, *, before: int | None, after: int, uow: UnitOfWork, pre_image_of: int = 1
) -> None:
    """Let block `number` change node 1's stake from `before` (None: no such node) to `after`."""
    image = None if before is None else node(pre_image_of, stake=before)
    images = PreImages(number, {address(1): image}, {}, {}, ())
    changed = node(1, stake=after)
    uow.write_changes(Changes(nodes={address(1): changed}, pre_images=[images]), 1)


def stake(uow: UnitOfWork) -> int | None:
    return uow.nodes.get_many([address(1)])[address(1)].stake


def test_oldest_pre_image_above_the_target_block_is_restored(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(9), None, 0)
        journal_change(3, before=None, after=1, uow=uow)
        journal_change(5, before=1, after=2, uow=uow)
        journal_change(7, before=2, after=3, uow=uow)
        uow.undo.rollback_to(6)
        assert stake(uow) == 2
        uow.undo.rollback_to(3)
        assert stake(uow) == 1
        uow.undo.rollback_to(2)
        assert list(uow.nodes.iterate_all()) == []


def test_first_pre_image_of_row_in_block_is_restored(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(9), None, 0)
        journal_change(5, before=1, after=2, uow=uow)
        journal_change(5, before=2, after=3, uow=uow)
        uow.undo.rollback_to(4)
        assert stake(uow) == 1


@thorough
@given(before=samples.nodes, after=samples.nodes)
def test_every_node_column_is_restored(store: Store, before: Node, after: Node):
    after = replace(after, address=before.address)
    images = PreImages(5, {before.address: before}, {}, {}, ())
    with store.transaction() as uow:
        forget_everything(uow)
        uow.cursor.move_to(block(9), None, 0)
        uow.write_changes(Changes(nodes={before.address: after}, pre_images=[images]), 1)
        uow.undo.rollback_to(4)
        assert list(uow.nodes.iterate_all()) == [before]


def test_rollback_below_oldest_journaled_block_is_rejected(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(9), None, 0)
        for number in range(1, 10):
            journal_change(number, before=number - 1, after=number, uow=uow)
        uow.undo.prune_journal_to(5)
        assert uow.undo.find_lowest_reachable_block() == 5
    with (
        pytest.raises(FatalError, match="qos-oracle resync rewind --to-block 4"),
        store.transaction() as uow,
    ):
        uow.undo.rollback_to(4)
    with store.transaction() as uow:
        assert stake(uow) == 9
        uow.undo.rollback_to(5)
        assert stake(uow) == 5


def test_pruned_journal_never_reaches_back_further(store: Store):
    with store.transaction() as uow:
        assert uow.undo.find_lowest_reachable_block() is None
        uow.cursor.move_to(block(9), None, 0)
        assert uow.undo.find_lowest_reachable_block() == 0
        uow.undo.prune_journal_to(7)
        uow.undo.prune_journal_to(6)
        assert uow.undo.find_lowest_reachable_block() == 7


def test_journal_is_never_pruned_beyond_the_cursor(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(9), None, 0)
        uow.undo.prune_journal_to(100)
        assert uow.undo.find_lowest_reachable_block() == 9


def test_rollback_reopens_kickout_intervals_closed_above_the_ancestor(store: Store):
    before = KickoutDue(address(1), Position(3, 0, 0), Position(8, 0, 0))
    after = KickoutDue(address(2), Position(4, 0, 0), Position(5, 0, 0))
    with store.transaction() as uow:
        uow.cursor.move_to(block(9), None, 0)
        uow.kickouts.save_intervals(
            [before, after, KickoutDue(address(3), Position(7, 0, 0), None)]
        )
        uow.undo.rollback_to(6)
        assert uow.kickouts.list_open() == [replace(before, closed_at=None)]
        assert uow.kickouts.list_for_node(address(2)) == [after]


def test_first_event_is_removed_by_rollback(store: Store):
    last = LastEvent(Position(5, 0, 0), 50, 0)
    images = PreImages(5, {}, {task_key(1): None}, {}, (None,))
    with store.transaction() as uow:
        uow.cursor.move_to(block(9), None, 0)
        uow.write_changes(Changes(tasks={task_key(1): task(1)}, last=last, pre_images=[images]), 1)
        uow.undo.rollback_to(4)
        assert uow.last_event.get() is None
        assert uow.tasks.get_many([task_key(1)]) == {}


def test_long_undo_journal_is_applied_completely(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(99), None, 0)
        tasks = [task(number) for number in range(400)]
        images = PreImages(7, {}, {saved_task.key: None for saved_task in tasks[:300]}, {}, ())
        uow.tasks.save(tasks[300:])
        untouched = list(uow.projections.iterate_dump_lines())
        changed = {saved_task.key: saved_task for saved_task in tasks[:300]}
        uow.write_changes(Changes(tasks=changed, pre_images=[images]), 1)
        uow.undo.rollback_to(6)
        assert list(uow.projections.iterate_dump_lines()) == untouched
