"""A provable round proves every node that is in it, and that no other address is."""

import pytest
from hypothesis import given

from oracle.chain.proofs.keccak import keccak
from oracle.domain.roots.leaves import LEAF_BYTES, NodeLeaf, hash_leaf
from oracle.domain.roots.merkle_tree import MerkleTree, compute_root
from oracle.domain.roots.proofs import PIECE_LEAVES, ProvableRound
from tests.unit.domain.roots.test_round_tree import ADDRESSES, ORACLE, draw_leaves


def provable(leaves: list[NodeLeaf]) -> ProvableRound:
    by_address = sorted(leaves, key=lambda leaf: leaf.node)
    return ProvableRound(by_address, 1, ORACLE, 5, 77, keccak)


@given(draw_leaves())
def test_decoded_leaf_equals_the_encoded_leaf(leaves: list[NodeLeaf]) -> None:
    assert [NodeLeaf.decode(leaf.encode()) for leaf in leaves] == leaves


@given(draw_leaves(), ADDRESSES)
def test_every_address_is_proven_or_proven_absent(leaves, stranger) -> None:
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


def test_round_without_nodes_proves_nothing() -> None:
    with pytest.raises(ValueError, match="no nodes"):
        provable([]).prove_node(ORACLE)


@given(draw_leaves())
def test_pieces_hold_all_leaves_in_order_of_seats(leaves: list[NodeLeaf]) -> None:
    provable_round = provable(leaves)
    encoded = b"".join(leaf.encode() for leaf in sorted(leaves, key=lambda leaf: leaf.seat))

    assert provable_round.count_pieces() == 1
    assert provable_round.get_piece(0) == encoded
    for index in (-1, 1):
        with pytest.raises(IndexError):
            provable_round.get_piece(index)


def test_piece_is_one_megabyte_and_one_subtree() -> None:
    assert LEAF_BYTES * PIECE_LEAVES == 2**20
    hashes = [keccak(number.to_bytes(4)) for number in range(4 * 2)]
    whole, half = MerkleTree(hashes, keccak), MerkleTree(hashes[4:], keccak)
    # A piece of 2^k leaves that starts at a multiple of 2^k is a subtree of the whole tree.
    assert compute_root(half.root, whole.build_proof(4)[2:], keccak) == whole.root
