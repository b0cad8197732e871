"""Each event is sent once and in order despite reconnects, and withdrawn after a reorg."""

import asyncio
import re
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings as examples, strategies as st

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.event_stream import EventFilter, EventStreams
from oracle.domain.reports.contract_state import ContractChanges
from oracle.queries.api.records import event_feed
from oracle.queries.api.records.event_feed import (
    EventCursor,
    get_newest_event_cursor,
    load_events_since,
)
from oracle.queries.api.source import RequestError, open_snapshot
from oracle.store.halts import Halt, HaltClearRecord, HaltRepository
from oracle.store.raw.block_repository import Reorg
from tests.support.api import IndexedHistory, make_block
from tests.support.histories import History, make_node_address
from tests.support.rounds import build_accepted_round

BEGINNING = EventCursor(0, 0, 0, 0)
T = TypeVar("T")


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new thread, because the browser's tests leave a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def a_history() -> History:
    """Return a history with two exclusions, one of which ends by waiting,
    and pauses of all lengths.
    """
    history = History().joins("A", "B")
    history.scores("A", 10, 0, 0, 0).after(3_000).scores("B", 0, 0, 10, 0)
    return history.after(1).scores("A", 10).after(20_000)


def read(indexed, place, max_events=500):
    with open_snapshot(indexed.source) as snapshot:
        return load_events_since(snapshot, place, max_events)


def all_of(indexed, max_events=500):
    place, events = BEGINNING, []
    while page := read(indexed, place, max_events):
        events += [feed_event.event for feed_event in page]
        place = page[-1].cursor_after
    return events


@pytest.fixture
def indexed(store):
    return IndexedHistory(store).whole(a_history())


def test_event_feed_contains_timeouts_and_the_recovery(indexed):
    kinds = [event.kind for event in all_of(indexed) if event.node == make_node_address("A")]
    assert kinds[0] == "joined"
    assert kinds.count("timed_out") == 3
    assert kinds[-1] == "recovered"


def test_membership_changes_are_reported_when_they_take_effect(store):
    history = History().joins("A").after(5).starts("1", "A").asks_to_pause("A").after(5)
    history.submits("1").succeeds("1").after(5).resumes("A").after(5)
    for leaves in (History.quits, History.is_slashed, History.is_kicked_out):
        leaves(history, "A").after(5).joins("A").after(5)
    events = all_of(IndexedHistory(store).whole(history))
    assert [(event.kind, event.text, event.node) for event in events] == [
        ("joined", "joined", make_node_address("A")),
        ("paused", "paused", make_node_address("A")),
        ("resumed", "resumed", make_node_address("A")),
        *(
            (kind, text, make_node_address("A"))
            for departure_text in ("quit", "was slashed", "was kicked out")
            for kind, text in (("left", departure_text), ("joined", "joined"))
        ),
    ]


def test_recovery_event_is_dated_to_the_end_of_the_exclusion(indexed):
    events = [event for event in all_of(indexed) if event.node == make_node_address("A")]
    last_timeout = [event for event in events if event.kind == "timed_out"][-1]
    recovered = [event for event in events if event.kind == "recovered"][-1]
    assert recovered.time == last_timeout.excluded_until


def test_event_times_are_non_decreasing(indexed):
    times = [event.time for event in all_of(indexed)]
    assert times == sorted(times)


@pytest.mark.parametrize("page_size", [1, 2, 7])
def test_paginated_feed_returns_each_event_once(indexed, page_size):
    assert all_of(indexed, page_size) == all_of(indexed)


def test_feed_from_newest_cursor_returns_no_events(indexed):
    with open_snapshot(indexed.source) as snapshot:
        assert load_events_since(snapshot, get_newest_event_cursor(snapshot), 500) == []


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cuts=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_event_feed_does_not_depend_on_block_batches(new_sqlite_store, cuts):
    history = a_history()
    with new_sqlite_store() as full_store, new_sqlite_store() as parted:
        expected = all_of(IndexedHistory(full_store).whole(history))
        following = IndexedHistory(parted)
        place, read_events = BEGINNING, []
        blocks = sorted({event.at.block for event in history.events} | {history.block})
        for block in [*blocks[cuts[0] :: cuts[-1]], history.block]:
            indexed_block = following.fold.last.at.block if following.fold.last else 0
            events = [event for event in history.events if indexed_block < event.at.block <= block]
            time = history.time if block == history.block else (events or history.events)[-1].time
            following.index(events, block, time)
            page = read(following, place)
            read_events += [feed_event.event for feed_event in page]
            place = page[-1].cursor_after if page else place
        assert read_events == expected


def test_reorg_event_precedes_events_of_new_blocks(indexed):
    with open_snapshot(indexed.source) as snapshot:
        place = get_newest_event_cursor(snapshot)
        cursor = snapshot.cursor
    ancestor = make_block(1, 1_000)
    reorg = Reorg(1, ancestor.hash, cursor.number, cursor.hash, None, None, cursor.time, (), 9)
    with indexed.store.transaction() as uow:
        uow.blocks.save([ancestor])
        uow.reorgs.append(reorg)
    page = read(indexed, place)
    assert (page[0].event.kind, page[0].event.block) == ("reorg", 1)
    joined = {feed_event.event.kind for feed_event in page[1:]} & {"joined"}
    assert joined == set()
    assert len(page) > 1
    assert read(indexed, page[-1].cursor_after) == []


def open_halt(indexed):
    with indexed.store.transaction() as uow:
        uow.halts.open_halt(
            "finality_violation", "block 9 changed", since_block=9, since_time=1_000
        )


def clear_halt(indexed):
    with indexed.store.transaction() as uow:
        uow.halts.clear("finality_violation", HaltClearRecord(2_000, "operator@host", "ticket 12"))


def test_halt_is_reported_when_it_begins_and_when_it_ends(indexed):
    with open_snapshot(indexed.source) as snapshot:
        before = get_newest_event_cursor(snapshot)
    open_halt(indexed)
    (begun,) = read(indexed, before)
    clear_halt(indexed)
    (over,) = read(indexed, begun.cursor_after)
    assert (begun.event.kind, over.event.kind) == ("halted", "halt_cleared")
    assert (begun.event.time, over.event.time) == (1_000, 2_000)
    assert "operator" not in over.event.text + begun.event.text
    open_halt(indexed)
    again = [feed_event.event.kind for feed_event in read(indexed, before)]
    assert again == ["halted", "halt_cleared", "halted"]
    assert [feed_event.event.kind for feed_event in read(indexed, over.cursor_after)] == ["halted"]


@pytest.mark.parametrize("page_size", [1, 2, 3, 500])
def test_every_halt_is_reported_once_with_any_page_size(indexed, page_size):
    with open_snapshot(indexed.source) as snapshot:
        place = get_newest_event_cursor(snapshot)
    for _ in range(6):
        open_halt(indexed)
        clear_halt(indexed)
    open_halt(indexed)
    kinds = []
    while page := read(indexed, place, page_size):
        kinds += [feed_event.event.kind for feed_event in page]
        place = page[-1].cursor_after
    assert kinds == [*["halted", "halt_cleared"] * 6, "halted"]
    with open_snapshot(indexed.source) as snapshot:
        assert get_newest_event_cursor(snapshot) == place


def test_halts_are_read_in_bounded_batches(indexed, monkeypatch):
    limits: list[int] = []
    list_halts = HaltRepository.list_halts

    def count_rows(halts: HaltRepository, offset: int, limit: int) -> list[Halt]:
        limits.append(limit)
        return list_halts(halts, offset, limit)

    monkeypatch.setattr(HaltRepository, "list_halts", count_rows)
    open_halt(indexed)
    read(indexed, BEGINNING, 7)
    assert limits == [7]


def with_rounds(indexed, times):
    """Accept a round in each block from 2 on, at these times."""
    rounds = [build_accepted_round(number, time=time) for number, time in enumerate(times, 2)]
    with indexed.store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(accepted=rounds))


def test_every_round_is_reported_once_even_beyond_the_query_limit(store, monkeypatch):
    history = History().joins("A").after(9_000, blocks=60)
    indexed = IndexedHistory(store).whole(history)
    # Rounds of one second, of consecutive seconds, and after a pause.
    times = [1_100] * 9 + list(range(1_101, 1_121)) + [5_000] * 4 + [9_000]
    with_rounds(indexed, times)
    monkeypatch.setattr(event_feed, "_MAX_ROUNDS", 3)
    for page_size in (1, 4, 500):
        numbers = [
            int(event.text.split()[1])
            for event in all_of(indexed, page_size)
            if event.kind == "report_accepted"
        ]
        assert numbers == list(range(2, 2 + len(times)))


def test_event_feed_does_not_depend_on_the_query_limit(indexed, monkeypatch):
    expected = all_of(indexed)
    monkeypatch.setattr(event_feed, "_MAX_CHANGES", 1)
    assert all_of(indexed) == expected
    with open_snapshot(indexed.source) as snapshot:
        assert load_events_since(snapshot, get_newest_event_cursor(snapshot), 500) == []


def test_event_stream_reports_halt_without_new_blocks(indexed):
    """No cursor moves in that case, but all streams together wait for one."""
    streams = EventStreams(indexed.source, ApiSection())

    async def read_after_changes() -> list[list[bytes]]:
        place = await streams.get_newest_cursor()
        kinds: list[list[bytes]] = []
        for act in (lambda _: None, open_halt, clear_halt):
            act(indexed)
            await streams.check_for_change()
            batch = await streams.read_events_since(place)
            kinds.append(
                re.findall(rb"event: (\w+)", batch.encode_frames(EventFilter(None, None)))
            )
            place = batch.after
        return kinds

    assert run_coroutine(read_after_changes()) == [[], [b"halted"], [b"halt_cleared"]]


def test_database_is_read_once_for_all_stream_clients(indexed):
    reads: list[int] = []

    def counted() -> int:
        reads.append(1)
        return int(indexed.source.clock())

    streams = EventStreams(replace(indexed.source, clock=counted), ApiSection())

    async def read_after_changes() -> int:
        place = await streams.get_newest_cursor()
        await streams.check_for_change()
        await streams.read_events_since(place)
        reads.clear()

        async def count_halts() -> int:
            await streams.wait_for_change(streams.epoch, 60)
            return (
                (await streams.read_events_since(place))
                .encode_frames(EventFilter(None, None))
                .count(b"event: halted")
            )

        listeners = [asyncio.create_task(count_halts()) for _ in range(50)]
        await asyncio.sleep(0)
        open_halt(indexed)
        await streams.check_for_change()
        assert await asyncio.gather(*listeners) == [1] * 50
        return len(reads)

    # One read for the cursor, and one for the new events.
    assert run_coroutine(read_after_changes()) == 2


def test_etag_changes_when_a_halt_begins_and_ends(indexed):
    client = indexed.client()
    tags = []
    for act in (lambda _: None, open_halt, clear_halt):
        act(indexed)
        answer = client.get("/v1/network")
        tags.append(answer.headers["etag"])
        assert answer.json()["halted"] is (act is open_halt)
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("text", ["", "1", "1-2-3", "a-b-c-d", "-1-0-0-0", "1-1-1-1\n"])
def test_malformed_last_event_id_is_rejected(text):
    with pytest.raises(RequestError, match="Last-Event-ID"):
        EventCursor.parse(text)
