"""Everything folded, as text: the same on both databases, gone when it is cleared."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given

from oracle.store.database import Store
from oracle.store.state.projections import PROJECTIONS
from tests.examples import examples
from tests.store.folding import LAST_BLOCK, Event, fold_into, forget_everything, histories
from tests.store.samples import block, call, log, node


@pytest.fixture
def both(sqlite_url: str, postgresql_url: str) -> Iterator[list[Store]]:
    with ExitStack() as opened:
        yield [opened.enter_context(Store.open(url)) for url in (sqlite_url, postgresql_url)]


@pytest.mark.postgres
@examples(20)
@given(events=histories())
def test_both_databases_say_the_same(both: list[Store], events: list[Event]):
    dumps = []
    for store in both:
        with store.transaction() as unit:
            forget_everything(unit)
            fold_into(unit, events, LAST_BLOCK, final=0)
            dumps.append(list(unit.projections.dump()))
    assert dumps[0] == dumps[1]


def test_one_changed_value_changes_the_digest(store: Store):
    with store.transaction() as unit:
        unit.nodes.save([node(1), node(2)])
        before = unit.projections.digest()
        unit.nodes.save([node(2, since=1001)])
        assert unit.projections.digest() != before
        unit.nodes.save([node(2)])
        assert unit.projections.digest() == before


def test_every_row_is_a_line(store: Store):
    with store.transaction() as unit:
        unit.nodes.save([node(number) for number in range(3)])
        assert [line.partition(" ")[0] for line in unit.projections.dump()] == ["node"] * 3


def test_clearing_leaves_what_was_not_folded(store: Store):
    with store.transaction() as unit:
        unit.nodes.save([node(1)])
        unit.logs.append([log(1)])
        unit.calls.append([call(1)])
        unit.blocks.save([block(1)])
        unit.cursor.move_to(block(1), block(1), 0)
        unit.undo.prune_to(1)
        unit.progress.set("refold", "1")
        unit.projections.clear()
        assert list(unit.projections.dump()) == []
        assert unit.undo.reach() == 0
        assert (unit.logs.count(), unit.calls.count()) == (1, 1)
        assert unit.blocks.newest() == block(1)
        assert unit.progress.get("refold") == "1"
        assert unit.cursor.get() is not None


def test_no_projection_is_ordered_by_text():
    # Two databases may sort text differently, bytes and numbers not.
    kinds = {str(c.type) for table in PROJECTIONS for c in table.primary_key.columns}
    assert kinds <= {"BLOB", "BIGINT", "SMALLINT"}
