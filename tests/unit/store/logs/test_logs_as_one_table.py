"""Logs in narrow rows, with orphans separate, behave like one table with a flag."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Hash
from oracle.domain.logs import MAX_LOG_INDEX, Log
from oracle.errors import FatalError
from oracle.store.database import Store, UnitOfWork
from tests.unit.store.samples import block, log

BLOCKS = range(1, 5)


def _key(entry: Log) -> tuple[int, int, Hash]:
    return entry.block, entry.index, entry.block_hash


_LOGS = st.builds(
    lambda number, index, branch, version: log(number, index, branch, data=f"0x{version:02x}"),
    st.sampled_from(BLOCKS),
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(0, 3),
)
_MANY = st.lists(_LOGS, max_size=6, unique_by=_key)


class _UndoneError(Exception):
    """Rolls back a transaction, so that the next example finds an empty database."""


@dataclass
class OneTable:
    """The reference: each log with a flag, by its block's number and hash, and its index."""

    rows: dict[tuple[int, int, Hash], tuple[Log, bool]] = field(default_factory=dict)

    def append(self, logs: list[Log]) -> int:
        new = [entry for entry in logs if not self.rows.get(_key(entry), (entry, False))[1]]
        self.rows |= {_key(entry): (entry, True) for entry in new}
        return len(new)

    def replace(self, logs: list[Log]) -> None:
        self.rows |= {_key(entry): (entry, True) for entry in logs}

    def orphan(self, logs: list[Log]) -> None:
        gone = {_key(entry) for entry in logs}
        self.rows = {
            k: (stored_log, flag and k not in gone) for k, (stored_log, flag) in self.rows.items()
        }

    def orphan_above(self, number: int) -> int:
        above = [
            stored_log
            for stored_log, flag in self.rows.values()
            if flag and stored_log.block > number
        ]
        self.orphan(above)
        return len(above)

    def between(self, *, canonical: bool) -> list[Log]:
        return [
            stored_log for _, (stored_log, flag) in sorted(self.rows.items()) if flag is canonical
        ]

    def has_two(self, logs: list[Log]) -> bool:
        """Return whether these logs would make two canonical blocks of one number."""
        named = {
            (entry.block, entry.block_hash) for entry in (*self.between(canonical=True), *logs)
        }
        return len(dict(named)) < len(named)


@contextmanager
def undone(store: Store) -> Iterator[UnitOfWork]:
    with suppress(_UndoneError), store.transaction() as uow:
        yield uow
        raise _UndoneError


ACTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "replace", "orphan"]), _MANY),
        st.tuples(st.just("orphan_above"), st.integers(0, 5)),
    ),
    max_size=8,
)


@given(acts=ACTS)
def test_log_operations_match_a_model_with_one_table(store: Store, acts):
    table = OneTable()
    with undone(store) as uow:
        for name, given_to in acts:
            if name in {"append", "replace"} and table.has_two(given_to):
                with pytest.raises(FatalError, match="block"):
                    getattr(uow.logs, name)(given_to)
            else:
                assert getattr(uow.logs, name)(given_to) == getattr(table, name)(given_to)
            assert_alike(uow, table)


def assert_alike(uow: UnitOfWork, table: OneTable) -> None:
    canonical_logs = table.between(canonical=True)
    assert list(uow.logs.iterate_between(0, 9)) == canonical_logs
    assert list(uow.logs.iterate_between(0, 9, canonical=False)) == table.between(canonical=False)
    assert uow.logs.count() == len(canonical_logs)
    numbers = [entry.block for entry in canonical_logs]
    assert uow.logs.find_highest_block() == max(numbers, default=None)
    hashes = {entry.block: (entry.block, entry.block_hash) for entry in canonical_logs}
    for number in (0, *BLOCKS, 9):
        below = [block_number for block_number in numbers if block_number <= number]
        above = [block_number for block_number in numbers if block_number >= number]
        assert uow.logs.find_highest_block_up_to(number) == (hashes[max(below)] if below else None)
        assert uow.logs.find_lowest_block_from(number) == (hashes[min(above)] if above else None)


def test_log_index_above_maximum_is_rejected(store: Store):
    with pytest.raises(FatalError, match="index"), store.transaction() as uow:
        uow.logs.append([log(1, MAX_LOG_INDEX + 1, data="0x")])


def test_replaced_log_updates_the_time_of_its_block(store: Store):
    with store.transaction() as uow:
        uow.logs.append([log(1), log(1, 1)])
        uow.logs.replace([log(1, time=77)])
        assert [stored_log.time for stored_log in uow.logs.iterate_between(1, 1)] == [77, 77]


def test_transaction_block_is_looked_up_in_canonical_logs(store: Store):
    with store.transaction() as uow:
        uow.logs.append([log(3), log(4)])
        uow.logs.orphan_above(3)
        assert uow.logs.find_transaction_block([log(3).tx_hash], 0) == block(3).number
        assert uow.logs.find_transaction_block([log(4).tx_hash], 0) is None
        assert uow.logs.find_transaction_block([log(3).tx_hash], 4) is None
