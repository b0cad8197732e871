"""Nodes in order: as the command line lists them, each once however they are leafed through."""

import pytest

from oracle.queries.api.node_list import NodeListQuery, nodes
from oracle.queries.api.source import QuestionError, looking
from oracle.queries.node_rows import node_rows
from tests.support.api import IndexedHistory
from tests.support.histories import History, node

TEN = [f"n{number}" for number in range(10)]


def a_network() -> History:
    """Ten nodes with scores of all kinds, and some that ran beside them."""
    history = History().joins(*TEN)
    for place, name in enumerate(TEN):
        history.scores(name, *[(10, 5, 2, 0)[(place + turn) % 4] for turn in range(place % 5)])
    return history.after(7)


@pytest.fixture
def indexed(store):
    return IndexedHistory(store)


def listed(indexed, **asked):
    with looking(indexed.source) as look:
        return nodes(look, NodeListQuery(**asked))


def all_pages(indexed, **asked):
    seen, cursor = [], None
    while True:
        page = listed(indexed, cursor=cursor, **asked)
        seen += [row.node for row in page.nodes]
        if page.next is None:
            return seen
        cursor = page.next


def test_the_order_is_that_of_the_command_line(indexed):
    indexed.whole(a_network())
    wanted = [row.node.address for row in node_rows(indexed.store, indexed.rules)]
    assert [row.node for row in listed(indexed).nodes] == wanted


@pytest.mark.parametrize("sort", ["qos", "-qos", "long_term", "-reliability", "scored", "address"])
@pytest.mark.parametrize("limit", [1, 3, 200])
def test_pages_of_one_block_show_each_node_once(indexed, sort, limit):
    indexed.whole(a_network())
    seen = all_pages(indexed, sort=sort, limit=limit)
    everybody = {row.node.address for row in node_rows(indexed.store, indexed.rules)}
    assert (len(seen), set(seen)) == (len(everybody), everybody)


def test_what_is_held_in_memory_follows_the_blocks(indexed):
    history = History().joins(*TEN)
    indexed.whole(history)
    assert listed(indexed).total == len(TEN)
    done = len(history.events)
    history.after(5).scores("n3", 10, 0).joins("late")
    indexed.index(history.events[done:], history.block, history.time)
    held = listed(indexed)
    anew = IndexedHistory(indexed.store).source
    with looking(anew) as look:
        assert [row.node for row in nodes(look, NodeListQuery()).nodes] == [
            row.node for row in held.nodes
        ]


def test_after_a_rewind_nothing_of_the_blocks_that_went_is_held(indexed):
    indexed.whole(a_network())
    before = listed(indexed)
    with indexed.store.transaction() as uow:
        uow.projections.clear()
        cursor = uow.cursor.get()
        block = uow.blocks.at(cursor.number)
        uow.cursor.move_to(block, None, cursor.epoch)
    assert (before.total > 0, listed(indexed).total) == (True, 0)


def test_a_page_of_an_earlier_block_goes_on_and_says_so(indexed):
    history = a_network()
    indexed.whole(history)
    first = listed(indexed, limit=3)
    history.after(600)
    indexed.index([], history.block, history.time)
    second = listed(indexed, limit=200, cursor=first.next)
    assert (first.moved, second.moved) == (False, True)
    assert second.nodes


@pytest.mark.parametrize("cursor", ["", "x", "WzFd", "bnVsbA", "WyIiLCJxb3MiLDAsMCwiIl0", "_-_-"])
def test_a_cursor_of_somebody_elses_making_is_refused(indexed, cursor):
    indexed.whole(a_network())
    with pytest.raises(QuestionError, match="cursor"):
        listed(indexed, cursor=cursor)


def test_a_cursor_of_another_order_is_refused(indexed):
    indexed.whole(a_network())
    cursor = listed(indexed, limit=1).next
    with pytest.raises(QuestionError, match="another sort"):
        listed(indexed, sort="scored", cursor=cursor)


def test_filters_leave_the_places_as_they_are(indexed):
    indexed.whole(a_network())
    everybody = {row.node: row.place for row in listed(indexed).nodes}
    found = listed(indexed, of=frozenset({node("n3"), node("n7")})).nodes
    assert {row.node: row.place for row in found} == {
        node(name): everybody[node(name)] for name in ("n3", "n7")
    }
    assert listed(indexed, prefix="0xff").nodes == []
