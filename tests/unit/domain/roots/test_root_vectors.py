"""Roots and proofs equal those of OpenZeppelin's own library (tests/vectors/roots)."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import (
    LeafFlag,
    NodeLeaf,
    encode_word_leaf,
    hash_leaf,
)
from oracle.domain.roots.merkle_tree import compute_root
from tests.support.round_leaves import (
    build_round_tree,
    compute_next_addresses,
    get_word,
    prove_word,
)

_PATH = Path(__file__).parents[3] / "vectors" / "roots" / "rounds.json"
ROUNDS = json.loads(_PATH.read_text(encoding="utf-8"))["rounds"]


def read_leaf(row: dict[str, str]) -> NodeLeaf:
    numbers = {
        name: int(row[name])
        for name in (
            "lane", "seat", "score_count", "score_sum", "reliability", "kickout_due_since",
            "last_scored_at",
        )
    }  # fmt: skip
    return NodeLeaf(
        node=Address(row["node"]),
        next_node=Address(row["next_node"]),
        flags=LeafFlag(int(row["flags"])),
        pool_hash=bytes.fromhex(row["pool_hash"][2:]),
        **numbers,
    )


@pytest.mark.parametrize("vector", ROUNDS, ids=lambda vector: f"{len(vector['leaves'])}-leaves")
def test_round_root_matches_openzeppelin(vector: dict[str, Any]) -> None:
    leaves = [read_leaf(row) for row in vector["leaves"]]
    assert [str(int.from_bytes(leaf.encode()[64:96])) for leaf in leaves] == [
        row["packed"] for row in vector["leaves"]
    ]
    next_nodes = {leaf.node: leaf.next_node for leaf in leaves}
    assert compute_next_addresses(next_nodes) == next_nodes
    tree = build_round_tree(leaves)
    assert [str(get_word(tree, index)) for index in range(len(vector["words"]))] == vector["words"]

    expected = vector["summary"]
    summary = tree.summarize(
        int(expected["chain_id"]),
        Address(expected["oracle"]),
        int(expected["round"]),
        int(expected["as_of"]),
    )
    assert {name: str(value) for name, value in asdict(summary).items()} == expected
    root = tree.compute_root(summary)
    assert "0x" + root.hex() == vector["root"]
    for row in vector["node_proofs"]:
        proof = tree.prove_node(row["seat"], summary)
        assert ["0x" + sibling.hex() for sibling in proof] == row["proof"]
        assert compute_root(hash_leaf(leaves[row["seat"]].encode(), keccak), proof, keccak) == root
    for row in vector["word_proofs"]:
        proof = prove_word(tree, row["index"], summary)
        assert ["0x" + sibling.hex() for sibling in proof] == row["proof"]
        leaf = encode_word_leaf(row["index"], get_word(tree, row["index"]))
        assert compute_root(hash_leaf(leaf, keccak), proof, keccak) == root
