"""The native code returns the same as the Python code, or nothing."""

import importlib
from array import array
from contextlib import suppress
from math import isqrt
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.chain.proofs.keccak import hash_with_pycryptodome, keccak
from oracle.domain import native as module
from oracle.domain.fixed_point import UNIT, encode_decay_table
from oracle.domain.ids import Address
from oracle.domain.native import Native
from oracle.domain.reports.kickout_review import KickoutReview
from oracle.domain.reports.lanes import DO_NOT_SELECT
from oracle.domain.roots import leaves as leaves_module, merkle_tree, round_tree
from oracle.domain.roots.leaves import LEAF_BYTES, split_leaves
from oracle.domain.roots.merkle_tree import MerkleTree
from oracle.domain.roots.node_leaves import (
    LeafRow,
    ScoringContext,
    build_node_leaf,
    build_scoring_context,
    convert_rules_to_native,
)
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.scoring.node_scores import compute_pool_mean
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems import weighted_draw
from oracle.systems.crynux import candidate_columns
from oracle.systems.crynux.candidate_columns import CandidateColumns, IndexedCandidate
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING, Weighting
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.weighted_draw import draw_indexes
from tests.support.examples import examples
from tests.support.native.inputs import (
    NOW,
    ROW_COLUMNS,
    build_leaf_row,
    make_extreme_node,
    make_leaf_batch_of_all_seats,
    make_random_candidate,
    make_random_leaf_batch,
    make_random_node,
    make_random_rules,
    make_random_stake,
    spoil_row,
)
from tests.support.round_leaves import prove_word

CHANCES = st.randoms(use_true_random=False)
UNFLOORED = Weighting(weight_floor=0)


@examples(200)
@given(st.binary(max_size=300))
def test_native_keccak_matches_library(native: Native, content: bytes):
    assert native.keccak(content) == hash_with_pycryptodome(content)


def test_native_keccak_matches_library_for_every_size(native: Native):
    for size in range(420):
        content = bytes(place % 251 for place in range(size))
        assert native.keccak(content) == hash_with_pycryptodome(content)


def compute_weight_stages(
    rows: list[IndexedCandidate], changed: dict[int, IndexedCandidate], weighting: Weighting
) -> list[tuple[list[int], bytes, list[int]]]:
    """Return weights, candidacy and S: initially, after changes, later,
    and with another largest stake.
    """
    columns = CandidateColumns(CRYNUX, weighting, rows)
    largest = max((row.stake for row in [*rows, *changed.values()]), default=0)
    column_states = []
    for time, max_stake in (
        (NOW, largest),
        (NOW, largest),
        (NOW + 600, largest),
        (NOW, 2 * largest),
    ):
        columns.update_weights(time, max_stake)
        column_states.append(([*columns.weights], bytes(columns.offered), [*columns.scores]))
        for place, row in changed.items():
            columns.set_row(place, row)
    return column_states


@examples(200)
@given(CHANCES, st.sampled_from([CRYNUX_WEIGHTING, UNFLOORED]))
def test_native_candidate_weights_match_python(
    native: Native, chance: Random, weighting: Weighting
):
    rows = [make_random_candidate(chance) for _ in range(chance.randrange(1, 40))]
    changed = {chance.randrange(len(rows)): make_random_candidate(chance) for _ in range(3)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(candidate_columns, "native", native)
        natively = compute_weight_stages(rows, changed, weighting)
        patched.setattr(candidate_columns, "native", None)
        assert natively == compute_weight_stages(rows, changed, weighting)


@examples(200)
@given(CHANCES)
def test_native_stake_scores_match_python(native: Native, chance: Random):
    stakes = [make_random_stake(chance) for _ in range(chance.randrange(1, 30))]
    largest = chance.choice([max(stakes), 2**128 - 1, 2**64, 1])
    scores = array("Q", bytes(8 * len(stakes)))
    if native.compute_stake_scores(stakes, largest, scores):
        assert [*scores] == [isqrt(stake * UNIT * UNIT // largest) for stake in stakes]
    else:
        assert largest == 0 or max(stakes) > largest


@pytest.mark.parametrize("stakes", [[-1], [2**128], [0, 2**300], [5]])
def test_native_code_returns_false_for_an_oversized_stake(native: Native, stakes: list[int]):
    scores = array("Q", bytes(8 * len(stakes)))
    assert native.compute_stake_scores(stakes, 4, scores) is False


@examples(200)
@given(CHANCES, st.binary(min_size=32, max_size=32))
def test_native_draws_match_python(native: Native, chance: Random, seed: bytes):
    weights = [chance.choice((0, 1, 9 * UNIT, chance.getrandbits(64))) for _ in range(40)]
    offered = bytearray(1 if weight else chance.randrange(2) for weight in weights)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(weighted_draw, "native", native)
        natively = [*draw_indexes(array("Q", weights), offered.copy(), seed, 50)]
    assert natively == [*draw_indexes(weights, offered, seed, 50)]


@pytest.mark.parametrize("x", [6, 2**64, 2**128, -1])
def test_draw_position_beyond_the_total_weight_is_rejected(native: Native, x: int):
    with pytest.raises(ValueError, match="weight"):
        native.find_weighted_index(array("Q", [1, 2, 3]), x)


def test_columns_of_different_lengths_are_rejected(native: Native):
    numbers = array("Q", [1])
    flags = bytearray(1)
    longer = array("Q", [1, 1])
    columns = (*(numbers, numbers, longer, numbers, numbers, numbers), flags, numbers, flags)
    with pytest.raises(ValueError, match="columns"):
        native.compute_weights(columns, NOW, bytes(16 * 21), 0)
    with pytest.raises(ValueError, match="decay table"):
        native.compute_weights(columns, NOW, b"abc", 0)


def leaves_of(
    native: Native, rows: list[LeafRow], rules: Rules, time: int = NOW
) -> tuple[bytes, list[LeafRow]]:
    return native.encode_leaves(
        rows, convert_rules_to_native(rules), time, encode_decay_table(rules.tau_seconds)
    )


def is_ordinary(row: LeafRow) -> bool:
    """Return whether each value of a row is within the limits of the native code."""
    seat, _, _, _, _, _, base, since, pool, pool_sum, prior, last_scored_at, kickout_due_time = row
    return (
        0 <= seat < 2**32
        and 0 <= base <= UNIT
        and -(2**63) <= since < 2**63
        and len(pool) <= 135
        and 0 <= pool_sum < 2**32
        and (prior is None or 0 <= prior < 2**64)
        and (last_scored_at is None or 0 <= last_scored_at < 2**40)
        and kickout_due_time is None
    )


def native_leaf_of(node: Node, context: ScoringContext) -> bytes | None:
    """Return the leaf of a node by Python, or None if the native code does
    not support the node.
    """
    with suppress(ValueError):
        leaf = build_node_leaf(node, node.address, context, keccak)
        # Such a mean has more than 64 bits; it matters only to the lane of a selectable node.
        has_wide_mean = compute_pool_mean(node.pool, node.prior, context.rules) >= 2**64
        if has_wide_mean and leaf.lane != DO_NOT_SELECT:
            return None
        encoded = leaf.encode()
        return encoded if is_ordinary(build_leaf_row(node, node.address)) else None
    return None


@examples(400)
@given(CHANCES, st.sampled_from([0, NOW, NOW + 2**21, 2**63 - 1]))
def test_native_leaves_match_python(native: Native, chance: Random, time: int):
    rules = make_random_rules(chance)
    nodes = [make_extreme_node(chance) for _ in range(chance.randrange(12))]
    context = build_scoring_context(
        {}, time, rules, lambda _: KickoutReview(None, has_dead_letter=False)
    )
    expected = [native_leaf_of(node, context) for node in nodes]
    rows = [build_leaf_row(node, node.address) for node in nodes]
    leaves, other_rows = leaves_of(native, rows, rules, time)

    assert [*split_leaves(leaves)] == [leaf for leaf in expected if leaf is not None]
    assert other_rows == [row for row, leaf in zip(rows, expected, strict=True) if leaf is None]


@examples(300)
@given(CHANCES)
def test_malformed_rows_fall_back_to_python(native: Native, chance: Random):
    node = make_random_node(chance)
    node.kickout_due_time = None
    row = build_leaf_row(node, Address("0x" + 40 * "1"))
    spoiled = spoil_row(chance, row)
    leaves, other_rows = leaves_of(native, [spoiled], CRYNUX)
    assert (len(leaves) // LEAF_BYTES, other_rows) in ((0, [spoiled]), (1, []))
    if not leaves:
        return
    changed = [
        name for name, old, new in zip(ROW_COLUMNS, row, spoiled, strict=True) if old != new
    ]
    assert set(changed) <= {"prior", "last_scored_at", "kickout_due_time", "pool", "since"}


def test_native_rules_out_of_range_are_rejected(native: Native):
    table = encode_decay_table(CRYNUX.tau_seconds)
    for rules in ((-1, 0, 10, 0, 0), (1, 2, 10, 0, 0), (1, 0, 0, 0, 0), (1, 0, 10, 2**64, 0)):
        with pytest.raises(ValueError, match="rules"):
            native.encode_leaves([], rules, NOW, table)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rules"):
        native.encode_leaves([], convert_rules_to_native(CRYNUX), NOW, table[1:])


@pytest.mark.parametrize("rules", [range(2**62, 2**62 + 5), [1, 0, 10, 0, 0], (1, 0, 10, 0), None])
def test_native_rules_of_wrong_type_raise_type_error(native: Native, rules: Any):
    """A `range` creates its numbers only while they are read."""
    with pytest.raises(TypeError):
        native.encode_leaves([], rules, NOW, encode_decay_table(CRYNUX.tau_seconds))


@examples(100)
@given(CHANCES, st.integers(1, 135), st.integers(0, 200))
def test_native_leaf_hashes_match_python(native: Native, chance: Random, size: int, count: int):
    content = chance.randbytes(size * count)
    leaves = [content[first : first + size] for first in range(0, len(content), size)]
    assert native.hash_leaves(content, size) == b"".join(
        hash_with_pycryptodome(hash_with_pycryptodome(leaf)) for leaf in leaves
    )


@pytest.mark.parametrize(("content", "size"), [(b"ab", 0), (b"ab", -1), (b"abc", 2), (b"", 136)])
def test_native_leaves_of_wrong_size_are_rejected(native: Native, content: bytes, size: int):
    with pytest.raises(ValueError, match="leaves"):
        native.hash_leaves(content, size)


@examples(60)
@given(CHANCES, st.integers(0, 200))
def test_native_tree_matches_python(native: Native, chance: Random, count: int):
    hashes = chance.randbytes(32 * count)
    changes = [
        [chance.randrange(count + 9) for _ in range(chance.randrange(count + 9))] for _ in range(2)
    ]
    added = [chance.randbytes(32 * len(indexes)) for indexes in changes]
    # Leaves that do not differ, and two of one index.
    if count and changes[1]:
        added[1] = added[1][:-32] + hashes[:32]
    trees = []
    with pytest.MonkeyPatch.context() as patched:
        for code in (native, None):
            patched.setattr(merkle_tree, "native", code)
            tree = MerkleTree(hashes, keccak)
            steps: list[Any] = [tree.root]
            for indexes, leaf_hashes in zip(changes, added, strict=True):
                steps += [tree.set_leaves(indexes, leaf_hashes), tree.root]
                steps += [tree.set_leaves(indexes[-1:], leaf_hashes[-32:]), tree.root]
            proofs = [tree.build_proof(index) for index in range(tree.leaf_count)]
            trees.append((steps, proofs))
    assert trees[0] == trees[1]


@examples(60)
@given(CHANCES, st.integers(1, 70))
def test_native_rounds_match_python(native: Native, chance: Random, node_count: int):
    batches = [
        make_leaf_batch_of_all_seats(chance, node_count),
        *(make_random_leaf_batch(chance, node_count) for _ in "ab"),
    ]
    summaries = []
    with pytest.MonkeyPatch.context() as patched:
        for code in (native, None):
            for changed_module in (leaves_module, merkle_tree, round_tree):
                patched.setattr(changed_module, "native", code)
            tree = RoundTree(batches[:1], keccak)
            tree.update(batches[1:])
            summary = tree.summarize(1, Address("0x" + 40 * "c"), 2, 3)
            words = [prove_word(tree, word, summary) for word in range(-(-node_count // 16))]
            summaries.append((summary, tree.compute_root(summary), tree.lanes, words))
    assert summaries[0] == summaries[1]


# Numbers that are not aligned, and lanes that cannot be written.
MISALIGNED: Any = memoryview(bytes(9))[1:5].cast("I")
READ_ONLY: Any = memoryview(bytes(4)).cast("H")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((bytearray(128), bytearray(2), array("I", [2]), bytes(32)), IndexError),
        ((bytearray(128), bytearray(2), array("I", [0]), bytes(31)), ValueError),
        ((bytearray(128), bytearray(2), array("I", [0, 1]), bytes(32)), ValueError),
        ((bytearray(128), bytearray(3), array("I", [0]), bytes(32)), ValueError),
        ((bytearray(127), bytearray(1), array("I", [0]), bytes(32)), ValueError),
        ((bytearray(128), bytearray(2), array("Q", [0]), bytes(32)), ValueError),
        ((bytearray(128), bytearray(2), array("H", [0]), bytes(32)), ValueError),
        ((bytearray(128), bytearray(2), bytes(4), bytes(128)), ValueError),
        ((bytearray(128), bytearray(2), MISALIGNED, bytes(32)), ValueError),
        ((bytes(128), bytearray(2), array("I", [0]), bytes(32)), TypeError),
        ((bytearray(128), bytearray(2), [0], bytes(32)), TypeError),
    ],
)  # fmt: skip
def test_leaves_that_do_not_fit_the_tree_are_rejected(
    native: Native, arguments: Any, error: type[Exception]
):
    with pytest.raises(error):
        native.set_leaves(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((array("H", [1]), array("I", [1]), array("H", [1])), IndexError),
        ((array("H", [1]), array("I", [0]), array("H", [1, 1])), ValueError),
        ((array("H", [1]), array("H", [0]), array("H", [1])), ValueError),
        ((array("I", [1]), array("I", [0]), array("H", [1])), ValueError),
        ((array("H", [1]), array("I", [0]), array("B", [1])), ValueError),
        ((READ_ONLY, array("I", [0]), array("H", [1])), BufferError),
    ],
)
def test_lanes_that_do_not_fit_the_round_are_rejected(
    native: Native, arguments: Any, error: type[Exception]
):
    with pytest.raises(error):
        native.set_lanes(*arguments)


def test_word_without_lanes_is_rejected(native: Native):
    lanes = array("H", range(17))
    assert len(native.encode_lane_words(array("I", [1, 0]), lanes)) == 128
    for word in (2, 2**32 - 1):
        with pytest.raises(IndexError):
            native.encode_lane_words(array("I", [0, word]), lanes)
    with pytest.raises(ValueError, match="numbers"):
        native.encode_lane_words(array("H", [0]), lanes)


@pytest.mark.parametrize(
    ("tree_bytes", "flags"), [(64, 0), (0, 0), (192, 3), (128, 1), (127, 2), (64, 2), (129, 2)]
)
def test_tree_or_flags_of_the_wrong_size_are_rejected(native: Native, tree_bytes: int, flags: int):
    with pytest.raises(ValueError, match="a flag for each of 2\\^n leaves"):
        native.hash_changed_parents(bytearray(tree_bytes), bytearray(flags))


class Older:
    VERSION = 0


@pytest.mark.parametrize(("installed", "ignored_version"), [(None, None), (Older, 0)])
def test_missing_or_outdated_native_package_falls_back_to_python(
    monkeypatch, installed, ignored_version
):
    monkeypatch.setitem(importlib.import_module("sys").modules, "oracle_native", installed)
    assert module._load_native_package() == (None, ignored_version)
