"""Proofs from the stored leaves equal proofs from the stored logs, for every kept round."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.network_events import NodeJoined
from oracle.domain.ids import Address, Hash
from oracle.domain.roots.leaves import hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.round_leaves import LeafCache
from oracle.queries import node_proof
from oracle.queries.node_proof import NodeProofDetail, prove_node
from oracle.store.database import Store
from tests.support.accepted_rounds import (
    accept_newest_report,
    load_newest_report,
    remove_contract_events,
)
from tests.support.examples import examples
from tests.support.scripted import ScriptedReader
from tests.support.traffic import AT, TIME, Traffic
from tests.support.txmgr.follower import RULES, Follower, mine_blocks
from tests.support.txmgr.stores import NewStore

STRANGERS = st.integers(0x80, 0xC0).map(lambda number: Address(f"0x{number:040x}"))


@pytest.fixture
def store(new_sqlite_store: NewStore) -> Iterator[Store]:
    """Use one engine; other tests cover the rows on both."""
    with new_sqlite_store() as opened:
        yield opened


def join(number: int) -> NodeJoined:
    node = Address(f"0x{number:040x}")
    return NodeJoined(AT, TIME, node, stake=10**20, gpu_name="RTX 4090", gpu_vram=24)


def archive_of(store: Store) -> EventArchive:
    return EventArchive(store, ScriptedReader(), RULES)


def check_proof(proof: NodeProofDetail) -> None:
    leaf_hash = hash_leaf(bytes.fromhex(proof.leaf.encoded[2:]), keccak)
    siblings = [bytes.fromhex(text[2:]) for text in proof.proof]
    assert "0x" + compute_root(leaf_hash, siblings, keccak).hex() == proof.root
    if proof.is_absent:
        node, next_node = proof.leaf.node, proof.leaf.next_node
        if node < next_node:
            assert node < proof.address < next_node
        else:
            assert proof.address > node or proof.address < next_node
    else:
        assert proof.leaf.node == proof.address


def prove_by_refold(
    store: Store, monkeypatch: pytest.MonkeyPatch, address: Address, round_number: int
) -> NodeProofDetail:
    """Prove an address in a round whose leaves are no longer stored."""
    with monkeypatch.context() as patched:
        patched.setattr(node_proof, "load_pieced_round", lambda *_: None)
        return prove_node(archive_of(store), LeafCache(), address, round_number)


@pytest.mark.slow
@examples(20)
@given(st.integers(0, 1000), st.lists(st.integers(6, 14), min_size=1, max_size=4), STRANGERS)
def test_proofs_from_stored_leaves_equal_proofs_from_logs(
    new_sqlite_store, seed, lengths, unknown_address
):
    traffic = Traffic(seed)
    blocks = remove_contract_events(traffic.blocks(14))
    with new_sqlite_store() as store:
        follower = Follower(mine_blocks([[join(0xB0)], *blocks]), store)
        follower.catch_up()
        for length in lengths:
            mine_blocks(remove_contract_events(traffic.blocks(length)), follower.chain)
            follower.catch_up()
            accept_newest_report(follower)
        cache = LeafCache()
        addresses = [*traffic.members, Address(f"0x{0xB0:040x}"), unknown_address]
        with pytest.MonkeyPatch.context() as monkeypatch:
            for number in range(1, len(lengths) + 1):
                for address in addresses:
                    proof = prove_node(archive_of(store), cache, address, number)
                    check_proof(proof)
                    assert proof == prove_by_refold(store, monkeypatch, address, number)


def test_node_is_proven_absent_in_a_round_before_it_joined(store: Store):
    follower = Follower(mine_blocks([[join(0xA0), join(0xB0)]] + [[]] * 14), store)
    follower.catch_up()
    accept_newest_report(follower)
    mine_blocks([[join(0xA8)]] + [[]] * 7, follower.chain)
    follower.catch_up()
    accept_newest_report(follower)
    newcomer = join(0xA8).node

    earlier = prove_node(archive_of(store), LeafCache(), newcomer, 1)
    later = prove_node(archive_of(store), LeafCache(), newcomer, 2)

    check_proof(earlier)
    assert (earlier.is_absent, earlier.leaf.node) == (True, join(0xA0).node)
    assert (later.is_absent, later.leaf.seat) == (False, 2)


def test_round_with_stored_leaves_is_proven_without_logs(store: Store, monkeypatch):
    follower = Follower(mine_blocks([[join(0xA0)]] + [[]] * 14), store)
    follower.catch_up()
    accept_newest_report(follower)
    monkeypatch.setattr(node_proof, "fold_state_up_to", None)

    check_proof(prove_node(archive_of(store), LeafCache(), join(0xA0).node, None))


def test_report_that_was_not_accepted_is_not_proven(store: Store):
    follower = Follower(mine_blocks([[join(0xA0)]] + [[]] * 14), store)
    follower.catch_up()
    assert load_newest_report(store).head_round == 0
    for number in (None, 1):
        with pytest.raises(InputError, match="accepted"):
            prove_node(archive_of(store), LeafCache(), join(0xA0).node, number)

    first = accept_newest_report(follower)
    # A later cut, on top of round 1, is not proven either.
    mine_blocks([[join(0xA1)]] + [[]] * 12, follower.chain)
    follower.catch_up()
    newest = prove_node(archive_of(store), LeafCache(), join(0xA1).node, None)
    assert (newest.summary.as_of, newest.is_absent) == (first.as_of, True)


def test_changed_seats_in_the_database_do_not_change_proofs(store: Store):
    follower = Follower(mine_blocks([[join(0xA0), join(0xA1), join(0xA2)]] + [[]] * 14), store)
    follower.catch_up()
    accept_newest_report(follower)
    before = [
        prove_node(archive_of(store), LeafCache(), join(number).node, 1)
        for number in (0xA0, 0xA1, 0xA2, 0xA3)
    ]
    with store.transaction() as uow:
        nodes = list(uow.nodes.iterate_all())
        for node in nodes:
            node.seat = len(nodes) - 1 - node.seat
        uow.nodes.save(nodes)

    assert before == [
        prove_node(archive_of(store), LeafCache(), Address(proof.address), 1) for proof in before
    ]


def test_no_proof_is_given_if_the_logs_yield_another_root(store: Store, monkeypatch):
    traffic = Traffic(5)
    follower = Follower(mine_blocks(remove_contract_events(traffic.blocks(40))), store)
    follower.catch_up()
    mine_blocks([[], []], follower.chain)
    follower.catch_up()
    accept_newest_report(follower)
    other_rules = replace(RULES, q_max=RULES.q_max + 1)
    monkeypatch.setattr(node_proof, "load_pieced_round", lambda *_: None)

    with pytest.raises(InputError, match="the stored logs lead to the root"):
        prove_node(
            EventArchive(store, ScriptedReader(), other_rules),
            LeafCache(),
            traffic.members[0],
            1,
        )


def test_empty_round_has_no_proof(store: Store):
    follower = Follower(mine_blocks([[]] * 14), store)
    follower.catch_up()
    accept_newest_report(follower)

    with pytest.raises(InputError, match="has no nodes"):
        prove_node(archive_of(store), LeafCache(), join(0xA0).node, 1)


def test_no_proof_is_given_if_the_block_of_the_round_differs(store: Store, monkeypatch):
    follower = Follower(mine_blocks([[join(0xA0)]] + [[]] * 14), store)
    follower.catch_up()
    accept_newest_report(follower, as_of_hash=Hash("0x" + 64 * "e"))
    monkeypatch.setattr(node_proof, "load_pieced_round", lambda *_: None)

    with pytest.raises(InputError, match="the time of its block"):
        prove_node(archive_of(store), LeafCache(), join(0xA0).node, 1)
