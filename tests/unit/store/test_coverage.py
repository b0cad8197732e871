"""The coverage of a block is the last one that was recorded."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import CoverageInterval, IngestScope, VerificationLevel
from oracle.domain.ids import Address, Hash
from oracle.errors import InputError
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.store.raw.coverage_repository import UNNAMED_SCOPE_ID, CoverageRepository
from tests.support.examples import examples
from tests.unit.store.samples import address, make_hash

SCOPE = IngestScope.create([address(1)], [make_hash(1)])
LARGER_SCOPE = IngestScope.create([address(1), address(2)], [make_hash(1)])
A, B = "a", "b"


def build_interval(
    first: int, last: int, level: VerificationLevel = VerificationLevel.SEAMED, endpoint: str = A
) -> CoverageInterval:
    return CoverageInterval(first, last, level, endpoint)


def list_spans_in(room: CoverageRepository) -> list[tuple[int, int, VerificationLevel, str]]:
    return [
        (interval.first, interval.last, interval.level, interval.endpoint)
        for interval in room.list_intervals(SCOPE.id)
    ]


def test_adjacent_windows_with_same_level_merge_into_one_interval(store: Store):
    with store.transaction() as uow:
        for first in range(0, 50, 10):
            uow.coverage.store_interval(SCOPE.id, build_interval(first, first + 9))
        assert list_spans_in(uow.coverage) == [(0, 49, VerificationLevel.SEAMED, A)]
        assert uow.coverage.list_gaps(SCOPE.id, 0, 49) == []


def test_unread_blocks_are_listed_as_gaps(store: Store):
    with store.transaction() as uow:
        uow.coverage.store_interval(SCOPE.id, build_interval(10, 19))
        uow.coverage.store_interval(SCOPE.id, build_interval(30, 39))
        assert uow.coverage.list_gaps(SCOPE.id, 0, 50) == [
            BlockRange(0, 9),
            BlockRange(20, 29),
            BlockRange(40, 50),
        ]
        assert uow.coverage.list_gaps(SCOPE.id, 30, 50) == [BlockRange(40, 50)]
        assert uow.coverage.list_gaps(SCOPE.id, 15, 35) == [BlockRange(20, 29)]
        assert uow.coverage.list_gaps(SCOPE.id, 21, 22) == [BlockRange(21, 22)]


def test_verification_level_is_raised_only_where_it_is_lower(store: Store):
    with store.transaction() as uow:
        uow.coverage.store_interval(SCOPE.id, build_interval(0, 9))
        uow.coverage.store_interval(SCOPE.id, build_interval(10, 19, VerificationLevel.PROVEN))
        uow.coverage.raise_level(SCOPE.id, BlockRange(5, 30), VerificationLevel.PINNED, B)
        assert list_spans_in(uow.coverage) == [
            (0, 4, VerificationLevel.SEAMED, A),
            (5, 9, VerificationLevel.PINNED, B),
            (10, 19, VerificationLevel.PROVEN, A),
        ]
        assert uow.coverage.count_blocks_by_level(SCOPE.id) == {
            VerificationLevel.SEAMED: 5,
            VerificationLevel.PINNED: 5,
            VerificationLevel.PROVEN: 10,
        }


def test_audited_blocks_are_tracked_separately(store: Store):
    with store.transaction() as uow:
        uow.coverage.store_interval(SCOPE.id, build_interval(0, 29))
        uow.coverage.record_audit(SCOPE.id, BlockRange(0, 9), B, 50)
        assert uow.coverage.find_lowest_unaudited_interval(
            SCOPE.id, BlockRange(0, 20), 99
        ) == build_interval(10, 20)
        assert uow.coverage.find_lowest_unaudited_interval(
            SCOPE.id, BlockRange(0, 20), 5
        ) == build_interval(10, 14)
        uow.coverage.record_audit(SCOPE.id, BlockRange(10, 19), B, 60)
        assert uow.coverage.count_audited_blocks(SCOPE.id) == 20
        assert [
            (interval.first, interval.last, interval.audited_at)
            for interval in uow.coverage.list_intervals(SCOPE.id)
        ] == [
            (0, 19, 60),
            (20, 29, None),
        ]
        assert uow.coverage.find_lowest_unaudited_interval(SCOPE.id, BlockRange(0, 19), 99) is None


def test_unaudited_range_includes_all_levels_of_its_endpoint(store: Store):
    levels = (
        VerificationLevel.PROVEN,
        VerificationLevel.BLOOMED,
        VerificationLevel.PROVEN,
        VerificationLevel.PINNED,
    )
    with store.transaction() as uow:
        for number, level in enumerate(levels):
            uow.coverage.store_interval(SCOPE.id, build_interval(number, number, level))
        uow.coverage.store_interval(SCOPE.id, build_interval(4, 4, VerificationLevel.PROVEN, B))
        assert uow.coverage.find_lowest_unaudited_interval(
            SCOPE.id, BlockRange(0, 9), 9
        ) == build_interval(0, 3, VerificationLevel.PINNED)
        uow.coverage.record_audit(SCOPE.id, BlockRange(0, 2), B, 50)
        assert uow.coverage.count_audited_blocks(SCOPE.id) == 3
        assert uow.coverage.find_lowest_unaudited_interval(
            SCOPE.id, BlockRange(0, 9), 9
        ) == build_interval(3, 3, VerificationLevel.PINNED)


def test_deleting_above_a_block_applies_to_every_scope(store: Store):
    with store.transaction() as uow:
        uow.coverage.store_interval(SCOPE.id, build_interval(0, 29))
        uow.coverage.store_interval(LARGER_SCOPE.id, build_interval(20, 29))
        uow.coverage.delete_above(10)
        assert list_spans_in(uow.coverage) == [(0, 10, VerificationLevel.SEAMED, A)]
        assert uow.coverage.list_intervals(LARGER_SCOPE.id) == []


def test_first_named_scope_inherits_the_unnamed_coverage(store: Store):
    with store.transaction() as uow:
        uow.coverage.store_interval(
            UNNAMED_SCOPE_ID, build_interval(3, 9, VerificationLevel.NOTHING, "")
        )
        uow.coverage.set_scope(SCOPE)
        assert list_spans_in(uow.coverage) == [(3, 9, VerificationLevel.NOTHING, "")]
        uow.coverage.set_scope(LARGER_SCOPE)
        assert uow.coverage.list_intervals(LARGER_SCOPE.id) == []
        uow.coverage.set_scope(SCOPE)
        assert uow.coverage.get_current_scope() == SCOPE
        assert uow.coverage.list_scopes() == [SCOPE, LARGER_SCOPE]


def test_scope_id_is_independent_of_order_and_case():
    mixed = IngestScope.create(
        [address(2).upper().replace("X", "x"), address(1)], [make_hash(1)], ["b", "a"]
    )
    assert mixed.id == IngestScope.create([address(1), address(2)], [make_hash(1)], ["a", "b"]).id
    assert IngestScope.from_json(mixed.to_json()) == mixed
    assert mixed.id != LARGER_SCOPE.id


puts = st.tuples(
    st.integers(0, 30),
    st.integers(0, 12),
    st.sampled_from([VerificationLevel.SEAMED, VerificationLevel.PROVEN]),
    st.sampled_from([A, B]),
)


@examples(40)
@given(steps=st.lists(st.one_of(puts, st.integers(0, 40)), max_size=12))
def test_coverage_matches_last_written_values(store: Store, steps: list[object]):
    expected: dict[int, tuple[VerificationLevel, str]] = {}
    with store.transaction() as uow:
        uow.coverage.delete_above(-1)
        for step in steps:
            if isinstance(step, tuple):
                first, more, level, endpoint = step
                uow.coverage.store_interval(
                    SCOPE.id, CoverageInterval(first, first + more, level, endpoint)
                )
                expected |= dict.fromkeys(range(first, first + more + 1), (level, endpoint))
            else:
                uow.coverage.delete_above(int(str(step)))
                expected = {n: coverage for n, coverage in expected.items() if n <= int(str(step))}
        spans = uow.coverage.list_intervals(SCOPE.id)
    coverage_by_block = {
        n: (interval.level, interval.endpoint)
        for interval in spans
        for n in range(interval.first, interval.last + 1)
    }
    assert coverage_by_block == expected
    # The minimum number of rows.
    assert all(
        (interval.last + 1, interval.level, interval.endpoint)
        != (next_interval.first, next_interval.level, next_interval.endpoint)
        for interval, next_interval in pairwise(spans)
    )


@examples(40)
@given(
    steps=st.lists(puts, max_size=8),
    ranges=st.lists(st.tuples(st.integers(0, 45), st.integers(-1, 30)), min_size=5, max_size=5),
)
def test_coverage_gaps_are_blocks_without_coverage(
    store: Store,
    steps: list[tuple[int, int, VerificationLevel, str]],
    ranges: list[tuple[int, int]],
):
    read: set[int] = set()
    with store.transaction() as uow:
        uow.coverage.delete_above(-1)
        for first, more, level, endpoint in steps:
            uow.coverage.store_interval(
                SCOPE.id, CoverageInterval(first, first + more, level, endpoint)
            )
            # Rows of another scope do not count.
            uow.coverage.store_interval(
                LARGER_SCOPE.id, CoverageInterval(first + 5, first + 5 + more, level, endpoint)
            )
            read |= set(range(first, first + more + 1))
        for first, more in ranges:
            last = first + more
            gaps = uow.coverage.list_gaps(SCOPE.id, first, last)
            gap_blocks = [number for gap in gaps for number in range(gap.first, gap.last + 1)]
            assert gap_blocks == sorted(set(range(first, last + 1)) - read)
            # No two intervals are adjacent.
            assert all(
                lower_gap.last + 1 < upper_gap.first for lower_gap, upper_gap in pairwise(gaps)
            )
            spans = uow.coverage.list_intervals(SCOPE.id, first, last)
            assert uow.coverage.find_lowest_interval(SCOPE.id, first, last) == next(
                iter(spans), None
            )


def test_oracle_contract_cannot_be_added_while_the_scope_is_unnamed(store: Store):
    stored_identity = Identity(
        1, Hash(make_hash(7)), {"TaskNetwork": Address(address(1))}, None, 0
    )
    more = replace(stored_identity, oracle=Address(address(2)))
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(stored_identity)
        uow.coverage.store_interval(
            UNNAMED_SCOPE_ID, build_interval(0, 9, VerificationLevel.NOTHING, "")
        )
        uow.identity.ensure_stored_identity(stored_identity)
        with pytest.raises(InputError, match="an older version"):
            uow.identity.ensure_stored_identity(more)
        assert uow.identity.get() == stored_identity
        uow.coverage.set_scope(SCOPE)
        uow.identity.ensure_stored_identity(more)
        assert uow.identity.get() == more
