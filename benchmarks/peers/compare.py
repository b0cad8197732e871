"""Compare `run --once` with other indexers: the same chain, wall clock, CPU of all processes.

Run: .venv/bin/python benchmarks/peers/compare.py [--events 100000] [--rounds 3] [--only eth-defi]
     [--first-row]
Each peer is set up as its own documentation describes (see the folders beside this file), with
locked versions in an environment of its own under build/peers/. A peer that cannot be installed is
skipped with the reason. All indexers read the same valid blocks from a process that serves them
from memory, in turn, first on one processor (`taskset -c 0`) and then on two. CPU time is that of
the command and of every process that it started and waited for. A run counts only if it stored
every event.

Before that, qos-oracle and eth-defi index a chain of 200 events on one processor. Such a run takes
hardly longer than the start of the process and the commit of the first row. With --first-row, only
these runs are measured.

What the indexers do differs: qos-oracle with every proof verifies receipts roots and blooms,
derives scores and keeps what a reorg needs; eth-defi's reader writes a CSV line for each log;
ponder and subsquid write a row for each event, and derive nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import socket
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.compare_commits import MODES, Mode  # noqa: E402
from benchmarks.ordinary_traffic import iterate_block_logs  # noqa: E402
from benchmarks.outcome import begin_benchmark, build_command_environment, describe_machine  # noqa: E402
from benchmarks.peers.environments import (  # noqa: E402
    ENVIRONMENTS,
    PEERS_FOLDER,
    PeerUnavailableError,
    install_npm_project,
    install_python_requirements,
    run_installer,
)
from benchmarks.segments import CHAIN_ID  # noqa: E402
from benchmarks.verify import serve_valid_chain  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

ABI_FILE = ROOT / "abi" / "TaskNetwork.json"
_PROCESSORS = {1: "0", 2: "0,1"}
# A server that takes longer to index everything is stopped, and its run does not count.
_MAX_SECONDS = 900
_POLL_SECONDS = 0.05
# Ponder treats a block as historical only if it is more than 30 below the newest one, so this many
# empty blocks follow.
_EMPTY_BLOCKS = 40
_SUBSQUID_CONFIRMATIONS = 10
_PEERS = ("eth-defi", "ponder", "subsquid")
_FIRST_ROW_EVENTS, _FIRST_ROW_PEER = 200, "eth-defi"


@dataclass(frozen=True)
class Cost:
    """The cost of one complete run, and the number of events that it stored."""

    seconds: float
    cpu_seconds: float
    events: int


@dataclass(frozen=True)
class Indexer:
    """An indexer: its name and versions, and the function that runs it.

    `run` gets the chain's URL, an empty folder and the command prefix that chooses processors.
    """

    name: str
    run: Callable[[str, Path, list[str]], Cost]


def measure_command(
    command: list[str | Path],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    is_done: Callable[[], bool] | None = None,
) -> tuple[float, float]:
    """Run a command; return its wall-clock seconds and the CPU seconds of its process tree.

    If `is_done` is given, the command is a server: it is polled until it is done, and then ended.

    Raises:
        PeerUnavailableError: the command failed; the message has the last lines of its output.
    """
    output_file = folder / "output.txt"
    start = time.perf_counter()
    with output_file.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    while is_done is not None and not is_done():
        if time.perf_counter() - start > _MAX_SECONDS or os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            process.terminate()
            break
        time.sleep(_POLL_SECONDS)
    seconds = time.perf_counter() - start
    if is_done is not None:
        process.terminate()
    # The usage includes that of the command's descendants for which it has waited.
    _, status, usage = os.wait4(process.pid, 0)
    if is_done is None:
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 and is_done is None:
        lines = output_file.read_text("utf-8", "replace").strip().splitlines()
        raise PeerUnavailableError(f"exit code {process.returncode}: {' / '.join(lines[-3:])}")
    return seconds, usage.ru_utime + usage.ru_stime


def run_qos_oracle(mode: Mode, chain_url: str, folder: Path, prefix: list[str]) -> Cost:
    """Index the chain with `run --once` into a new SQLite database."""
    config = folder / "config.toml"
    config.touch(0o600)
    config.write_text(
        f'[database]\nurl = "sqlite:///{folder}/oracle.db"\n'
        f'[chain]\nid = {CHAIN_ID}\nendpoints = ["{chain_url}"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "{NETWORK}" }}\n{mode.verify_section}',
        "utf-8",
    )
    environment = build_command_environment(ENVIRONMENTS / "bytecode")
    environment["PYTHONPATH"] = str(ROOT)
    command: list[str | Path] = [
        *prefix,
        sys.executable,
        "-m",
        "oracle",
        "run",
        "--once",
        "--config",
        config,
    ]
    seconds, cpu_seconds = measure_command(command, folder, environment)
    with Store.open(f"sqlite:///{folder}/oracle.db") as store, store.read_transaction() as uow:
        return Cost(seconds, cpu_seconds, uow.logs.count())


def run_eth_defi(python: Path, chain_url: str, folder: Path, prefix: list[str]) -> Cost:
    """Read the chain with eth-defi's `MultithreadEventReader` into a CSV file."""
    csv_file = folder / "events.csv"
    seconds, cpu_seconds = measure_command(
        [
            *prefix,
            python,
            PEERS_FOLDER / "eth_defi" / "read_events.py",
            chain_url,
            NETWORK,
            ABI_FILE,
            csv_file,
        ],
        folder,
    )
    with csv_file.open("rb") as stream:
        return Cost(seconds, cpu_seconds, sum(1 for _ in stream))


def run_ponder(
    project: Path, event_count: int, chain_url: str, folder: Path, prefix: list[str]
) -> Cost:
    """Index the chain with `ponder start` into PGlite, until every event is in its table."""
    with socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = free_socket.getsockname()[1]
    environment = os.environ | {
        "CHAIN_ID": str(CHAIN_ID),
        "CHAIN_URL": chain_url,
        "CONTRACT": NETWORK,
        "ABI_FILE": str(ABI_FILE),
        "LAST_BLOCK": str(fetch_block_number(chain_url)),
        "DATABASE_FOLDER": str(folder / "pglite"),
        "PONDER_TELEMETRY_DISABLED": "1",
    }
    counts = [0]

    def has_every_event() -> bool:
        with suppress(OSError, HTTPException, ValueError):
            if request_json("GET", port, "/ready") is not None:
                counts.append(request_json("GET", port, "/count")["events"])
        return counts[-1] >= event_count

    seconds, cpu_seconds = measure_command(
        [
            *prefix,
            "node",
            project / "node_modules" / "ponder" / "dist" / "esm" / "bin" / "ponder.js",
            *("start", "--root", project, "--schema", "bench", "--port", str(port)),
        ],
        folder,
        environment,
        has_every_event,
    )
    return Cost(seconds, cpu_seconds, counts[-1])


def run_subsquid(project: Path, chain_url: str, folder: Path, prefix: list[str]) -> Cost:
    """Index the chain with an `EvmBatchProcessor` into CSV files."""
    environment = os.environ | {
        "CHAIN_URL": chain_url,
        "CONTRACT": NETWORK,
        "LAST_BLOCK": str(fetch_block_number(chain_url) - _SUBSQUID_CONFIRMATIONS),
        "DATA_FOLDER": str(folder / "data"),
    }
    seconds, cpu_seconds = measure_command(
        [*prefix, "node", project / "lib" / "main.js"], folder, environment
    )
    line_counts = [
        sum(1 for _ in file.open("rb")) - 1
        for file in (folder / "data").glob("*/network_events.csv")
    ]
    return Cost(seconds, cpu_seconds, sum(line_counts))


def request_json(method: str, port: int, path: str, body: str | None = None) -> Any:
    """Send a request; return the JSON body, or None if the status is not 200.

    The result is "" if the response has no body.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        return None if response.status != 200 else json.loads(text or '""')
    finally:
        connection.close()


def fetch_block_number(chain_url: str) -> int:
    """Return the number of the chain's newest block."""
    body = '{"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}'
    return int(request_json("POST", urlsplit(chain_url).port or 0, "/", body)["result"], 16)


def list_indexers(names: Collection[str], event_count: int) -> list[Indexer]:
    """Return qos-oracle in both modes and the peers that can be installed; print the others."""
    indexers = [
        Indexer(f"qos-oracle, {mode.name}", partial(run_qos_oracle, mode)) for mode in MODES
    ]
    for name in names:
        try:
            indexers.append(prepare_peer(name, event_count))
        except PeerUnavailableError as error:
            print(f"{name}: skipped: {error}", flush=True)
    return indexers


def prepare_peer(name: str, event_count: int) -> Indexer:
    """Install a peer if necessary.

    Raises:
        PeerUnavailableError: it cannot be installed here.
    """
    if name == "eth-defi":
        python = install_python_requirements(PEERS_FOLDER / "eth_defi" / "requirements.txt")
        return Indexer("eth-defi 1.2", partial(run_eth_defi, python))
    if name == "ponder":
        project = install_npm_project(PEERS_FOLDER / "ponder")
        return Indexer("ponder 0.16.6", partial(run_ponder, project, event_count))
    project = install_npm_project(PEERS_FOLDER / "subsquid")
    abi = json.loads(ABI_FILE.read_text("utf-8"))["abi"]
    (project / "abi.json").write_text(json.dumps(abi), "utf-8")
    run_installer(["npm", "run", "build", "--prefix", project])
    return Indexer("subsquid 1.27.3", partial(run_subsquid, project))


def measure_indexers(
    indexers: Sequence[Indexer], chain_url: str, rounds: int, processors: int, event_count: int
) -> dict[str, list[Cost]]:
    """Run the indexers in turn, and return the costs by name; a peer that fails is left out."""
    taskset_command = ["taskset", "-c", _PROCESSORS[processors]]
    costs_by_name: dict[str, list[Cost]] = defaultdict(list)
    failed_names = set()
    with tempfile.TemporaryDirectory() as folder:
        # This run is not counted, because it compiles the modules. In an installation, they are
        # already compiled.
        run_qos_oracle(MODES[0], chain_url, Path(folder), taskset_command)
    for _ in range(rounds):
        for indexer in indexers:
            if indexer.name in failed_names:
                continue
            try:
                with tempfile.TemporaryDirectory() as folder:
                    indexing_cost = indexer.run(chain_url, Path(folder), taskset_command)
            except PeerUnavailableError as error:
                print(f"{indexer.name}: left out: {error}", flush=True)
                failed_names.add(indexer.name)
                continue
            if indexing_cost.events != event_count:
                print(
                    f"{indexer.name}: left out: it stored {indexing_cost.events:,} events",
                    flush=True,
                )
                failed_names.add(indexer.name)
                continue
            costs_by_name[indexer.name].append(indexing_cost)
            print(
                f"{processors} processors, {indexer.name}: {indexing_cost.seconds:.1f} s, "
                f"CPU {indexing_cost.cpu_seconds:.1f} s",
                flush=True,
            )
    return costs_by_name


def measure_first_row(peers: Sequence[str], rounds: int, console: Console) -> None:
    """Run qos-oracle with every proof, and eth-defi if selected, on a chain of few events."""
    event_count = sum(map(len, iterate_block_logs(_FIRST_ROW_EVENTS)))
    indexers = list_indexers([name for name in peers if name == _FIRST_ROW_PEER], event_count)
    # This mode is left out, because the mode without proofs starts in the same time.
    indexers = [indexer for indexer in indexers if indexer.name != f"qos-oracle, {MODES[1].name}"]
    with serve_valid_chain(_FIRST_ROW_EVENTS, _EMPTY_BLOCKS) as chain_url:
        costs_by_name = measure_indexers(indexers, chain_url, rounds, 1, event_count)
    console.print(build_table(costs_by_name, f"first row: {event_count} events, one processor"))


def build_table(costs_by_name: Mapping[str, Sequence[Cost]], title: str) -> Table:
    """Return a table of medians; the ratios are relative to the first indexer."""
    table = Table(title=title, min_width=80)
    table.add_column("indexer")
    for column in ("s", "CPU s", "events/s", "CPU µs/event", "wall ratio", "CPU ratio"):
        table.add_column(column, justify="right")
    base: tuple[float, float] | None = None
    for name, costs in costs_by_name.items():
        seconds = statistics.median(cost.seconds for cost in costs)
        cpu_seconds = statistics.median(cost.cpu_seconds for cost in costs)
        base = base or (seconds, cpu_seconds)
        table.add_row(
            name,
            f"{seconds:.2f}",
            f"{cpu_seconds:.2f}",
            f"{costs[0].events / seconds:,.0f}",
            f"{1e6 * cpu_seconds / costs[0].events:.1f}",
            f"{seconds / base[0]:.2f}",
            f"{cpu_seconds / base[1]:.2f}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=_PEERS, default=_PEERS, help="peers to run")
    parser.add_argument(
        "--first-row", action="store_true", help="measure only the time to the first row"
    )
    arguments = parser.parse_args()
    begin_benchmark("the network; imports from a cold disk; queries")
    console = Console(width=110)
    measure_first_row(arguments.only, arguments.rounds, console)
    if arguments.first_row:
        return
    event_count = sum(map(len, iterate_block_logs(arguments.events)))
    indexers = list_indexers(arguments.only, event_count)
    with serve_valid_chain(arguments.events, _EMPTY_BLOCKS) as chain_url:
        for processors in _PROCESSORS:
            if processors > (os.cpu_count() or 1):
                continue
            costs_by_name = measure_indexers(
                indexers, chain_url, arguments.rounds, processors, event_count
            )
            console.print(build_table(costs_by_name, f"processors: {processors}"))
    print(f"{time.strftime('%Y-%m-%d')}, {event_count:,} events, rounds: {arguments.rounds}")
    print(f"machine at the end: {describe_machine()}")


if __name__ == "__main__":
    main()
