"""Compares the native code with the Python code on random inputs: python -m … CRYNUX ROUNDS.

A Python with a sanitizer runs this module and aborts at the first access outside a buffer.
"""

import importlib
import sys
from array import array
from contextlib import suppress
from random import Random

from oracle.chain.proofs.merkle_trie import compute_trie_root
from oracle.domain import native as module
from oracle.domain.fixed_point import UNIT
from oracle.systems import weighted_draw
from oracle.systems.crynux import candidate_columns
from oracle.systems.crynux.candidate_columns import CandidateColumns
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.weighted_draw import draw_indexes
from tests.support.native.inputs import NOW, a_block, a_candidate, spoil

assert module.native is not None, "no native code is installed"
native: module.Native = module.native


def receipts(chance: Random) -> None:
    block = a_block(chance)
    for _ in range(chance.randrange(4) if block else 0):
        spoil(chance, block)
    native_root, expected = native.compute_receipts_root(block), None
    with suppress(ValueError):
        expected = compute_trie_root([receipt.encode_leaf() for receipt in block])
    assert native_root in {None, expected}


def candidates(chance: Random) -> None:
    rows = [a_candidate(chance) for _ in range(chance.randrange(60))]
    largest = max((row.stake for row in rows), default=0)
    computed = []
    for code in (native, None):
        candidate_columns.native = code  # type: ignore[attr-defined]
        columns = CandidateColumns(CRYNUX, CRYNUX_WEIGHTING, rows)
        columns.update_weights(NOW, largest)
        computed.append(([*columns.weights], columns.offered))
    assert computed[0] == computed[1]


def draws(chance: Random) -> None:
    weights = [chance.choice((0, 9 * UNIT, chance.getrandbits(64))) for _ in range(70)]
    offered = bytearray(map(bool, weights))
    seed, draw_count = chance.randbytes(32), chance.randrange(80)
    weighted_draw.native = native  # type: ignore[attr-defined]
    natively = [*draw_indexes(array("Q", weights), offered.copy(), seed, draw_count)]
    assert natively == [*draw_indexes(weights, offered, seed, draw_count)]


def main(seed: int, rounds: int) -> None:
    for number in range(seed, seed + rounds):
        chance = Random(number)  # noqa: S311 - repeatable, no secret
        for play in (receipts, candidates, draws):
            play(chance)
        content = chance.randbytes(chance.randrange(600))
        assert len(native.keccak(content)) == 32
    sys.stdout.write(f"{rounds} rounds, {importlib.import_module('oracle_native').__file__}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
