"""Properties of a round's tree: updates equal a rebuild, and only its content can be proven."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from oracle.chain.proofs.keccak import keccak
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import DO_NOT_SELECT, HIGHEST_SCORE
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, hash_leaf
from oracle.domain.roots.merkle_tree import MerkleTree, compute_root, hash_pair
from tests.support.round_leaves import build_round_tree, compute_next_addresses, find_predecessor

ORACLE = Address("0x" + "0a" * 20)
ADDRESSES = st.integers(1, 2**160 - 1).map(lambda number: Address(f"0x{number:040x}"))
HASHES = st.binary(min_size=32, max_size=32)
LANES = st.integers(DO_NOT_SELECT, HIGHEST_SCORE)


def build_leaf(node: Address, next_node: Address, seat: int, lane: int) -> NodeLeaf:
    return NodeLeaf(
        node=node,
        next_node=next_node,
        lane=lane,
        flags=LeafFlag.MEMBER,
        seat=seat,
        score_count=0,
        score_sum=0,
        reliability=UNIT,
        kickout_due_since=0,
        last_scored_at=0,
        pool_hash=keccak(b""),
    )


@st.composite
def draw_leaves(draw: st.DrawFn, min_size: int = 1) -> list[NodeLeaf]:
    """Draw the leaves of a round, in order of their seats."""
    nodes = draw(st.lists(ADDRESSES, min_size=min_size, max_size=40, unique=True))
    next_nodes = compute_next_addresses(nodes)
    return [
        build_leaf(node, next_nodes[node], seat, draw(LANES)) for seat, node in enumerate(nodes)
    ]


@given(st.lists(HASHES, max_size=40), st.integers(0, 40), st.data())
def test_incrementally_updated_tree_equals_full_tree(
    hashes: list[bytes], first_count: int, data: st.DataObject
) -> None:
    tree = MerkleTree(b"".join(hashes[:first_count]), keccak)
    first_count = tree.leaf_count
    places = st.sampled_from(range(first_count)) if first_count else st.nothing()
    changed = data.draw(st.dictionaries(places, HASHES))
    added = range(first_count, len(hashes))
    tree.set_leaves([*changed, *added], b"".join((*changed.values(), *hashes[first_count:])))

    expected = [changed.get(place, leaf_hash) for place, leaf_hash in enumerate(hashes)]
    rebuilt = MerkleTree(b"".join(expected), keccak)
    assert (tree.root, tree.depth, tree.leaf_count) == (
        rebuilt.root, rebuilt.depth, len(expected),
    )  # fmt: skip
    for place, leaf_hash in enumerate(expected):
        assert compute_root(leaf_hash, tree.build_proof(place), keccak) == tree.root


@given(st.lists(HASHES, min_size=1, max_size=40))
def test_tree_matches_recursive_definition(hashes: list[bytes]) -> None:
    level = [*hashes, *[bytes(32)] * ((1 << max(0, (len(hashes) - 1).bit_length())) - len(hashes))]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [keccak(b"".join(sorted(pair))) for pair in pairs]
    assert MerkleTree(b"".join(hashes), keccak).root == level[0]


@pytest.mark.parametrize("hash_bytes", [0, 31, 33, 64])
def test_different_counts_of_hashes_and_indexes_are_rejected(hash_bytes: int) -> None:
    tree = MerkleTree(b"\1" * 32, keccak)
    with pytest.raises(ValueError, match=f"got {hash_bytes} bytes"):
        tree.set_leaves([0], bytes(hash_bytes))
    assert (tree.root, tree.leaf_count) == (b"\1" * 32, 1)


@given(draw_leaves(min_size=2), st.data())
def test_round_without_a_leaf_for_every_seat_is_rejected(
    leaves: list[NodeLeaf], data: st.DataObject
) -> None:
    missing = data.draw(st.integers(0, len(leaves) - 2))
    with pytest.raises(ValueError, match=f"{len(leaves) - 1} leaves must have the seats 0 to "):
        build_round_tree(leaf for leaf in leaves if leaf.seat != missing)


@pytest.mark.parametrize("index", [-1, 3, 4])
def test_proof_for_an_index_without_leaf_raises_index_error(index: int) -> None:
    tree = MerkleTree(b"\1" * 32 + b"\2" * 32 + b"\3" * 32, keccak)
    with pytest.raises(IndexError, match=f"there is no leaf at index {index}"):
        tree.build_proof(index)


@given(draw_leaves(), st.data())
def test_updated_round_tree_equals_rebuilt_tree(
    leaves: list[NodeLeaf], data: st.DataObject
) -> None:
    first_count = data.draw(st.integers(0, len(leaves)))
    first = [replace(leaf, lane=data.draw(LANES)) for leaf in leaves[:first_count]]
    tree = build_round_tree(first)
    tree.update(leaf.encode() for leaf in data.draw(st.permutations(leaves)))

    rebuilt = build_round_tree(leaves)
    summary = tree.summarize(1, ORACLE, 7, 100)
    assert summary == rebuilt.summarize(1, ORACLE, 7, 100)
    assert tree.compute_root(summary) == rebuilt.compute_root(summary)
    weights = [leaf.lane - 1 for leaf in leaves]
    assert summary.total_weight == sum(weights)
    assert (summary.node_count, summary.open_count) == (
        len(leaves), sum(weight > 0 for weight in weights),
    )  # fmt: skip


@given(draw_leaves(), st.data())
def test_tampered_leaf_does_not_prove_the_root(
    leaves: list[NodeLeaf], data: st.DataObject
) -> None:
    tree = build_round_tree(leaves)
    summary = tree.summarize(1, ORACLE, 7, 100)
    root = tree.compute_root(summary)
    leaf = data.draw(st.sampled_from(leaves))
    encoded = leaf.encode()
    proof = tree.prove_node(leaf.seat, summary)
    assert compute_root(hash_leaf(encoded, keccak), proof, keccak) == root

    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    forged = (int.from_bytes(encoded) ^ 1 << bit).to_bytes(len(encoded))
    assert compute_root(hash_leaf(forged, keccak), proof, keccak) != root
    for wrong_proof in (proof[:-1], proof[::-1], [*proof, bytes(32)]):
        assume(wrong_proof != proof)
        assert compute_root(hash_leaf(encoded, keccak), wrong_proof, keccak) != root


@given(draw_leaves(min_size=2))
def test_inner_tree_node_is_not_accepted_as_a_leaf(leaves: list[NodeLeaf]) -> None:
    """The two hashes below an inner node are 64 bytes like a word leaf, but hashed only once."""
    tree = build_round_tree(leaves)
    summary = tree.summarize(1, ORACLE, 7, 100)
    first, *proof = tree.prove_node(0, summary)
    children = b"".join(sorted((hash_leaf(leaves[0].encode(), keccak), first)))
    assert compute_root(keccak(children), proof, keccak) == tree.compute_root(summary)
    assert compute_root(hash_leaf(children, keccak), proof, keccak) != tree.compute_root(summary)


@pytest.mark.parametrize(
    "change",
    [{"chain_id": 2}, {"oracle": Address("0x" + "0b" * 20)}, {"round": 8}, {"as_of": 101}],
)
def test_same_leaves_in_another_round_have_another_root(change: dict[str, Any]) -> None:
    leaf = build_leaf(ORACLE, ORACLE, 0, 5000)
    tree = build_round_tree([leaf])
    summary = tree.summarize(1, ORACLE, 7, 100)
    assert tree.compute_root(replace(summary, **change)) != tree.compute_root(summary)


@given(draw_leaves(), ADDRESSES)
def test_absence_can_be_proven_only_for_addresses_without_leaf(
    leaves: list[NodeLeaf], address: Address
) -> None:
    leaf_by_node = {leaf.node: leaf for leaf in leaves}
    ascending = sorted(leaf_by_node)
    for candidate in (address, *ascending):
        gaps = [leaf for leaf in leaves if _is_in_gap(candidate, leaf)]
        if candidate in leaf_by_node:
            assert not gaps
        else:
            assert gaps == [leaf_by_node[find_predecessor(ascending, candidate)]]


def _is_in_gap(address: Address, leaf: NodeLeaf) -> bool:
    """Return whether the address lies between a leaf and the next, as `isAbsent` checks it."""
    if leaf.node < leaf.next_node:
        return leaf.node < address < leaf.next_node
    return address != leaf.node and (address > leaf.node or address < leaf.next_node)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lane": 0}, "the lane of 0x0a.* is 0; expected 1 to 10002"),
        ({"lane": 10_003}, "the lane of 0x0a.* is 10003; expected 1 to 10002"),
        ({"reliability": UNIT + 1}, "the reliability of 0x0a.* is not between 0 and 1"),
        ({"seat": 1 << 32}, "the leaf of 0x0a.* is out of range"),
        ({"score_sum": -1}, "the leaf of 0x0a.* is out of range"),
        ({"kickout_due_since": 1 << 40}, "the leaf of 0x0a.* is out of range"),
        ({"pool_hash": bytes(31)}, "the pool hash of 0x0a.* has 31 bytes"),
    ],
)
def test_leaf_with_a_value_out_of_range_is_rejected(change: dict[str, Any], message: str) -> None:
    leaf = build_leaf(ORACLE, ORACLE, 0, 5000)
    with pytest.raises(ValueError, match=message):
        replace(leaf, **change).encode()


def test_two_hashes_are_combined_in_ascending_order() -> None:
    low = b"\1" * 32
    high = b"\2" * 32
    assert hash_pair(low, high, keccak) == hash_pair(high, low, keccak) == keccak(low + high)
