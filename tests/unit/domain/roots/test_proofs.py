"""A provable round proves that every node is in it, and that every other address is not."""

import pytest
from hypothesis import given

from oracle.chain.proofs.keccak import keccak
from oracle.domain.roots.leaves import NodeLeaf, hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.domain.roots.round_tree import ProvableRound
from tests.unit.domain.roots.test_round_tree import ADDRESSES, ORACLE, draw_leaves


def provable(leaves: list[NodeLeaf]) -> ProvableRound:
    by_address = sorted(leaves, key=lambda leaf: leaf.node)
    return ProvableRound(by_address, 1, ORACLE, 5, 77, keccak)


@given(draw_leaves())
def test_decoded_leaf_equals_encoded_leaf(leaves: list[NodeLeaf]) -> None:
    assert [NodeLeaf.decode(leaf.encode()) for leaf in leaves] == leaves


@given(draw_leaves(), ADDRESSES)
def test_every_address_has_inclusion_or_absence_proof(leaves, stranger) -> None:
    provable_round = provable(leaves)
    leaf_by_node = {leaf.node: leaf for leaf in leaves}
    for address in (*leaf_by_node, stranger):
        proof = provable_round.prove_node(address)
        leaf_hash = hash_leaf(proof.leaf.encode(), keccak)
        assert compute_root(leaf_hash, proof.hashes, keccak) == provable_round.root
        assert proof.is_absent == (address not in leaf_by_node)
        if not proof.is_absent:
            assert proof.leaf == leaf_by_node[address]
        elif proof.leaf.node < proof.leaf.next_node:
            assert proof.leaf.node < address < proof.leaf.next_node
        else:
            # The highest address is followed by the lowest.
            assert address > proof.leaf.node or address < proof.leaf.next_node


def test_empty_round_has_no_proof() -> None:
    with pytest.raises(ValueError, match="no nodes"):
        provable([]).prove_node(ORACLE)
