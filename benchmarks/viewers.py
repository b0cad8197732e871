"""Measure indexing at full speed, with a thousand viewers of the pages and without viewers.

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
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from benchmarks.segments import CHAIN_ID, CONTRACTS, source_of  # noqa: E402
from benchmarks.verify import served  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.verification.verification_policy import VerificationPolicy  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

# The default of `[history] workers`.
WORKERS = min(3, os.cpu_count() or 1)
LEAVES_OUT = "the network between viewers and server, and rendering in a browser"
# Number of blocks that are indexed before the viewers connect.
_FIRST_BLOCKS = 20
# The minimum speed with viewers, as a share of the speed without viewers.
TARGET = 0.9
# The number of viewers to which the target applies.
VIEWERS = 1000
CROWD = Path(__file__).with_name("viewers_crowd.py")


@dataclass
class Took:
    """The result of indexing one history, after the viewers were connected.

    `seen`: the viewers' statistics, or None without viewers.
    """

    events: int = 0
    seconds: float = 0.0
    digest: str = ""
    seen: dict[str, Any] | None = None

    @property
    def each(self) -> float:
        """Wall-clock microseconds per event."""
        return 1e6 * self.seconds / self.events


def indexed(chain: str, folder: Path, viewers: int) -> Took:
    """Index the complete chain into a new database; the viewers connect after the first window."""
    took, database = Took(), f"sqlite:///{folder}/oracle.sqlite"
    reader = EventReader.from_profile("reference", CONTRACTS, None)
    with ExitStack() as opened_here:
        source = opened_here.enter_context(source_of(chain, VerificationPolicy(), WORKERS))
        store = opened_here.enter_context(Store.open(database, create=True))
        with store.transaction() as uow:
            genesis = source.fetch_genesis_hash()
            uow.identity.store_or_check(Identity(CHAIN_ID, genesis, dict(CONTRACTS), None, 0))
        # The first window is small, because only the following windows are measured.
        indexer, ingest = EventFolder(CRYNUX, reader), IngestState(max_blocks=_FIRST_BLOCKS)
        ingest_next_window(source, store, indexer, ingest)
        with store.read_transaction() as uow:
            before = uow.logs.count()
        crowd = opened_here.enter_context(watching(chain, database, folder, viewers))
        began = time.perf_counter()
        while ingest_next_window(source, store, indexer, ingest) is not None:
            pass
        took.seconds = time.perf_counter() - began
        took.seen = crowd.leave() if crowd is not None else None
        with store.read_transaction() as uow:
            took.events, took.digest = uow.logs.count() - before, uow.projections.compute_digest()
    return took


class Crowd:
    """The running process of the viewers, which prints its statistics when it is stopped."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def leave(self) -> dict[str, Any]:
        output, _ = self._process.communicate()
        return dict[str, Any](json.loads(output.splitlines()[-1]))


@contextmanager
def watching(chain: str, database: str, folder: Path, viewers: int) -> Iterator[Crowd | None]:
    """Serve the database to viewers within this context, which begins when all are connected."""
    if not viewers:
        yield None
        return
    with answering(chain, database, folder) as address:
        command = [sys.executable, str(CROWD), address, str(viewers)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().strip() == "all connected", "viewers failed"
                yield Crowd(process)
            finally:
                process.kill()


@contextmanager
def answering(chain: str, database: str, folder: Path) -> Iterator[str]:
    """Run `qos-oracle serve` on the database within this context; yield its address."""
    config, log = folder / "config.toml", folder / "serve.log"
    config.touch(0o600)
    config.write_text(
        f'[database]\nurl = "{database}"\n[chain]\nid = {CHAIN_ID}\nendpoints = ["{chain}"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "{NETWORK}" }}\n'
        "[api]\nport = 0\nrequests_per_second = 100000\nmax_streams_per_address = 1200\n"
        "[log]\nformat = 'json'\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "oracle", "serve", "--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield address_in(log, process)
        finally:
            process.kill()


def address_in(log: Path, process: "subprocess.Popen[bytes]") -> str:
    while process.poll() is None:
        for line in log.read_text("utf-8").splitlines():
            if line.endswith("}") and (event := json.loads(line))["event"] == "read_api_started":
                return str(event["api"])
        time.sleep(0.05)
    raise RuntimeError(f"the server exited; its log: {log.read_text('utf-8')}")


def told(name: str, took: Took) -> None:
    print(f"{name}: {took.events / took.seconds:,.0f} events/s, {took.seconds:.1f} s")
    if took.seen is not None:
        print("  viewers: " + ", ".join(f"{key} {value}" for key, value in took.seen.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--viewers", type=int, default=VIEWERS)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    begin(LEAVES_OUT)
    freeze_gc()
    alone: list[Took] = []
    beside: list[Took] = []
    with served(arguments.events) as chain, tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.pairs):
            for viewers, runs in ((0, alone), (arguments.viewers, beside)):
                place = Path(folder, f"{number}-{viewers}")
                place.mkdir()
                runs.append(indexed(chain, place, viewers))
                told(f"{viewers} viewers", runs[-1])
    assert len({run.digest for run in (*alone, *beside)}) == 1, "viewers changed the state"
    baseline, measured = (statistics.median(run.each for run in runs) for runs in (alone, beside))
    size = "" if arguments.viewers == VIEWERS else f"{VIEWERS:,} viewers"
    what, source = f"indexing with {arguments.viewers:,} viewers", "indexing without viewers"
    return end([Outcome(what, measured, "µs/event", baseline / TARGET, baseline, source, size)])


if __name__ == "__main__":
    sys.exit(main())
