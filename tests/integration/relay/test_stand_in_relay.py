"""The simulated relay answers like a real one, and is wrong only where a test sets it."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from devnet.relay.relay_history import RelayHistory, iter_record_lines, parse_record
from devnet.relay.stand_in_relay import RelayFault, StandInRelay
from oracle.chain.feed.feed_client import FeedClient, FeedResponseError
from oracle.chain.feed.relay_reader import find_unreadable_reason
from oracle.errors import InputError
from tests.integration.relay.watched_relay import START, WatchedRelay, history_of, rows_of

# The field names of one row of each response, as of the relay of 2026-08.
ROW = {"id", "type", "node_address", "task_id_commitment", "args"}
# Orders end after half an hour, and what runs then within four minutes.
END = START + 2040
FIGURES = {
    "address", "network", "card_model", "v_ram", "staking", "qos_score", "staking_score",
    "prob_weight",
}  # fmt: skip


@pytest.fixture(scope="module")
def history() -> RelayHistory:
    return history_of(1800)


@pytest.fixture
def relay(history: RelayHistory) -> StandInRelay:
    return StandInRelay(history, lambda: float(END))


@pytest.fixture
def watched(history: RelayHistory) -> WatchedRelay:
    return WatchedRelay(history, float(END))


@pytest.fixture
def client(watched: WatchedRelay) -> Iterator[FeedClient]:
    with watched.served() as url, closing(FeedClient(url, "url", 5, 1 << 20)) as feed_client:
        yield feed_client


def get_data(relay: StandInRelay, target: str) -> Any:
    answer = relay.handle_get(target)
    assert answer.status == 200
    body = json.loads(answer.body)
    assert body["message"] == "success"
    return body["data"]


def test_event_page_lists_rows_after_the_id_in_ascending_order(relay: StandInRelay):
    rows = get_data(relay, "/v1/events?start=7&limit=20")

    assert [row["id"] for row in rows] == list(range(8, 28))
    assert set(rows[0]) == ROW
    assert isinstance(json.loads(rows[0]["args"]), dict)


def test_default_page_has_fifty_rows(relay: StandInRelay):
    assert len(get_data(relay, "/v1/events")) == 50


def test_event_type_filter_returns_500_like_the_real_relay(relay: StandInRelay):
    assert relay.handle_get("/v1/events?event_type=NodeJoin").status == 500


def test_malformed_number_returns_validation_error(relay: StandInRelay):
    answer = relay.handle_get("/v1/events?start=x")

    assert answer.status == 400
    assert json.loads(answer.body)["message"] == "validation_error"


def test_pages_of_the_node_list_are_numbered_from_1(relay: StandInRelay):
    pages = [
        get_data(relay, f"/v2/network/nodes/data?page={page}&page_size=4") for page in (1, 2, 3)
    ]

    assert [len(page) for page in pages] == [4, 4, 1]
    assert set(pages[0][0]) == FIGURES
    assert relay.handle_get("/v2/network/nodes/data?page=1&page_size=101").status == 400


def test_unknown_node_has_status_zero(relay: StandInRelay):
    assert get_data(relay, "/v1/node/0x" + "99" * 20)["status"] == 0


def test_task_starts_of_last_hour_are_listed(relay: StandInRelay, history: RelayHistory):
    lines = relay.handle_get("/v1/stats/node_events").body.decode().splitlines()

    kinds = Counter(line.split("] [")[1] for line in lines)
    rows = Counter(timed_row.row.type for timed_row in history.rows)
    assert kinds["Node selected"] == rows["TaskStarted"]


def test_every_row_is_readable_by_daemon(history: RelayHistory):
    assert [
        reason for row in rows_of(history) if (reason := find_unreadable_reason(row)) is not None
    ] == []


def test_same_plan_produces_same_rows(history: RelayHistory):
    assert history_of(1800).rows == history.rows


def test_feed_client_reads_every_committed_row(client: FeedClient, history: RelayHistory):
    assert list(client.poll(0, 100).rows) == rows_of(history)
    assert client.fetch_newest_row_id() == len(history.rows)
    assert client.fetch_feed_time() == END


@pytest.mark.parametrize("fault", [RelayFault.SILENT, RelayFault.CUT])
def test_unresponsive_relay_raises_error(
    watched: WatchedRelay, client: FeedClient, fault: RelayFault
):
    watched.faults.switch_on(fault)
    with pytest.raises(FeedResponseError):
        client.poll(0, 100)

    watched.faults.switch_off(fault)
    assert client.poll(0, 100).rows


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (RelayFault.LATE_ROW, [19, 21]),
        (RelayFault.VANISHED_ROW, [19, 21]),
        (RelayFault.RETENTION, [21]),
        (RelayFault.WENT_BACK, [19, 20]),
        (RelayFault.FROZEN, [19, 20]),
        (RelayFault.CHANGED_ROW, [19, 20, 21]),
    ],
)
def test_row_fault_can_be_enabled_and_disabled(
    watched: WatchedRelay, client: FeedClient, fault: RelayFault, shown: list[int]
):
    true = client.poll(18, 3, max_pages=1).rows
    watched.faults.switch_on(fault, 20)
    polled_rows = client.poll(18, 3, max_pages=1).rows
    assert [row.id for row in polled_rows if row.id <= 21] == shown
    assert (polled_rows[: len(true)] == true) is False

    watched.faults.switch_off(fault)
    assert client.poll(18, 3, max_pages=1).rows == true


def test_row_with_malformed_json_is_reported_as_unreadable(
    watched: WatchedRelay, client: FeedClient
):
    watched.faults.switch_on(RelayFault.BAD_ROW, 20)
    (row,) = client.poll(19, 1, max_pages=1).rows

    assert find_unreadable_reason(row) == "args: must be valid JSON"


def test_recorded_relay_history_is_replayed_identically(history: RelayHistory):
    polls = [START + 600.0, START + 1200.0]
    record = parse_record(iter_record_lines(history.rows, history, polls))

    for time in (START, *polls):
        assert record.list_rows(time) == history.list_rows(time)
    assert record.list_nodes(START + 601) == history.list_nodes(polls[0])
    assert record.list_nodes(START + 5000) == history.list_nodes(polls[1])


def test_record_with_a_malformed_line_is_rejected(history: RelayHistory):
    lines = [*iter_record_lines(history.rows[:2], history, []), '{"t": 1}']
    with pytest.raises(InputError, match="line 3 of the record"):
        parse_record(lines)


def test_cross_origin_requests_are_allowed(watched: WatchedRelay):
    with watched.served() as url, urllib.request.urlopen(f"{url}/v1/now") as answer:  # noqa: S310 - our own
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
