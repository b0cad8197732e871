"""The downloads that are planned at the end of a block, and how long a plan is valid."""

from collections.abc import Iterator

import pytest

from oracle.dispatch.downloads import (
    PLANNED_DOWNLOAD_SECONDS,
    find_pending_downloads,
    plan_model_downloads,
)
from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Hash
from oracle.store.database import Store, UnitOfWork
from oracle.systems.crynux.crynux_policy import SPREAD, ModelSpread
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, make_task_key
from tests.support.txmgr.dispatch_harness import build_dispatch_settings
from tests.unit.dispatch.test_drawing import FixedView
from tests.unit.systems.crynux.scenes import a_task

MODEL = "base"


class Ledger:
    """A database that follows a history, and plans downloads at the end of each block."""

    def __init__(self, store: Store, spread: ModelSpread = SPREAD) -> None:
        self.store = store
        self.history = History().joins("A", "B", "C", "D", stake=1)
        self.drawer = BlockDrawer(build_dispatch_settings(rules=CRYNUX, spread=spread))
        self._fold = Fold(CRYNUX)
        self._folded = 0

    def end_block(self, *started: str) -> None:
        """Fold the block, and check the tasks whose draws end in it."""
        history, fold = self.history, self._fold
        hashed = Hash(f"0x{history.block:064x}")
        block = BlockRef(history.block, hashed, hashed, history.time)
        fold.fold_events(history.events[self._folded :])
        self._folded = len(history.events)
        with self.store.transaction() as uow:
            uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(CRYNUX))
            before = uow.cursor.get()
            uow.cursor.move_to(block, block, 0 if before is None else before.epoch)
            # A task waits, so the drawer examines the nodes.
            nodes = fold.ledger.nodes.values()
            self.drawer.restore_plan(FixedView(nodes, [a_task("waits")]), block, {})
            plan_model_downloads(
                uow, self.drawer, block, [make_task_key(name) for name in started]
            )
        history.after(12)

    def starts(self, name: str, on: str) -> None:
        self.history.creates(name, models=(MODEL,)).starts(name, on)
        self.end_block(name)

    def list_planned(self) -> list[str]:
        with self.store.read_transaction() as uow:
            return _names(uow)


def _names(uow: UnitOfWork) -> list[str]:
    return [chr(int(download.node, 16)) for download in find_pending_downloads(uow)]


@pytest.fixture
def opened(sqlite_url: str) -> Iterator[Store]:
    with Store.open(sqlite_url) as store:
        yield store


@pytest.fixture
def ledger(opened: Store) -> Ledger:
    return Ledger(opened)


def test_task_start_plans_downloads_for_nodes_without_its_model(ledger: Ledger):
    ledger.end_block()
    assert ledger.list_planned() == []
    ledger.starts("1", "A")
    assert ledger.list_planned() == ["B", "C", "D"]


def test_download_is_planned_only_once(ledger: Ledger):
    ledger.starts("1", "A")
    ledger.starts("2", "B")
    # The node of the first task is the only one left.
    assert ledger.list_planned() == ["B", "C", "D", "A"]


def test_no_download_is_planned_for_unsuitable_node(ledger: Ledger):
    ledger.starts("1", "A")
    ledger.history.adds_model("B", MODEL).is_asked_to_download("C", MODEL).quits("D")
    ledger.end_block()
    assert ledger.list_planned() == []


def test_planned_download_expires_after_30_minutes(ledger: Ledger):
    ledger.starts("1", "A")
    ledger.history.after(PLANNED_DOWNLOAD_SECONDS - 24, blocks=1)
    ledger.end_block()
    assert ledger.list_planned() == ["B", "C", "D"]
    ledger.end_block()
    assert ledger.list_planned() == []


def test_rewind_removes_planned_downloads_of_later_blocks(ledger: Ledger):
    ledger.end_block()
    before = ledger.history.block
    ledger.starts("1", "A")
    with ledger.store.transaction() as uow:
        uow.downloads.delete_above(before - 1)
        assert uow.downloads.list_since(0) == []


def test_no_download_is_planned_with_a_budget_of_zero(opened: Store):
    ledger = Ledger(opened, ModelSpread(per_day=0))
    ledger.starts("1", "A")
    assert ledger.list_planned() == []
