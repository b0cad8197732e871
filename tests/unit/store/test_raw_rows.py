"""Logs and calls are appended once; orphans are kept, and nothing is deleted."""

from dataclasses import replace

import pytest

from oracle.domain.logs import Call, Log
from oracle.store.database import Store
from oracle.store.raw import log_repository
from tests.unit.store.samples import call, log, make_hash


def test_logs_round_trip(store: Store):
    logs = [log(1), log(1, 2, topics=(), data="0x"), log(2, 0, topics=(make_hash(9),) * 4)]
    with store.transaction() as uow:
        assert uow.logs.append(logs) == 3
        assert list(uow.logs.iterate_between(0, 9)) == logs


def test_calls_round_trip(store: Store):
    calls = [call(1), call(1, 2, value=0, input="0x1234", succeeded=False), call(2)]
    with store.transaction() as uow:
        assert uow.calls.append(calls) == 3
        assert list(uow.calls.iterate_between(0, 9)) == calls


def test_duplicate_window_is_stored_once(store: Store):
    window = [log(number, index) for number in range(5) for index in range(20)]
    with store.transaction() as uow:
        assert uow.logs.append(window) == 100
        assert uow.logs.append(window[:70]) == 0
        assert uow.logs.append([*window, log(5)]) == 1
        assert uow.logs.count() == 101


def test_replace_updates_many_logs(store: Store):
    window = [log(number, index) for number in range(5) for index in range(20)]
    corrected = [replace(stored_log, tx_hash=make_hash(9)) for stored_log in window[20:]]
    with store.transaction() as uow:
        uow.logs.append(window[:80])
        uow.logs.replace(corrected)
        assert list(uow.logs.iterate_between(0, 9)) == [*window[:20], *corrected]


def test_logs_are_ordered_by_block_and_index(store: Store):
    window = [log(number, index) for number in range(3, 6) for index in range(3)]
    with store.transaction() as uow:
        uow.logs.append(window[::-1])
        assert list(uow.logs.iterate_between(4, 5)) == window[3:]


@pytest.mark.parametrize("page", [1, 2, 5, 1000])
def test_page_size_of_reads_does_not_change_the_returned_logs(
    store: Store, page: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_repository, "PAGE_ROWS", page)
    window = [log(number, index) for number in range(4) for index in range(4)]
    with store.transaction() as uow:
        uow.logs.append(window)
        assert list(uow.logs.iterate_between(1, 2)) == window[4:12]


def test_rows_can_be_written_while_others_are_iterated(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_repository, "PAGE_ROWS", 3)
    with store.transaction() as uow:
        uow.logs.append([log(number) for number in range(10)])
        for stored_log in uow.logs.iterate_between(0, 9):
            uow.calls.append([call(stored_log.block)])
        assert uow.calls.count() == 10


def test_orphaned_logs_are_kept_beside_replacements(store: Store):
    old = [log(5), log(6)]
    new = [log(6, branch=1), log(7, branch=1)]
    with store.transaction() as uow:
        uow.logs.append(old)
        assert uow.logs.orphan_above(5) == 1
        uow.logs.append(new)
        assert list(uow.logs.iterate_between(0, 9)) == [log(5), *new]
        assert list(uow.logs.iterate_between(0, 9, canonical=False)) == [log(6)]
        assert (uow.logs.count(), uow.logs.count(canonical=False)) == (3, 1)


def test_transaction_hashes_are_those_of_stored_canonical_logs(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_repository, "KEYS_PER_QUERY", 2)
    logs = [log(block, index) for block in (3, 4) for index in (0, 7)]
    with store.transaction() as uow:
        uow.logs.append([*logs, log(5)])
        uow.logs.orphan_above(4)
        places = [(entry.block, entry.index) for entry in logs[1:]]
        hashes = uow.logs.get_transaction_hashes([*places, (3, 1), (5, 0), (6, 0)])

    assert hashes == dict(zip(places, [entry.tx_hash for entry in logs[1:]], strict=True))


def test_orphaned_log_becomes_canonical_when_appended_again(store: Store):
    with store.transaction() as uow:
        uow.logs.append([log(6), log(7)])
        uow.logs.orphan_above(5)
        assert uow.logs.append([log(6), log(8)]) == 2
        assert [stored_log.block for stored_log in uow.logs.iterate_between(0, 9)] == [6, 8]


def test_calls_are_orphaned_like_logs(store: Store):
    with store.transaction() as uow:
        uow.calls.append([call(5), call(6)])
        assert uow.calls.orphan_above(5) == 1
        assert uow.calls.append([call(6, branch=1)]) == 1
        assert list(uow.calls.iterate_between(0, 9)) == [call(5), call(6, branch=1)]


def test_corrected_rows_are_replaced_or_orphaned(store: Store):
    with store.transaction() as uow:
        uow.logs.append([log(1), log(2)])
        uow.logs.replace([replace(log(1), data="0x77")])
        uow.logs.orphan([log(2)])
        assert list(uow.logs.iterate_between(0, 9)) == [replace(log(1), data="0x77")]
        assert list(uow.logs.iterate_between(0, 9, canonical=False)) == [log(2)]


def test_last_block_counts_canonical_rows_only(store: Store):
    with store.transaction() as uow:
        assert uow.logs.find_highest_block() is None
        uow.logs.append([log(3), log(4)])
        uow.logs.orphan_above(3)
        assert uow.logs.find_highest_block() == 3


@pytest.mark.parametrize("number", [1, 49, 50, 51, 400])
def test_append_of_any_size_stores_every_row_once(store: Store, number: int):
    logs = [log(index // 7, index % 7, branch=index // 7 % 2) for index in range(number)]
    calls = [call(index // 7, index % 7) for index in range(number)]
    with store.transaction() as uow:
        assert uow.logs.append(logs[: number // 2]) == number // 2
        assert uow.logs.append(logs) == number - number // 2
        assert uow.calls.append(calls) == number
        assert sorted(uow.logs.iterate_between(0, 99), key=_place) == sorted(logs, key=_place)
        assert list(uow.calls.iterate_between(0, 99)) == calls


def _place(entry: Log) -> tuple[int, int, str]:
    return entry.block, entry.index, entry.block_hash


def test_existing_row_is_not_overwritten_by_append(store: Store):
    with store.transaction() as uow:
        uow.calls.append([call(1)])
        uow.calls.append([replace(call(1), succeeded=False)])
        (stored_call,) = uow.calls.iterate_between(1, 1)
    assert isinstance(stored_call, Call)
    assert stored_call.succeeded


def test_orphaned_call_is_replaced_when_appended_again(store: Store):
    lie = call(1, value=1)
    true = call(1, value=2)
    with store.transaction() as uow:
        uow.calls.append([lie])
        uow.calls.orphan([lie])
        assert uow.calls.append([true]) == 1
        assert list(uow.calls.iterate_between(0, 9)) == [true]
