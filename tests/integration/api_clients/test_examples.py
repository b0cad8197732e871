"""The programs of `examples/`, run as documented against a live server."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue

import pytest
import requests

from devnet.anvil import find_free_port
from tests.support.api import IndexedHistory
from tests.support.cli.daemon import PATIENCE_SECONDS
from tests.support.histories import History, make_node_address

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
CLIENT = {"PYTHONPATH": str(ROOT / "clients" / "python")}
MAX_LINES = 60


@contextmanager
def running(name: str, *arguments: str, folder: Path) -> Iterator[None]:
    """Run an example in a folder, and stop it at the end."""
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    with subprocess.Popen(command, cwd=folder, env=CLIENT) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.fixture
def webhook() -> Iterator[tuple[str, "Queue[str]"]]:
    """Yield the address of a webhook, and the list of texts that it receives."""
    texts: Queue[str] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            texts.put(json.loads(body)["text"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", texts
        server.shutdown()


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_bot_posts_events_of_its_nodes_across_a_restart(
    url: str,
    indexed: IndexedHistory,
    history: History,
    webhook: tuple[str, "Queue[str]"],
    tmp_path: Path,
):
    def index_timeouts(*names: str) -> None:
        done = len(history.events)
        for name in names:
            task = f"late {name} {done}"
            history.after(30).starts(task, name).after(9).times_out(task)
        indexed.index(history.events[done:], history.block, history.time)

    hook, texts = webhook
    (tmp_path / "owner_bot.last").write_text("0-0-0-0", "utf-8")
    arguments = ("owner_bot.py", url, hook, make_node_address("C"))
    index_timeouts("A", "C")
    with running(*arguments, folder=tmp_path):
        first = texts.get(timeout=PATIENCE_SECONDS)
        wait_until(lambda: (tmp_path / "owner_bot.last").read_text("utf-8") != "0-0-0-0")
    index_timeouts("C", "A")
    with running(*arguments, folder=tmp_path):
        posted = [first]
        while sum(text.startswith("timed_out") for text in posted) < 2:
            posted.append(texts.get(timeout=PATIENCE_SECONDS))
    assert all(make_node_address("C") in text for text in posted)


def test_page_lists_own_nodes_with_state_and_escapes_names(
    url: str, indexed: IndexedHistory, history: History, tmp_path: Path
):
    done = len(history.events)
    history.joins("D", gpu_name="<script>alert(1)</script>")
    indexed.index(history.events[done:], history.block, history.time)
    port = find_free_port()
    page = f"http://127.0.0.1:{port}"
    with running(
        "my_nodes.py",
        url,
        str(port),
        make_node_address("A"),
        make_node_address("D"),
        folder=tmp_path,
    ):
        wait_until(lambda: is_listening(page))
        text = requests.get(page, timeout=PATIENCE_SECONDS).text
    assert make_node_address("A") in text
    assert make_node_address("B") not in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text


def is_listening(page: str) -> bool:
    try:
        return requests.get(page, timeout=PATIENCE_SECONDS).ok
    except requests.ConnectionError:
        return False


def test_every_example_is_short():
    lengths = {
        path.name: len(path.read_text("utf-8").splitlines())
        for path in (ROOT / "examples").glob("*.py")
    }
    assert lengths
    assert {name for name, lines in lengths.items() if lines > MAX_LINES} == set()
