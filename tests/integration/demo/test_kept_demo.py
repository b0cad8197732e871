"""A kept demo keeps running, and the command that it prints works when it is pasted."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from threading import Thread

import pytest

from devnet.anvil import LocalChain
from oracle.chain.decode.abi import load_abi

pytestmark = [pytest.mark.evm, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1500)]

_PATIENCE_SECONDS = 600


def addresses_of(lines: Iterator[str]) -> dict[str, str]:
    """Return the addresses printed before `the network keeps running`, by name."""
    last: deque[str] = deque(maxlen=6)
    for line in lines:
        if line.startswith("the network keeps running"):
            return {
                name: address.strip()
                for name, _, address in (shown_line.partition(" ") for shown_line in last)
            }
        last.append(line)
    raise AssertionError("\n".join(last))


@pytest.fixture(scope="module")
def addresses():
    command = [sys.executable, "-m", "oracle", "demo", "--keep", "--waves", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        try:
            yield addresses_of(iter(running.stderr.readline, ""))
        finally:
            running.send_signal(signal.SIGINT)
            # Its pipe must not fill up.
            reading = Thread(target=running.stderr.read, daemon=True)
            reading.start()
            running.wait(_PATIENCE_SECONDS)
            reading.join(_PATIENCE_SECONDS)


def test_kept_demo_starts_new_tasks(addresses):
    """The network orders tasks, and the daemon draws nodes, so the pages change."""
    chain = LocalChain(addresses["chain"])
    first = int(chain.make_request("eth_blockNumber"), 16)
    started = load_abi("TaskNetwork").get_event("TaskStarted").digest

    def is_task_started() -> bool:
        head = int(chain.make_request("eth_blockNumber"), 16)
        blocks = {"fromBlock": hex(first + 1), "toBlock": hex(head)}
        return head > first and bool(
            chain.make_request("eth_getLogs", {**blocks, "topics": [started]})
        )

    def last_folded() -> int:
        with urllib.request.urlopen(addresses["api"]) as response:  # noqa: S310 - ours
            return int(json.load(response)["as_of"]["block"])

    until = time.monotonic() + _PATIENCE_SECONDS
    while not (is_task_started() and last_folded() > first):
        assert time.monotonic() < until, "no task was started after the story"
        time.sleep(0.2)
    chain.close()


def test_printed_command_works_in_any_working_directory(addresses):
    done = subprocess.run(
        ["/bin/sh", "-c", addresses["try"]],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
