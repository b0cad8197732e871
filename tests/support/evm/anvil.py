"""Starts Anvil's native binary on a free port; nothing is written to the disk."""

import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[3]
LISTENING = "Listening on "

# More blocks than any test makes: a reorg below the pruned history would silently lose state.
KEPT_BLOCKS = 20_000


def find_anvil() -> Path:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"anvil-{platform.system().lower()}-{machine}"
    return ROOT / "node_modules" / "@foundry-rs" / package / "bin" / "anvil"


@contextmanager
def run_anvil(*flags: str) -> Iterator[str]:
    """Run a new chain and yield its URL.

    Blocks are mined by `evm_mine`, unless flags change this.
    """
    with tempfile.TemporaryDirectory(prefix="anvil-") as cache:
        command = [str(find_anvil()), "--port", "0", "--prune-history", str(KEPT_BLOCKS)]
        command += ["--cache-path", cache, *(flags or FREE_BY_HAND)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            try:
                url = f"http://{_read_url(running)}"
                _drain_output(url)
                yield url
            finally:
                running.terminate()


# No block without a request. Gas costs nothing, so balances are exact.
FREE_BY_HAND = ("--no-mining", "--gas-price", "0", "--block-base-fee-per-gas", "0")


def build_minute_start_flags() -> tuple[str, str]:
    """Return the flags that set the first block's time to the start of a minute, as of a period.

    Otherwise a period might end in the middle of any test.
    """
    now = int(time.time())  # noqa: TID251  as Anvil itself would begin
    return "--timestamp", str(now // 60 * 60)


def _drain_output(url: str) -> None:
    """Drain the output; once the pipe is full, Anvil would stop in the middle of a request."""
    call = {"jsonrpc": "2.0", "id": 0, "method": "anvil_setLoggingEnabled", "params": [False]}
    requests.post(url, json=call, timeout=120).raise_for_status()


def _read_url(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith(LISTENING):
            return line.removeprefix(LISTENING).strip()
    raise RuntimeError(f"Anvil ended with {running.wait()} before it listened")
