"""Compares the native code with the Python code on random inputs: python -m … CRYNUX ROUNDS.

A Python with a sanitizer runs this module and aborts at the first access outside a buffer.
"""

import importlib
import sys
from array import array
from random import Random

import msgspec

from oracle.chain.log_filter import parse_logs_natively
from oracle.chain.proofs.keccak import keccak
from oracle.chain.verification.receipt_fetch import prove_receipts_natively
from oracle.domain import native as module
from oracle.domain.fixed_point import UNIT, encode_decay_table
from oracle.domain.ids import Address
from oracle.domain.logs import LogTable, SourceIndexes
from oracle.domain.roots import leaves as leaves_module, merkle_tree, round_tree
from oracle.domain.roots.leaves import LEAF_BYTES, hash_leaf, split_leaves
from oracle.domain.roots.merkle_tree import MerkleTree
from oracle.domain.roots.node_leaves import convert_rules_to_native
from oracle.domain.roots.round_tree import RoundTree
from oracle.store.raw import raw_checksums
from oracle.systems import weighted_draw
from oracle.systems.crynux import candidate_columns
from oracle.systems.crynux.candidate_columns import CandidateColumns
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.weighted_draw import draw_indexes
from tests.support.native.inputs import (
    NOW,
    build_leaf_row,
    change_one_text,
    make_extreme_node,
    make_leaf_batch_of_all_seats,
    make_random_candidate,
    make_random_leaf_batch,
    make_random_node,
    make_random_rules,
    spoil_row,
)
from tests.support.native.responses import (
    BLOCKS,
    FILTER,
    damage_response,
    list_headers,
    list_logs_and_parts,
    make_random_block_response,
    make_random_log_response,
    read_logs,
    read_receipts,
    rewrite_json,
)

assert module.native is not None, "no native code is installed"
native: module.Native = module.native


def compare_receipts(chance: Random) -> None:
    block = make_random_block_response(chance)
    original = [*block]
    for _ in range(chance.randrange(4) if block else 0):
        change_one_text(chance, block)
    response = rewrite_json(chance, msgspec.json.encode(block))
    response = damage_response(chance, response) if chance.random() < 0.5 else response
    for header in list_headers(response, original):
        proven = prove_receipts_natively(response, header, FILTER, SourceIndexes())
        natively = proven and (list_logs_and_parts(proven.logs), proven.statuses)
        assert natively in (None, read_receipts(response, header))


def compare_logs(chance: Random) -> None:
    response = rewrite_json(chance, msgspec.json.encode(make_random_log_response(chance)))
    for _ in range(chance.randrange(4)):
        response = damage_response(chance, response)
    packed = parse_logs_natively(response, BLOCKS, FILTER)
    assert (None if packed is None else list_logs_and_parts(packed)) in (None, read_logs(response))
    if packed is not None:
        table = LogTable.from_logs(packed)
        checksums = []
        for code in (native, None):
            raw_checksums.native = code  # type: ignore[attr-defined]
            checksums.append(raw_checksums.sum_log_hashes(table))
        assert checksums[0] == checksums[1]


def compare_candidates(chance: Random) -> None:
    rows = [make_random_candidate(chance) for _ in range(chance.randrange(60))]
    largest = max((row.stake for row in rows), default=0)
    computed = []
    for code in (native, None):
        candidate_columns.native = code  # type: ignore[attr-defined]
        columns = CandidateColumns(CRYNUX, CRYNUX_WEIGHTING, rows)
        columns.update_weights(NOW, largest)
        computed.append(([*columns.weights], columns.offered))
    assert computed[0] == computed[1]


def compare_draws(chance: Random) -> None:
    weights = [chance.choice((0, 9 * UNIT, chance.getrandbits(64))) for _ in range(70)]
    offered = bytearray(map(bool, weights))
    seed = chance.randbytes(32)
    draw_count = chance.randrange(80)
    weighted_draw.native = native  # type: ignore[attr-defined]
    natively = [*draw_indexes(array("Q", weights), offered.copy(), seed, draw_count)]
    assert natively == [*draw_indexes(weights, offered, seed, draw_count)]


def compare_roots(chance: Random) -> None:
    rules = make_random_rules(chance)
    nodes = [
        chance.choice((make_random_node, make_extreme_node))(chance)
        for _ in range(chance.randrange(140))
    ]
    rows = [build_leaf_row(node, node.address) for node in nodes]
    rows = [spoil_row(chance, row) if chance.random() < 0.1 else row for row in rows]
    leaves, other_rows = native.encode_leaves(
        rows, convert_rules_to_native(rules), NOW, encode_decay_table(rules.tau_seconds)
    )
    assert len(leaves) == LEAF_BYTES * (len(rows) - len(other_rows))
    hashes = native.hash_leaves(leaves, LEAF_BYTES)
    assert hashes == b"".join(hash_leaf(leaf, keccak) for leaf in split_leaves(leaves))
    computed = []
    for code in (native, None):
        merkle_tree.native = code  # type: ignore[attr-defined]
        computed.append(MerkleTree(hashes, keccak).root)
    assert computed[0] == computed[1]


def compare_round_trees(chance: Random) -> None:
    node_count = chance.randrange(1, 140)
    batches = [
        make_leaf_batch_of_all_seats(chance, node_count),
        make_random_leaf_batch(chance, node_count),
    ]
    computed = []
    for code in (native, None):
        for changed_module in (leaves_module, merkle_tree, round_tree):
            changed_module.native = code  # type: ignore[attr-defined]
        tree = RoundTree(batches, keccak)
        summary = tree.summarize(1, Address("0x" + 40 * "c"), 2, 3)
        computed.append((tree.compute_root(summary), summary, tree.lanes))
    assert computed[0] == computed[1]


def main(seed: int, rounds: int) -> None:
    for number in range(seed, seed + rounds):
        chance = Random(number)  # noqa: S311 - repeatable, no secret
        for play in (
            compare_receipts,
            compare_logs,
            compare_candidates,
            compare_draws,
            compare_roots,
            compare_round_trees,
        ):
            play(chance)
        content = chance.randbytes(chance.randrange(600))
        assert len(native.keccak(content)) == 32
    sys.stdout.write(f"{rounds} rounds, {importlib.import_module('oracle_native').__file__}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
