"""Measure the cost of calldata: a history whose profile reads calls from full blocks.

Run: .venv/bin/python benchmarks/calldata.py [--rounds 3]
A separate process serves the recorded chain of Crynux's VSSTask contracts
(tests/integration/traces) over HTTP: 1,376 blocks and 2,346 transactions, of which 721 are watched
calls. "logs alone" reads the same blocks with a profile that has the same events but no calls.
The time of the reader alone is measured at the end.
"""

import argparse
import gc
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.source import ChainSource  # noqa: E402
from oracle.domain.blocks import BlockRange  # noqa: E402
from oracle.domain.logs import Call, Log  # noqa: E402
from oracle.resources import find_shipped_path  # noqa: E402
from oracle.rpc.pool import EndpointPool  # noqa: E402
from tests.integration.traces.following import addresses, load_recording  # noqa: E402

HEAD_BLOCK = 1375
# The depth is so small that nearly all blocks are history.
FINALITY_DEPTH = 1
CONTRACTS = {name: addresses()["contracts"][name] for name in ("VSSTask", "Node")}
_SERVER_CODE = """
import sys
from devnet.fakechain.server import serve_endpoint
from tests.integration.traces.following import load_recording
with serve_endpoint(load_recording().create_provider()) as served:
    print(served.url, flush=True)
    sys.stdin.read()
"""


def write_profile_without_calls(folder: Path) -> str:
    """Write a copy of the profile without its calls; return the path."""
    lines, is_kept = [], True
    for line in (
        (find_shipped_path("profiles") / "crynux-vss.toml").read_text("utf-8").splitlines()
    ):
        if line.startswith("["):
            is_kept = ".calls." not in line
        if is_kept:
            lines.append(line)
    path = folder / "logs-alone.toml"
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def fetch_history(url: str, reader: EventReader) -> tuple[float, list[Log], list[Call]]:
    """Fetch all windows as in a backfill; return the seconds, the logs and the calls."""
    source = ChainSource(
        EndpointPool.from_urls([url], load_recording().chain_id), reader, FINALITY_DEPTH
    )
    logs = list[Log]()
    calls = list[Call]()
    first_block = 0
    source.fetch_heads()
    start = time.perf_counter()
    while first_block <= HEAD_BLOCK - FINALITY_DEPTH:
        window = source.fetch_window(
            BlockRange(first_block, HEAD_BLOCK - FINALITY_DEPTH), with_headers=False
        )
        logs += window.logs
        calls += window.calls
        first_block = window.range.last + 1
    seconds = time.perf_counter() - start
    source.close()
    return seconds, logs, calls


def measure_microseconds_per_call(reader: EventReader, calls: list[Call]) -> float:
    """Return the reader's microseconds per call, in the best of ten rounds."""
    min_seconds = float("inf")
    for _ in range(10):
        gc.collect()
        start = time.thread_time()
        reader.decode_rows([], calls)
        min_seconds = min(min_seconds, time.thread_time() - start)
    return min_seconds / len(calls) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    console = Console()
    with TemporaryDirectory() as folder:
        readers = {
            "logs and calls": EventReader.from_profile("crynux-vss", CONTRACTS, None),
            "logs alone": EventReader.from_profile(
                write_profile_without_calls(Path(folder)), CONTRACTS, None
            ),
        }
    command = [sys.executable, "-c", _SERVER_CODE]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        result_by_name = {
            name: min(
                (fetch_history(url, reader) for _ in range(rounds)), key=lambda result: result[0]
            )
            for name, reader in readers.items()
        }
        server.communicate()
    table = Table(title=f"History of {HEAD_BLOCK:,} blocks of the recorded chain")
    for title in ("profile", "seconds", "blocks/s", "logs", "calls"):
        table.add_column(title, justify="left" if title == "profile" else "right")
    for name, (seconds, logs, calls) in result_by_name.items():
        row = (
            f"{seconds:.2f}",
            f"{HEAD_BLOCK / seconds:,.0f}",
            f"{len(logs):,}",
            f"{len(calls):,}",
        )
        table.add_row(name, *row)
    console.print(table)
    reader = readers["logs and calls"]
    calls = result_by_name["logs and calls"][2]
    console.print(f"reader alone: {measure_microseconds_per_call(reader, calls):.1f} µs per call")
    return 0


if __name__ == "__main__":
    sys.exit(main())
