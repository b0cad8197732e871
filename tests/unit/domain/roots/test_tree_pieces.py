"""Pieces lead to the root of the round, and prove the same leaves as the complete tree."""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LANES_PER_WORD
from oracle.domain.roots.leaves import LEAF_BYTES, NodeLeaf, encode_word_leaf, hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.domain.roots.pieces import (
    PIECE_LEAVES,
    PIECE_WORDS,
    PiecedRound,
    PieceEdit,
    PieceTree,
    compute_piece_digest,
)
from oracle.domain.roots.round_tree import RoundTree
from tests.support.examples import examples
from tests.support.round_leaves import (
    build_round_tree,
    compute_next_addresses,
    get_word,
    prove_word,
)
from tests.unit.domain.roots.test_round_tree import ADDRESSES, ORACLE, build_leaf, draw_leaves


def take_pieces(tree: RoundTree, pieces: dict[int, bytes]) -> dict[int, bytes]:
    """Return the pieces after the edits of a tree."""
    edits = tree.edits.take()
    return pieces | {piece: edit.apply(pieces.get(piece, b"")) for piece, edit in edits.items()}


def pieced_round_of(pieces: dict[int, bytes]) -> PiecedRound:
    """Return the round of these pieces, computed from their bytes alone."""
    digests = [
        compute_piece_digest(piece, pieces[piece], keccak, is_only_piece=len(pieces) == 1)
        for piece in sorted(pieces)
    ]
    return PiecedRound(digests, 1, ORACLE, 5, 77, keccak)


@cache
def two_pieces() -> tuple[NodeLeaf, ...]:
    """Return the leaves of a round whose second piece has 40 leaves."""
    nodes = [
        Address("0x" + sha256(b"%d" % number).hexdigest()[:40])
        for number in range(PIECE_LEAVES + 40)
    ]
    next_nodes = compute_next_addresses(nodes)
    return tuple(
        build_leaf(node, next_nodes[node], seat, 1 + seat % 10_002)
        for seat, node in enumerate(nodes)
    )


@given(draw_leaves())
def test_chunks_of_a_small_round_have_the_root_and_summary_of_the_round(
    leaves: list[NodeLeaf],
) -> None:
    tree = build_round_tree(leaves)
    pieced_round = pieced_round_of(take_pieces(tree, {}))

    assert pieced_round.summary == tree.summarize(1, ORACLE, 5, 77)
    assert pieced_round.root == tree.compute_root(pieced_round.summary)
    assert [tree.get_piece_digest(0)] == list(pieced_round.digests)


@pytest.mark.slow
@examples(10)
@given(st.sets(st.integers(0, PIECE_LEAVES + 39), min_size=1, max_size=9), st.integers(1, 10_002))
def test_chunks_updated_incrementally_equal_rebuilt_chunks(seats, lane) -> None:
    leaves = list(two_pieces())
    tree = build_round_tree(leaves)
    pieces = take_pieces(tree, {})
    for seat in seats:
        leaves[seat] = build_leaf(leaves[seat].node, leaves[seat].next_node, seat, lane)
    tree.update(leaves[seat].encode() for seat in sorted(seats))
    edited = take_pieces(tree, pieces)

    assert b"".join(edited.values()) == b"".join(leaf.encode() for leaf in leaves)
    pieced_round = pieced_round_of(edited)
    assert pieced_round.root == tree.compute_root(tree.summarize(1, ORACLE, 5, 77))
    assert [tree.get_piece_digest(piece) for piece in edited] == list(pieced_round.digests)


@pytest.mark.slow
@given(st.sampled_from([0, 1, PIECE_LEAVES - 1, PIECE_LEAVES, PIECE_LEAVES + 39]))
def test_chunk_and_its_path_prove_leaves_of_multi_chunk_round(seat: int) -> None:
    tree = build_round_tree(two_pieces())
    pieces = take_pieces(tree, {})
    pieced_round = pieced_round_of(pieces)
    piece, index = divmod(seat, PIECE_LEAVES)
    piece_tree = PieceTree(pieces[piece], keccak, is_only_piece=False)
    proof = [*piece_tree.build_proof(index), *pieced_round.build_path(piece)]

    assert proof == tree.prove_node(seat, pieced_round.summary)
    leaf_hash = hash_leaf(two_pieces()[seat].encode(), keccak)
    assert compute_root(leaf_hash, proof, keccak) == pieced_round.root


@given(draw_leaves(), st.data())
def test_word_runs_of_small_round_are_proven(leaves: list[NodeLeaf], data) -> None:
    check_word_runs(leaves, data)


@pytest.mark.slow
@examples(10)
@given(st.data())
def test_word_runs_of_multi_chunk_round_are_proven(data) -> None:
    check_word_runs(two_pieces(), data)


def check_word_runs(leaves: Sequence[NodeLeaf], data: st.DataObject) -> None:
    """Prove random runs of words, and compute the root from the words as the contract does."""
    tree = build_round_tree(leaves)
    pieced_round = pieced_round_of(take_pieces(tree, {}))
    lane_words = [get_word(tree, index) for index in range(-(-len(leaves) // LANES_PER_WORD))]
    places = 1 << (len(lane_words) - 1).bit_length()
    runs = []
    for first in sorted(data.draw(st.sets(st.integers(0, len(lane_words) - 1), max_size=4))):
        max_count = min(first & -first or places, places, PIECE_WORDS)
        count = data.draw(st.sampled_from([1 << bit for bit in range(max_count.bit_length())]))
        runs.append((first, count))

    proofs = list(pieced_round.prove_word_runs(lane_words, runs))

    for (first, count), proof in zip(runs, proofs, strict=True):
        hashes = [
            hash_leaf(encode_word_leaf(index, lane_words[index]), keccak)
            if index < len(lane_words)
            else bytes(32)
            for index in range(first, first + count)
        ]
        while len(hashes) > 1:
            pairs = zip(hashes[::2], hashes[1::2], strict=True)
            hashes = [keccak(min(pair) + max(pair)) for pair in pairs]
        assert compute_root(hashes[0], proof, keccak) == pieced_round.root
        word_proof = prove_word(tree, first, pieced_round.summary)
        assert list(proof) == word_proof[count.bit_length() - 1 :]


@given(draw_leaves(), ADDRESSES)
def test_every_address_is_covered_by_exactly_one_leaf(leaves: list[NodeLeaf], stranger) -> None:
    piece = b"".join(leaf.encode() for leaf in leaves)
    tree = PieceTree(piece, keccak, is_only_piece=True)
    leaf_by_node = {leaf.node: leaf for leaf in leaves}
    for address in (*leaf_by_node, stranger):
        covering = [
            index
            for index in range(len(leaves))
            if tree.is_address_covered_by_leaf(index, bytes.fromhex(address[2:]))
        ]
        assert covering == [tree.find_covering_leaf(bytes.fromhex(address[2:]))]
        if address in leaf_by_node:
            assert NodeLeaf.decode(tree.get_leaf(covering[0])) == leaf_by_node[address]


@pytest.mark.parametrize("size", [0, LEAF_BYTES - 1, LEAF_BYTES * (PIECE_LEAVES + 1)])
def test_chunk_of_invalid_size_is_rejected(size: int) -> None:
    with pytest.raises(ValueError, match="1 to 8192 leaves"):
        compute_piece_digest(0, bytes(size), keccak, is_only_piece=True)


def test_chunk_edit_beyond_its_leaves_is_rejected() -> None:
    edit = PieceEdit(bytearray(LEAF_BYTES))
    edit.add(2, 0)
    with pytest.raises(ValueError, match="leaves are missing"):
        edit.apply(bytes(LEAF_BYTES))
