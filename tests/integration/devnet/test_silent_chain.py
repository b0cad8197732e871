"""If the local chain hangs or dies, devnet and demo end with one line and leave no process."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from devnet import anvil as anvil_module
from devnet.anvil import LocalChain, run_anvil
from oracle.errors import FatalError
from tests.integration.reporters.waiting import wait_until

pytestmark = pytest.mark.evm


def children():
    """Return the process ids and names of all child processes."""
    lines = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, stat_text = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if int(stat_text.split()[1]) == os.getpid():
            lines[int(path.parent.name)] = name
    return lines


@pytest.fixture
def chain(monkeypatch):
    monkeypatch.setattr(anvil_module, "_REQUEST_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(anvil_module, "_STOP_TIMEOUT_SECONDS", 0.3)
    before = children()
    with run_anvil(port=0, accounts=1, start_time=1_800_000_000) as url:
        chain = LocalChain(url)
        (process,) = children().keys() - before.keys()
        yield chain, process
        chain.close()
    assert process not in children()


def has_stopped(process: int) -> bool:
    """Return whether SIGSTOP has reached every thread of a process."""
    stats = [path.read_text() for path in Path(f"/proc/{process}/task").glob("[0-9]*/stat")]
    return all(stat_text.rpartition(")")[2].split()[0] == "T" for stat_text in stats)


def test_hanging_chain_is_stopped_with_a_one_line_error(chain):
    local_chain, process = chain
    os.kill(process, signal.SIGSTOP)
    # A thread that runs on another processor could still respond.
    wait_until(partial(has_stopped, process), "Anvil to stop")

    with pytest.raises(
        FatalError, match=r"no response from Anvil within 0.3 s; .*run the command again"
    ) as error:
        local_chain.make_request("eth_blockNumber")

    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ask", ["ask", "refusal"])
def test_chain_that_exits_raises_a_one_line_error(chain, ask):
    local_chain, process = chain
    os.kill(process, signal.SIGKILL)

    with pytest.raises(FatalError, match="Anvil has exited; run the command again") as error:
        local_chain.fetch_revert_data({}) if ask == "refusal" else local_chain.make_request(
            "eth_blockNumber"
        )

    assert "\n" not in str(error.value)
