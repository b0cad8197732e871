"""The stored pieces of every kept report have the leaves that the stored logs give."""

from hashlib import sha256

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import select

from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.roots.leaves import LEAF_BYTES, LeafFlag, NodeLeaf
from oracle.domain.roots.pieces import PIECE_LEAVES, PiecedRound, compute_piece_digest
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.state import Membership, Node, create_node
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.reporting import leaf_tree
from oracle.reporting.leaf_tree import LeafTree
from oracle.reporting.recompute import build_tree_of_folded_state
from oracle.reporting.report_cutter import ReportCutter
from oracle.store.database import Store
from oracle.store.tables.round_tables import leaf_piece
from tests.support.accepted_rounds import accept_newest_report, remove_contract_events
from tests.support.examples import examples
from tests.support.rounds import build_contract_state
from tests.support.scripted import ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import (
    ANCHOR_WINDOW,
    DOMAIN,
    RULES,
    SETTINGS,
    Follower,
    mine_blocks,
)

# Blocks of ten seconds: a report is cut every six blocks, and the newest eight are not final.
STEPS = st.one_of(
    st.tuples(st.just("mine"), st.integers(1, 14)),
    st.tuples(st.just("fork"), st.integers(1, 8)),
    st.tuples(st.just("rewind"), st.integers(1, 30)),
    st.tuples(st.sampled_from(["restart", "rebuild", "round"]), st.just(0)),
)


def list_kept_reports(store: Store):
    """Return the reports of accepted rounds, and those that may still be accepted.

    A report may be accepted until a final block is later than its deadline.
    """
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        stored_reports = uow.reports.list_newest(1000)
        accepted_blocks = {accepted.as_of for accepted in uow.rounds.list_accepted()}
    final = (cursor and cursor.final_number) or 0
    final_time = max(
        (
            stored.report.as_of.time
            for stored in stored_reports
            if stored.report.as_of.number <= final
        ),
        default=0,
    )
    return [
        stored.report
        for stored in stored_reports
        if stored.report.deadline >= final_time or stored.report.as_of.number in accepted_blocks
    ]


def load_pieces(store: Store, as_of: int) -> list[bytes]:
    with store.read_transaction() as uow:
        digests = uow.leaf_pieces.get_digest_by_piece(as_of)
        pieces = [uow.leaf_pieces.load_leaves(piece, as_of) for piece in digests]
    for piece, leaves in enumerate(pieces):
        is_only_piece = len(pieces) == 1
        assert (
            compute_piece_digest(piece, leaves, keccak, is_only_piece=is_only_piece)
            == digests[piece]
        )
    return pieces


def refold_tree(follower: Follower, as_of: BlockRef) -> RoundTree:
    """Return the tree as of a block, folded from the stored logs."""
    reader = follower.folder.reader
    with follower.store.read_transaction() as uow:
        folded = fold_state_up_to(uow, reader, RULES, as_of.number)
        return build_tree_of_folded_state(uow, reader, folded, as_of.time, RULES)


def check_pieces(follower: Follower) -> int:
    """Check the pieces of all kept reports; return the number of reports."""
    reports = list_kept_reports(follower.store)
    for report in reports:
        stored_pieces = load_pieces(follower.store, report.as_of.number)
        tree = refold_tree(follower, report.as_of)
        edits = tree.edits.take()
        assert stored_pieces == [edits[piece].apply(b"") for piece in sorted(edits)]
        summary = (DOMAIN.chain_id, DOMAIN.contract, report.head_round + 1, report.as_of.number)
        assert tree.compute_round_root(*summary) == report.root
    return len(reports)


def run_steps(follower: Follower, traffic: Traffic, steps) -> None:
    for step, number in steps:
        if step == "mine":
            mine_blocks(remove_contract_events(traffic.blocks(number)), follower.chain)
        elif step == "fork":
            follower.chain.fork(min(number, len(follower.chain.blocks) - 1))
            mine_blocks(remove_contract_events(traffic.blocks(number + 1)), follower.chain)
        elif step == "round":
            accept_newest_report(follower)
        elif step == "restart":
            follower.restart()
        elif step == "rebuild":
            rebuild_state(follower.store, follower.folder, RebuildOptions())
        elif follower.chain.newest.number > number and step == "rewind":
            block = follower.chain.newest.number - number
            rewind_to_block(
                follower.chain, follower.store, follower.folder, block, RebuildOptions()
            )
        follower.catch_up()
        check_pieces(follower)


def skip_update(tree: LeafTree, store: Store) -> None:
    """Do nothing, so that the cut does all the work."""


def complete_update(tree: LeafTree, store: Store) -> None:
    start_update(tree, store)
    tree._finish_update()


start_update = LeafTree.start_update
# The progress of the background task at the next window, cut, fork, rebuild or restart.
UPDATES = {"none": skip_update, "complete": complete_update, "running": start_update}
# Of a first tree, the leaves of all seats are kept until the cut, or none.
KEPT_SEATS = {"none": 0, "complete": PIECE_LEAVES, "running": 0}


@pytest.mark.slow
@examples(40)
@given(
    st.integers(0, 1000),
    st.lists(STEPS, min_size=3, max_size=10),
    st.sampled_from([1, 4, 1000]),
    st.sampled_from(sorted(UPDATES)),
    st.sampled_from([0, PIECE_LEAVES]),
)
def test_stored_leaves_equal_refolded_leaves_after_random_steps(
    new_sqlite_store, seed, steps, max_blocks, update, kept_seats
):
    traffic = Traffic(seed)
    with pytest.MonkeyPatch.context() as patched, new_sqlite_store() as store:
        patched.setattr(LeafTree, "start_update", UPDATES[update])
        patched.setattr(leaf_tree, "_MAX_KEPT_SEATS", kept_seats)
        follower = Follower(
            mine_blocks(remove_contract_events(traffic.blocks(15))), store, max_blocks=max_blocks
        )
        follower.catch_up()
        run_steps(follower, traffic, steps)
        follower.folder.discard_cached_rows()


@pytest.mark.parametrize("update", UPDATES)
def test_stored_leaves_follow_forks_restarts_and_rebuilds(store: Store, update, monkeypatch):
    monkeypatch.setattr(LeafTree, "start_update", UPDATES[update])
    monkeypatch.setattr(leaf_tree, "_MAX_KEPT_SEATS", KEPT_SEATS[update])
    traffic = Traffic(3)
    follower = Follower(
        mine_blocks(remove_contract_events(traffic.blocks(15))), store, max_blocks=4
    )
    follower.catch_up()
    steps = [
        ("round", 0),
        ("mine", 14),
        ("fork", 8),
        ("restart", 0),
        ("mine", 7),
        ("rebuild", 0),
        ("mine", 50),
    ]
    run_steps(follower, traffic, steps)

    assert check_pieces(follower) >= 3
    follower.folder.discard_cached_rows()


def test_leaf_chunks_of_finished_reports_are_pruned(store: Store):
    traffic = Traffic(3)
    follower = Follower(mine_blocks(remove_contract_events(traffic.blocks(15))), store)
    follower.catch_up()
    accepted_round = accept_newest_report(follower)
    for _ in range(20):
        mine_blocks(remove_contract_events(traffic.blocks(6)), follower.chain)
        follower.catch_up()

    with store.read_transaction() as uow:
        rows = uow._connection.execute(select(leaf_piece.c.as_of))
        as_of_blocks = {as_of for (as_of,) in rows}
        reports = uow.reports.list_newest(100)
    undecided = {report.as_of.number for report in list_kept_reports(store)}
    assert accepted_round.as_of in undecided
    assert len(undecided) < len(reports)
    # At a cut, the cursor is still at the last block of the window before.
    assert len(as_of_blocks) <= len(undecided) + 1
    check_pieces(follower)


def build_member(seat: int) -> Node:
    address = Address("0x" + sha256(b"%d" % seat).hexdigest()[:40])
    member = create_node(address, seat, 1_000, 0)
    member.membership = Membership.MEMBER
    return member


@pytest.mark.slow
def test_only_the_chunk_of_a_changed_leaf_is_rewritten(new_sqlite_store, monkeypatch):
    # The leaves of the second piece are computed again when the first cut stores them.
    monkeypatch.setattr(leaf_tree, "_MAX_KEPT_SEATS", PIECE_LEAVES)
    cutter = ReportCutter(ScriptedReader(), RULES, SETTINGS, DOMAIN, anchor_window=ANCHOR_WINDOW)
    members = [build_member(seat) for seat in range(PIECE_LEAVES + 20)]
    first, second = (
        BlockRef(number, Hash(f"0x{number:064x}"), ZERO_HASH, 1_000 + 60 * number)
        for number in (6, 12)
    )
    with new_sqlite_store() as store, store.transaction() as uow:
        uow.nodes.save(members)
        cutter.on_block(uow, build_contract_state(), first, -1)
        changed = members[PIECE_LEAVES + 3]
        changed.paused, changed.changed_at = True, 9
        uow.nodes.save([changed])
        cutter.on_block(uow, build_contract_state(), second, -1)
        rows = uow._connection.execute(select(leaf_piece.c.piece, leaf_piece.c.as_of))
        stored_pieces = sorted(tuple(row) for row in rows)
        roots = []
        for block in (first, second):
            digests = list(uow.leaf_pieces.get_digest_by_piece(block.number).values())
            pieced_round = PiecedRound(
                digests, DOMAIN.chain_id, DOMAIN.contract, 1, block.number, keccak
            )
            roots.append("0x" + pieced_round.root.hex())
        reports = [stored.report.root for stored in uow.reports.list_newest()]
        leaves = uow.leaf_pieces.load_leaves(1, second.number)

    assert stored_pieces == [(0, 6), (1, 6), (1, 12)]
    assert roots == reports
    leaf = NodeLeaf.decode(leaves[LEAF_BYTES * 3 : LEAF_BYTES * 4])
    assert (leaf.node, leaf.flags) == (changed.address, LeafFlag.MEMBER | LeafFlag.PAUSED)
