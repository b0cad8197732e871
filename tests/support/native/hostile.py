"""Runs native code while Python code changes its arguments: python -m … CASE.

A Python with a sanitizer runs this module and aborts when freed memory is read or a sum overflows.
"""

import sys
from array import array
from collections.abc import Callable
from contextlib import suppress
from random import Random
from threading import Event, Thread
from typing import Any

import msgspec
from typing_extensions import override

from oracle.domain import native as module
from oracle.domain.fixed_point import encode_decay_table
from oracle.domain.logs import Log, SourceIndexes
from oracle.domain.roots.node_leaves import LeafRow, convert_rules_to_native
from oracle.systems.crynux import candidate_columns
from oracle.systems.crynux.candidate_columns import CandidateColumns
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.native.inputs import (
    NOW,
    build_leaf_row,
    make_random_candidate,
    make_random_node,
)
from tests.support.native.responses import FILTER, make_random_log_response

assert module.native is not None, "no native code is installed"
native: module.Native = module.native


def stakes_that_empty_their_list() -> None:
    stakes: list[int] = []

    class Stake(int):
        @override
        def __rshift__(self, by: int) -> int:
            stakes.clear()
            return int(self) >> by

    stakes += [Stake(2**70 + number) for number in range(50)]
    with suppress(IndexError):
        native.compute_stake_scores(stakes, 2**80, array("Q", [0] * 50))


def stakes_that_grow_their_list() -> None:
    stakes: list[int] = []

    class Stake(int):
        @override
        def __rshift__(self, by: int) -> int:
            stakes.extend([1] * 10_000)
            return int(self) >> by

    stakes += [Stake(2**70)]
    native.compute_stake_scores(stakes, 2**80, array("Q", [0]))


def sources_that_empty_the_lists() -> None:
    response = msgspec.json.encode(make_random_log_response(Random(3)))  # noqa: S311 - as above
    logs: list[Any] = []
    rows: list[Any] = []

    class Sources(dict):  # type: ignore[type-arg]
        def __missing__(self, source: object) -> int:
            logs.clear()
            rows.clear()
            return 0

    assert native.read_logs(response, FILTER.native_filter, 0, 99, (Log, Sources(), logs, rows))
    assert len(logs) == len(rows) == 1


def logs_of_another_class() -> None:
    response = msgspec.json.encode(make_random_log_response(Random(3)))  # noqa: S311 - as above
    for log_class in (int, type, dict):
        target: Any = (log_class, SourceIndexes(), [], [])
        with suppress(AttributeError, TypeError):
            native.read_logs(response, FILTER.native_filter, 0, 99, target)
        assert target[2:] == ([], [])


def times_at_the_ends_of_64_bits() -> None:
    chance, ends = Random(1), (-(2**63), -1, 0, 1, 2**63 - 1)  # noqa: S311
    rows = [make_random_candidate(chance) for _ in range(len(ends))]
    for time in ends:
        computed_weights = []
        for code in (native, None):
            candidate_columns.native = code  # type: ignore[attr-defined]
            columns = CandidateColumns(CRYNUX, CRYNUX_WEIGHTING, rows)
            columns.base_reliabilities = array("Q", [10**17] * len(rows))
            columns.exclusion_thresholds = array("Q", [0] * len(rows))
            columns.reliability_times = array("q", ends)
            columns._compute_weights(bytearray([1] * len(rows)), time)
            computed_weights.append([*columns.weights])
        assert computed_weights[0] == computed_weights[1], (time, computed_weights)


def rows_of_classes_of_their_own() -> None:
    rows: list[LeafRow] = []

    class Number(int):
        """Clears the list of rows if any of its methods runs."""

        def __index__(self) -> int:
            rows.clear()
            return int(self)

    class Row(tuple):  # type: ignore[type-arg]  # noqa: SLOT001
        @override
        def __getitem__(self, index: Any) -> Any:
            rows.clear()
            return 0

        @override
        def __len__(self) -> int:
            rows.clear()
            return 10**6

    node = make_random_node(Random(2))  # noqa: S311
    node.kickout_due_time = None
    row = build_leaf_row(node, node.address)
    rows += [(Number(number), *row[1:]) for number in range(70)]
    rows += [Row(row) for _ in range(70)]
    leaves, other_rows = native.encode_leaves(
        rows, convert_rules_to_native(CRYNUX), NOW, encode_decay_table(CRYNUX.tau_seconds)
    )
    assert len(leaves) // 128 + len(other_rows) == 140


def tree_that_another_thread_resizes() -> None:
    tree = bytearray(64 << 12)
    changed = bytearray(b"\1" * (1 << 12))
    stops = Event()

    def resize() -> None:
        while not stops.is_set():
            with suppress(BufferError):
                tree.extend(b"\0")
                tree.pop()

    thread = Thread(target=resize)
    thread.start()
    for _ in range(50):
        changed[:] = b"\1" * (1 << 12)
        with suppress(ValueError):
            native.hash_changed_parents(tree, changed)
    stops.set()
    thread.join()


def indexes_that_lie_in_the_tree() -> None:
    for seed in range(50):
        tree = bytearray(Random(seed).randbytes(64 * 16))  # noqa: S311
        # The first index leads to a leaf; writing it changes the indexes behind it.
        tree[: 4 * 16] = bytes(4 * 16)
        indexes: Any = memoryview(tree).cast("I")
        with suppress(IndexError):
            native.set_leaves(tree, bytearray(16), indexes, b"\1" * 32 * len(indexes))
        indexes.release()


def seats_that_lie_among_the_lanes() -> None:
    lanes = bytearray(64)
    seats: Any = memoryview(lanes).cast("I")
    all_lanes: Any = memoryview(lanes).cast("H")
    for lane in (0, 1, 0xFFFF):
        lanes[:] = bytes(64)
        with suppress(IndexError):
            native.set_lanes(all_lanes, seats, array("H", [lane] * len(seats)))
        with suppress(IndexError):
            native.set_lanes(all_lanes, seats, all_lanes[: len(seats)])


CASES: dict[str, Callable[[], None]] = {
    case.__name__: case
    for case in (
        stakes_that_empty_their_list,
        stakes_that_grow_their_list,
        sources_that_empty_the_lists,
        logs_of_another_class,
        times_at_the_ends_of_64_bits,
        rows_of_classes_of_their_own,
        tree_that_another_thread_resizes,
        indexes_that_lie_in_the_tree,
        seats_that_lie_among_the_lanes,
    )
}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
    sys.stdout.write("done\n")
