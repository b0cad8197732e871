"""Measure indexing at full speed with a thousand viewers of the pages and without viewers.

Run: .venv/bin/python benchmarks/viewers.py [--events 400000] [--viewers 1000] [--pairs 3]

The viewers run in a separate process (viewers_crowd.py). Half of them listen to /v1/events; each
of the others requests a page or JSON every few seconds. `qos-oracle serve`, another process,
responds from the database while the database is being written. A history is indexed with viewers
and without, in turn, by one worker for each core, which is the default. The clock starts when all
viewers are connected. The chain is the one of `verify.py`, with every proof. Chain, server and
viewers use the same cores, so with fewer than four cores their load is part of the result.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from benchmarks.segments import CHAIN_ID, CONTRACTS, open_source  # noqa: E402
from benchmarks.verify import serve_valid_chain  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.verification.verification_policy import VerificationPolicy  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

# The default of `[history] workers`.
WORKERS = min(3, os.cpu_count() or 1)
NOT_MEASURED = "the network between viewers and server, and rendering in a browser"
# Number of blocks that are indexed before the viewers connect.
_FIRST_BLOCKS = 20
# Minimum speed with viewers, as a share of the speed without viewers.
MIN_SPEED_SHARE = 0.9
TARGET_VIEWERS = 1000
VIEWERS_SCRIPT = Path(__file__).with_name("viewers_crowd.py")


@dataclass
class IndexingRun:
    """The result of indexing one history, after the viewers were connected.

    `viewer_statistics`: the viewers' statistics, or None without viewers.
    """

    events: int = 0
    seconds: float = 0.0
    digest: str = ""
    viewer_statistics: dict[str, Any] | None = None

    @property
    def microseconds_per_event(self) -> float:
        """Wall-clock microseconds per event."""
        return 1e6 * self.seconds / self.events


def index_chain(chain_url: str, folder: Path, viewers: int) -> IndexingRun:
    """Index the complete chain into a new database; the viewers connect after the first window."""
    run = IndexingRun()
    database_url = f"sqlite:///{folder}/oracle.sqlite"
    reader = EventReader.from_profile("reference", CONTRACTS, None)
    with ExitStack() as stack:
        source = stack.enter_context(open_source(chain_url, VerificationPolicy(), WORKERS))
        store = stack.enter_context(Store.open(database_url, create=True))
        with store.transaction() as uow:
            genesis = source.fetch_genesis_hash()
            uow.identity.ensure_stored_identity(
                Identity(CHAIN_ID, genesis, dict(CONTRACTS), None, 0)
            )
        # The first window is small, because only the later ones are measured.
        indexer = EventFolder(CRYNUX, reader)
        ingest = IngestState(max_blocks=_FIRST_BLOCKS)
        ingest_next_window(source, store, indexer, ingest)
        with store.read_transaction() as uow:
            count_before = uow.logs.count()
        viewer_process = stack.enter_context(
            connect_viewers(chain_url, database_url, folder, viewers)
        )
        start = time.perf_counter()
        while ingest_next_window(source, store, indexer, ingest) is not None:
            pass
        run.seconds = time.perf_counter() - start
        run.viewer_statistics = viewer_process.disconnect() if viewer_process is not None else None
        with store.read_transaction() as uow:
            run.events = uow.logs.count() - count_before
            run.digest = uow.projections.compute_digest()
    return run


class ViewerProcess:
    """The running process of the viewers; it prints its statistics when it is stopped."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def disconnect(self) -> dict[str, Any]:
        viewer_output, _ = self._process.communicate()
        return dict[str, Any](json.loads(viewer_output.splitlines()[-1]))


@contextmanager
def connect_viewers(
    chain_url: str, database: str, folder: Path, viewers: int
) -> Iterator[ViewerProcess | None]:
    """Serve the database to viewers, and yield when all viewers are connected."""
    if not viewers:
        yield None
        return
    with serve_database(chain_url, database, folder) as server:
        command = [sys.executable, str(VIEWERS_SCRIPT), server.url, str(viewers)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().strip() == "all connected", "viewers failed"
                yield ViewerProcess(process)
            finally:
                process.kill()


class ApiServer(NamedTuple):
    """A running `qos-oracle serve`, and the address of its API."""

    url: str
    process_id: int


@contextmanager
def serve_database(
    chain_url: str, database: str, folder: Path, oracle: Address | None = None
) -> Iterator[ApiServer]:
    """Run `qos-oracle serve` on the database until the context ends.

    `oracle` is the address of the oracle contract for which the database was created, if any.
    """
    config = folder / "config.toml"
    log = folder / "serve.log"
    config.touch(0o600)
    config.write_text(
        f'[database]\nurl = "{database}"\n[chain]\nid = {CHAIN_ID}\nendpoints = ["{chain_url}"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "{NETWORK}" }}\n'
        + (f'[oracle]\naddress = "{oracle}"\n' if oracle else "")
        + "[api]\nport = 0\nrequests_per_second = 100000\nmax_streams_per_address = 1200\n"
        # The server has a low priority. On a busy machine, a request may therefore have to wait
        # for a long time.
        "header_timeout_seconds = 600\nresponse_timeout_seconds = 600\n"
        "[log]\nformat = 'json'\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "oracle", "serve", "--config", str(config)]
    with (
        log.open("wb") as log_file,
        subprocess.Popen(command, stdout=log_file, stderr=log_file) as process,
    ):
        try:
            yield ApiServer(wait_for_address(log, process), process.pid)
        finally:
            process.kill()


def wait_for_address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    while process.poll() is None:
        for line in log.read_text("utf-8").splitlines():
            if line.endswith("}") and (event := json.loads(line))["event"] == "read_api_started":
                return str(event["api"])
        time.sleep(0.05)
    raise RuntimeError(f"the server exited; its log: {log.read_text('utf-8')}")


def print_run(name: str, run: IndexingRun) -> None:
    print(f"{name}: {run.events / run.seconds:,.0f} events/s, {run.seconds:.1f} s")
    if run.viewer_statistics is not None:
        print(
            "  viewers: "
            + ", ".join(f"{key} {value}" for key, value in run.viewer_statistics.items())
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--viewers", type=int, default=TARGET_VIEWERS)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    begin_benchmark(NOT_MEASURED)
    tune_garbage_collection()
    runs_alone: list[IndexingRun] = []
    runs_with_viewers: list[IndexingRun] = []
    with serve_valid_chain(arguments.events) as chain_url, tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.pairs):
            for viewers, runs in ((0, runs_alone), (arguments.viewers, runs_with_viewers)):
                run_folder = Path(folder, f"{number}-{viewers}")
                run_folder.mkdir()
                runs.append(index_chain(chain_url, run_folder, viewers))
                print_run(f"{viewers} viewers", runs[-1])
    assert len({run.digest for run in (*runs_alone, *runs_with_viewers)}) == 1, (
        "viewers changed the state"
    )
    microseconds_alone, microseconds_with_viewers = (
        statistics.median(run.microseconds_per_event for run in runs)
        for runs in (runs_alone, runs_with_viewers)
    )
    target_size = "" if arguments.viewers == TARGET_VIEWERS else f"{TARGET_VIEWERS:,} viewers"
    title = f"indexing with {arguments.viewers:,} viewers"
    baseline_name = "indexing without viewers"
    return finish_benchmark(
        [
            Outcome(
                title,
                microseconds_with_viewers,
                "µs/event",
                microseconds_alone / MIN_SPEED_SHARE,
                microseconds_alone,
                baseline_name,
                target_size,
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
