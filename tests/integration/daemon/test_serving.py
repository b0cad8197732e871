"""`qos-oracle serve` as a separate process: it serves, sends events, and stops on request."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import requests

from oracle.cli.serve_commands import NICENESS
from oracle.store.database import Store
from tests.support.api import IDENTITY_SETTINGS, IndexedHistory
from tests.support.cli.daemon import PATIENCE_SECONDS, Daemon
from tests.support.cli.local_network import write_config
from tests.support.histories import History, make_node_address


@pytest.fixture
def history() -> History:
    return History().joins("A", "B").scores("A", 10, 0, 0).scores("B", 5)


@pytest.fixture
def indexed(sqlite_url: str, history: History) -> Iterator[IndexedHistory]:
    with Store.open(sqlite_url) as store:
        yield IndexedHistory(store).whole(history)


@pytest.fixture
def server(sqlite_url, indexed, tmp_path) -> Iterator[Daemon]:
    settings = IDENTITY_SETTINGS | {
        "database": {"url": sqlite_url},
        "api": {"port": 0, "cors": ["https://example.org"]},
        "log": {"format": "json"},
    }
    config = write_config(settings, tmp_path / "config.toml")
    log = tmp_path / "serve.log"
    command = [sys.executable, "-m", "oracle", "serve", "--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            running = Daemon(process, log)
            running.url = running.wait_for("read_api_started")["api"]
            yield running
        finally:
            process.kill()


def events_of(answer: requests.Response) -> Iterator[dict[str, str]]:
    """Yield the frames of a stream that have content."""
    frame: dict[str, str] = {}
    for line in answer.iter_lines(chunk_size=1, decode_unicode=True):
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
            continue
        if frame:
            yield frame
        frame = {}


def listening(server: Daemon, **headers: str) -> requests.Response:
    return requests.get(
        f"{server.url}/v1/events", headers=headers, stream=True, timeout=PATIENCE_SECONDS
    )


def test_server_runs_without_an_endpoint_or_a_lease(server, indexed):
    answer = server.get("/v1/nodes")
    assert answer.status_code == 200
    assert answer.json()["counts"]["excluded"] == 1
    with indexed.store.read_transaction() as uow:
        assert uow.lease.get_state().epoch == 0
    own_niceness = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, server.process.pid) == min(19, own_niceness + NICENESS)


@pytest.mark.slow
def test_event_stream_resumes_after_last_event_id(server):
    with listening(server, **{"Last-Event-ID": "0-0-0-0"}) as answer:
        frames = [frame for _, frame in zip(range(3), events_of(answer), strict=False)]
    assert [frame.get("event") for frame in frames] == [None, "joined", "joined"]
    with listening(server, **{"Last-Event-ID": frames[1]["id"]}) as answer:
        again = next(frame for frame in events_of(answer) if "event" in frame)
    assert (again["id"], again["data"]) == (frames[2]["id"], frames[2]["data"])


@pytest.mark.slow
def test_event_stream_delivers_new_events(server, indexed, history):
    with listening(server) as answer:
        frames = events_of(answer)
        # The stream's first cursor, so that no earlier event is sent.
        assert next(frame for frame in frames if "id" in frame)
        done = len(history.events)
        history.after(30).starts("late", "B").after(9).times_out("late")
        indexed.index(history.events[done:], history.block, history.time)
        heard = [frame["event"] for _, frame in zip(range(2), frames, strict=False)]
    # A's exclusion ended between the two blocks, without a log.
    assert heard == ["recovered", "timed_out"]


@pytest.mark.slow
def test_oversized_body_does_not_block_other_requests(server):
    large = requests.post(f"{server.url}/v1/select", data=b"x" * 20_000, timeout=PATIENCE_SECONDS)
    assert large.status_code == 413
    assert server.get("/v1/status").status_code == 200


@pytest.mark.slow
def test_select_returns_candidates_with_their_chances(server):
    answer = requests.post(f"{server.url}/v1/select", json={}, timeout=PATIENCE_SECONDS).json()
    chances = {row["node"]: row["chance"] for row in answer["nodes"] if row["candidate"]}
    assert chances[make_node_address("B")] is not None
    assert answer["candidates"] == len(chances)


@pytest.mark.slow
def test_server_stops_immediately_on_sigterm(server):
    server.process.send_signal(signal.SIGTERM)
    started_at = time.monotonic()
    assert server.process.wait(PATIENCE_SECONDS) in {0, 128 + signal.SIGTERM}
    assert time.monotonic() - started_at < PATIENCE_SECONDS
