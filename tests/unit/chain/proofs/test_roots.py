"""RLP and trie roots equal those of the reference libraries."""

import rlp
from hypothesis import given, strategies as st
from trie.hexary import HexaryTrie

from oracle.chain.proofs.merkle_trie import compute_trie_root
from oracle.chain.proofs.rlp import RlpItem, encode_rlp
from tests.support.examples import examples

nested = st.recursive(
    st.binary(max_size=70) | st.integers(0, 2**256), lambda case: st.lists(case, max_size=6)
)


def flat(content: RlpItem) -> object:
    """Return the content in the form that pyrlp accepts."""
    if isinstance(content, int):
        return content.to_bytes((content.bit_length() + 7) // 8, "big")
    return content if isinstance(content, bytes) else [flat(part) for part in content]


@examples(40)
@given(nested)
def test_rlp_encoding_matches_library(content):
    assert encode_rlp(content) == rlp.encode(flat(content))


def test_rlp_length_prefixes_match_library():
    for size in (55, 56, 255, 256):
        assert encode_rlp(b"\x01" * size) == rlp.encode(b"\x01" * size)
        assert encode_rlp([b"\x01"] * size) == rlp.encode([b"\x01"] * size)
    assert encode_rlp(b"\x01" * 65_536) == rlp.encode(b"\x01" * 65_536)


def root_by_library(leaves):
    tree = HexaryTrie({}, prune=True)
    for place, leaf in enumerate(leaves):
        tree[rlp.encode(rlp.sedes.big_endian_int.serialize(place))] = leaf
    return tree.root_hash


@examples(20)
@given(st.lists(st.binary(min_size=1, max_size=80), max_size=24))
def test_trie_root_matches_library(leaves):
    assert compute_trie_root(leaves) == root_by_library(leaves)


def test_trie_root_depends_on_leaf_order():
    root = compute_trie_root([b"first", b"second"])
    assert root == root_by_library([b"first", b"second"])
    assert root != compute_trie_root([b"second", b"first"])


def test_empty_trie_root_matches_constant():
    assert (
        compute_trie_root([]).hex()
        == "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
    )


def test_trie_root_of_more_than_127_leaves_matches_library():
    for count in (128, 129, 257):
        leaves = [f"leaf {place}".encode() * 8 for place in range(count)]
        assert compute_trie_root(leaves) == root_by_library(leaves)
