"""Stored draws: one per task at a time; a rewind removes everything above its block."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from sqlalchemy.exc import IntegrityError

from oracle.store.database import Store, UnitOfWork
from oracle.store.state.draw_repository import StoredDraw
from tests.support.draws import create_draw
from tests.support.examples import examples
from tests.unit.store.samples import address, block, make_hash, task_key

LAST = 12
TASKS = range(1, 4)
# Each task is drawn, or its draw ends, at ascending blocks.
turns = st.fixed_dictionaries(
    {number: st.lists(st.integers(1, LAST), unique=True).map(sorted) for number in TASKS}
)


def stored_draw(task: int, seed: int, node: int) -> StoredDraw:
    new_draw = create_draw(task_key(task), block(seed), address(node))
    return replace(new_draw, total_weight=2**80 + node, candidate_count=node)


def draw(uow: UnitOfWork, task: int, seed: int, node: int) -> None:
    uow.draws.add(stored_draw(task, seed, node))


def play_draws(uow: UnitOfWork, turns_of: dict[int, list[int]], last: int) -> None:
    """Draw each task at its first block, end the draw at its second, and so on."""
    for task, blocks in turns_of.items():
        for turn, number in enumerate(at for at in blocks if at <= last):
            if turn % 2:
                uow.draws.void(task_key(task), number)
            else:
                draw(uow, task, number, task + number)


def everything(uow: UnitOfWork) -> list[list[StoredDraw]]:
    return [uow.draws.list_for_task(task_key(task)) for task in TASKS] + [uow.draws.list_active()]


@examples(25)
@given(turns_of=turns, ancestor=st.integers(0, LAST))
def test_rewound_draws_equal_draws_up_to_block(store: Store, turns_of, ancestor: int):
    with store.transaction() as uow:
        uow.draws.rollback_to(-1)
        play_draws(uow, turns_of, LAST)
        uow.draws.rollback_to(ancestor)
        left = everything(uow)
        uow.draws.rollback_to(-1)
        assert everything(uow) == [[], [], [], []]
        play_draws(uow, turns_of, ancestor)
        assert left == everything(uow)


def test_draw_is_active_until_voided(store: Store):
    with store.transaction() as uow:
        draw(uow, task=1, seed=5, node=7)
        draw(uow, task=2, seed=4, node=8)
        first = stored_draw(1, 5, 7)
        second_draw = stored_draw(2, 4, 8)
        assert uow.draws.list_active() == [second_draw, first]

        uow.draws.void(task_key(1), 9)
        draw(uow, task=1, seed=10, node=9)

        over, again = uow.draws.list_for_task(task_key(1))
        assert (over.node, over.voided_block) == (address(7), 9)
        assert uow.draws.list_active() == [second_draw, again]


def test_second_active_draw_of_task_is_rejected(store: Store):
    with store.transaction() as uow:
        draw(uow, task=1, seed=5, node=7)
    with pytest.raises(IntegrityError), store.transaction() as uow:
        draw(uow, task=1, seed=6, node=8)


def test_voiding_an_inactive_draw_raises_value_error(store: Store):
    with store.transaction() as uow:
        draw(uow, task=1, seed=5, node=7)
        uow.draws.void(task_key(1), 6)
        with pytest.raises(ValueError, match=f"task {make_hash(1)} has no active draw"):
            uow.draws.void(task_key(1), 7)


def test_clearing_projections_keeps_draws(store: Store):
    with store.transaction() as uow:
        draw(uow, task=1, seed=5, node=7)
        uow.projections.clear()
        assert len(uow.draws.list_active()) == 1


def test_ended_draws_are_listed_newest_first(store: Store):
    with store.transaction() as uow:
        for task, over in ((1, 6), (2, 9), (3, 7)):
            draw(uow, task, 5, 1)
            uow.draws.void(task_key(task), over)
        draw(uow, 4, 8, 1)
        assert [stored_draw.voided_block for stored_draw in uow.draws.list_voided(2)] == [9, 7]
        assert len(uow.draws.list_voided(9)) == 3


def test_draws_of_node_are_listed_newest_first(store: Store):
    with store.transaction() as uow:
        for task, seed, drawn in ((1, 5, 7), (2, 6, 8), (3, 9, 7), (4, 7, 7)):
            draw(uow, task, seed, drawn)
        assert [
            stored_draw.seed_block for stored_draw in uow.draws.list_for_node(address(7), 2)
        ] == [9, 7]
        assert uow.draws.list_for_node(address(9), 2) == []
