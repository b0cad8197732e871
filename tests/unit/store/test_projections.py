"""All folded rows as text: the same on both databases, and empty after a reset."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given

from oracle.store.database import Store
from oracle.store.state.projections import PROJECTIONS
from tests.support.examples import examples
from tests.unit.store.folding import LAST_BLOCK, Event, fold_into, forget_everything, histories
from tests.unit.store.samples import block, call, log, node


@pytest.fixture
def both(sqlite_url: str, postgresql_url: str) -> Iterator[list[Store]]:
    with ExitStack() as opened:
        yield [opened.enter_context(Store.open(url)) for url in (sqlite_url, postgresql_url)]


@pytest.mark.postgres
@examples(20)
@given(events=histories())
def test_both_databases_produce_same_projections(both: list[Store], events: list[Event]):
    dumps = []
    for store in both:
        with store.transaction() as uow:
            forget_everything(uow)
            fold_into(uow, events, LAST_BLOCK, final=0)
            dumps.append(list(uow.projections.iterate_dump_lines()))
    assert dumps[0] == dumps[1]


def test_changed_value_changes_projection_digest(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(1), node(2)])
        before = uow.projections.compute_digest()
        uow.nodes.save([node(2, since=1001)])
        assert uow.projections.compute_digest() != before
        uow.nodes.save([node(2)])
        assert uow.projections.compute_digest() == before


def test_every_row_is_dumped_as_one_line(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(number) for number in range(3)])
        assert [line.partition(" ")[0] for line in uow.projections.iterate_dump_lines()] == [
            "node"
        ] * 3


def test_clearing_projections_keeps_raw_rows_and_bookmarks(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(1)])
        uow.logs.append([log(1)])
        uow.calls.append([call(1)])
        uow.blocks.save([block(1)])
        uow.cursor.move_to(block(1), block(1), 0)
        uow.undo.prune_journal_to(1)
        uow.bookmarks.set("rebuild", "1")
        uow.projections.clear()
        assert list(uow.projections.iterate_dump_lines()) == []
        assert uow.undo.find_lowest_reachable_block() == 0
        assert (uow.logs.count(), uow.calls.count()) == (1, 1)
        assert uow.blocks.find_newest() == block(1)
        assert uow.bookmarks.get("rebuild") == "1"
        assert uow.cursor.get() is not None


def test_projection_keys_are_numbers_or_bytes():
    # Two databases may sort text differently, but not bytes and numbers.
    kinds = {str(c.type) for table in PROJECTIONS for c in table.primary_key.columns}
    assert kinds <= {"BLOB", "BIGINT", "SMALLINT"}
