"""A cut computes only leaves that were not computed before it; the loop does not wait for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import UNIT, compute_decay_end
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.roots.leaves import LEAF_BYTES
from oracle.domain.roots.node_leaves import encode_leaves
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.errors import TransientError
from oracle.indexer.provenance import increment_refold_count
from oracle.reporting import leaf_tree
from oracle.reporting.leaf_tree import LeafTree
from oracle.reporting.report_cutter import ReportCutter
from oracle.store.database import Store, UnitOfWork
from oracle.store.identity import Identity
from oracle.store.tables.round_tables import leaf_piece
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.rounds import build_contract_state
from tests.support.scripted import ScriptedReader
from tests.support.txmgr.follower import DOMAIN, SETTINGS
from tests.unit.reporting.test_leaf_storage import build_member


class Gate:
    """A store whose read transactions wait until the gate is open, and then may fail."""

    def __init__(self, store: Store, error: Exception | None = None) -> None:
        self.store, self.error = store, error
        self.is_open = Event()
        self.reads = 0

    def call_before_close(self, stop_reader: Callable[[], None]) -> None:
        self.store.call_before_close(stop_reader)

    @contextmanager
    def read_transaction(self) -> Iterator[UnitOfWork]:
        self.reads += 1
        assert self.is_open.wait(30)
        if self.error is not None:
            raise self.error
        with self.store.read_transaction() as uow:
            yield uow


def block(number: int) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), ZERO_HASH, 1_000 + 60 * number)


def save(store: Store, nodes: list[Node], number: int) -> None:
    """Save nodes that changed in a block, and move the cursor to it."""
    for node in nodes:
        node.changed_at = number
    with store.transaction() as uow:
        uow.nodes.save(nodes)
        cursor = uow.cursor.get()
        uow.cursor.move_to(block(number), None, 0 if cursor is None else cursor.epoch)


def compute_root(tree: LeafTree, store: Store, number: int) -> str:
    with store.read_transaction() as uow:
        refreshed = tree.refresh(uow, block(number), needs_edits=True)
    return refreshed.compute_round_root(1, build_member(0).address, 1, number)


def compute_full_root(store: Store, number: int) -> str:
    """Return the root of the leaves of all nodes, without the stored leaves."""
    with store.read_transaction() as uow:
        refreshed = new_tree().refresh(uow, block(number), needs_edits=False)
    return refreshed.compute_round_root(1, build_member(0).address, 1, number)


def store_cut(store: Store, number: int) -> LeafTree:
    """Store the report as of a block, and its leaves; return the tree, as after a rewind."""
    cutter = ReportCutter(ScriptedReader(), CRYNUX, SETTINGS, DOMAIN, anchor_window=24)
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(
            Identity(DOMAIN.chain_id, ZERO_HASH, {}, DOMAIN.contract, start_block=0)
        )
        assert cutter.on_block(uow, build_contract_state(), block(number), -1) is not None
    cutter.reset()
    return cutter._leaf_tree


def new_tree(rules: Rules = CRYNUX) -> LeafTree:
    return LeafTree(rules, KickoutPolicy(rules))


@pytest.fixture
def evaluated_seats(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the seats whose leaves were computed since it was last cleared."""
    seats: list[int] = []

    def encode(rows, context, keccak):
        seats.extend(row[0] for row in rows)
        return encode_leaves(rows, context, keccak)

    monkeypatch.setattr(leaf_tree, "encode_leaves", encode)
    return seats


def test_report_computes_only_leaves_that_changed_since_the_update(store: Store, evaluated_seats):
    members = [build_member(seat) for seat in range(9)]
    members[4].base = UNIT // 2
    members[4].since = 1_000
    tree = new_tree()
    save(store, members, 1)
    tree.start_update(store)
    tree._finish_update()
    assert sorted(evaluated_seats) == [*range(9)]

    evaluated_seats.clear()
    members[2].paused = True
    save(store, members[2:3], 2)
    tree.start_update(store)
    tree._finish_update()
    assert evaluated_seats == [2]

    evaluated_seats.clear()
    members[7].paused = True
    save(store, members[7:8], 3)
    root = compute_root(tree, store, 3)
    # The reliability of node 4 recovers, so that its leaf depends on the block of the cut.
    assert sorted(evaluated_seats) == [4, 7]
    assert root == compute_root(new_tree(), store, 3)


def test_leaf_of_a_fully_recovered_node_is_up_to_date(store: Store):
    # So slow that the last second of the recovery changes the reliability noticeably.
    slow = replace(CRYNUX, tau_seconds=10**7)
    members = [build_member(seat) for seat in range(3)]
    members[1].base = UNIT // 2
    members[1].since = block(2).time - 2**21
    tree = new_tree(slow)
    save(store, members, 1)
    first_root = compute_root(tree, store, 1)
    save(store, members[2:], 3)
    tree.start_update(store)
    root = compute_root(tree, store, 4)
    assert root == compute_root(new_tree(slow), store, 4)
    assert root != first_root


def test_recovering_node_is_evaluated_until_its_recovery_ends(store: Store, evaluated_seats):
    members = [build_member(seat) for seat in range(2)]
    recovery_seconds = compute_decay_end(CRYNUX.tau_seconds)
    # The reliability is below 1 at block 1, and 1 from block 2 on.
    members[1].base, members[1].since = UNIT // 2, block(2).time - recovery_seconds
    tree = new_tree()
    save(store, members, 1)
    compute_root(tree, store, 1)
    evaluated_seats.clear()
    compute_root(tree, store, 3)
    assert evaluated_seats == [1]
    evaluated_seats.clear()

    root = compute_root(tree, store, 4)

    assert evaluated_seats == []
    assert root == compute_root(new_tree(), store, 4)


def test_only_one_background_update_runs_at_a_time(store: Store):
    members = [build_member(seat) for seat in range(3)]
    save(store, members, 1)
    tree = new_tree()
    gate = Gate(store)
    for _ in range(3):
        tree.start_update(gate)  # type: ignore[arg-type]
    assert gate.reads == 1
    gate.is_open.set()
    assert compute_root(tree, store, 1) == compute_root(new_tree(), store, 1)


def test_report_evaluates_all_nodes_after_a_failed_update(store: Store, evaluated_seats):
    save(store, [build_member(seat) for seat in range(3)], 1)
    tree = new_tree()
    gate = Gate(store, TransientError("no database"))
    gate.is_open.set()
    tree.start_update(gate)  # type: ignore[arg-type]
    root = compute_root(tree, store, 1)
    assert sorted(evaluated_seats) == [0, 1, 2]
    assert root == compute_root(new_tree(), store, 1)


def test_bug_in_background_update_is_raised(store: Store):
    tree = new_tree()
    gate = Gate(store, KeyError("a bug"))
    gate.is_open.set()
    tree.start_update(gate)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="a bug"):
        compute_root(tree, store, 1)


def test_background_update_overtaken_by_rewind_is_discarded(store: Store, monkeypatch):
    members = [build_member(seat) for seat in range(3)]
    save(store, members, 2)
    is_encoding = Event()
    tree = new_tree()

    def encode_late(rows, context, keccak):
        is_encoding.set()
        while not tree._must_stop:
            pass
        return encode_leaves(rows, context, keccak)

    with monkeypatch.context() as patched:
        patched.setattr(leaf_tree, "encode_leaves", encode_late)
        tree.start_update(store)
        assert is_encoding.wait(30)
        tree.reset()
    # The other branch changed the node below the block of the update.
    members[1].paused = True
    save(store, members, 1)
    assert compute_root(tree, store, 3) == compute_root(new_tree(), store, 3)


def test_rewind_computes_only_leaves_changed_since_last_report(store: Store, evaluated_seats):
    members = [build_member(seat) for seat in range(9)]
    members[4].base = UNIT // 2
    members[4].since = 1_000
    save(store, members, 1)
    tree = store_cut(store, 1)
    members[7].paused = True
    save(store, [members[7], build_member(9)], 2)

    evaluated_seats.clear()
    root = compute_root(tree, store, 2)
    # Node 4 recovers, and another leaf names the new node as the next one.
    assert {4, 7, 9} < set(evaluated_seats)
    assert len(set(evaluated_seats)) == 4
    assert root == compute_full_root(store, 2)
    # Unchanged leaves are not kept to be stored again.
    (edit,) = tree._tree.edits.take().values()
    assert not edit.has_all_leaves(10)


def store_wrong_cut(store: Store, number: int, monkeypatch: pytest.MonkeyPatch) -> LeafTree:
    """Store a report and its leaves as a faulty process does: each last byte is wrong."""

    def encode(rows, context, keccak):
        leaves = bytearray(encode_leaves(rows, context, keccak))
        for end in range(LEAF_BYTES - 1, len(leaves), LEAF_BYTES):
            leaves[end] ^= 1
        return bytes(leaves)

    with monkeypatch.context() as patched:
        patched.setattr(leaf_tree, "encode_leaves", encode)
        return store_cut(store, number)


@pytest.mark.parametrize("in_background", [False, True])
def test_wrong_stored_leaves_are_corrected_after_a_restart(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, in_background: bool
):
    members = [build_member(seat) for seat in range(9)]
    members[4].base = UNIT // 2
    members[4].since = 1_000
    save(store, members, 1)
    store_wrong_cut(store, 1, monkeypatch)
    members[7].paused = True
    save(store, members[7:8], 2)
    tree = new_tree()

    with capture_logs() as logs:
        if in_background:
            tree.start_update(store)
        root = compute_root(tree, store, 2)

    assert root == compute_full_root(store, 2)
    # Nodes 4 and 7 have other leaves in any case.
    assert [(log["event"], log["leaves"]) for log in logs] == [("stored_leaves_corrected", 7)]


def test_wrong_stored_leaves_are_corrected_after_a_rewind(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    save(store, [build_member(seat) for seat in range(3)], 1)
    store_wrong_cut(store, 1, monkeypatch)
    tree = store_cut(store, 2)
    with store.transaction() as uow:
        uow.reports.delete_from_block(2)
        uow.leaf_pieces.delete_after_last_report()

    assert compute_root(tree, store, 3) == compute_full_root(store, 3)


def refold(uow: UnitOfWork, member: Node) -> None:
    """Change a node without a new block, as a refold with other logs does."""
    member.paused = True
    uow.nodes.save([member])
    increment_refold_count(uow)


def damage_leaves(uow: UnitOfWork, member: Node) -> None:
    """Change the stored leaves."""
    uow._connection.execute(update(leaf_piece).values(leaves=bytes(3 * LEAF_BYTES)))


def replace_block(uow: UnitOfWork, member: Node) -> None:
    """Change a node and the block of the cut, as a fork below an accepted round does."""
    member.paused = True
    uow.nodes.save([member])
    uow.blocks.save([block(1)._replace(hash=Hash("0x" + 64 * "e"))])


@pytest.mark.parametrize("change", [refold, damage_leaves, replace_block])
def test_stored_leaves_that_do_not_match_the_state_are_ignored(store: Store, change):
    members = [build_member(seat) for seat in range(3)]
    save(store, members, 1)
    tree = store_cut(store, 1)
    with store.transaction() as uow:
        change(uow, members[1])
    assert compute_root(tree, store, 2) == compute_full_root(store, 2)
