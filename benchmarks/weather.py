"""Measure indexing through an endpoint with random faults, compared with one without faults.

Run: .venv/bin/python benchmarks/weather.py [--history 600] [--head 40] [--latency 0.2]
Both endpoints have the same latency. With faults, 10 % of the requests get a 429 with
`Retry-After: 1`, 10 % get garbage, 5 % a reset connection, and 10 % a response of a node that lags
behind. First a history is read, then the head is followed: each block is mined when the previous
block is folded. After a failure or without a new block, the indexer waits for the poll interval.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from devnet.fakechain.faults.weather import BAD_WEATHER_SHARES, WeatherEndpoint  # noqa: E402
from devnet.fakechain.server import serve_endpoint  # noqa: E402
from devnet.fakechain.tree import BlockTree  # noqa: E402
from oracle.errors import TransientError  # noqa: E402
from oracle.store.schema import migrate  # noqa: E402
from tests.support.ingest.event_encoding import build_transactions  # noqa: E402
from tests.support.ingest.indexer import CHAIN_ID, Indexer  # noqa: E402
from tests.support.traffic import Traffic  # noqa: E402

# Minimum speed with faults, as a share of the speed without faults.
MIN_SPEED_SHARE = 1 / 3
# Exit code of a run that succeeded but missed its target.
MISSED_EXIT_CODE = 3
POLL_SECONDS = 1.0


class Run:
    """One indexer with one endpoint."""

    def __init__(self, arguments: argparse.Namespace, shares: dict[str, float]) -> None:
        self.arguments = arguments
        self.tree = BlockTree(CHAIN_ID)
        traffic = Traffic(1)
        for _ in range(arguments.history):
            self.tree.mine(build_transactions(traffic.block()))
        self.endpoint = WeatherEndpoint(self.tree, lambda: time.sleep(arguments.latency))
        self.shares = shares
        self.failures: Counter[str] = Counter()

    def measure_seconds(self) -> tuple[float, float]:
        """Read the history, then follow the head; return the seconds of both phases."""
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = stack.enter_context(serve_endpoint(self.endpoint)).url
            self.endpoint.set_head(self.tree.last_mined)
            migrate(f"sqlite:///{folder}/weather.db")
            indexer = Indexer([url], f"sqlite:///{folder}/weather.db", reports=False)
            stack.callback(indexer.close)
            # Faults begin only once the chain has been identified.
            self.endpoint.shares = self.shares
            start = time.perf_counter()
            self.index_up_to_head(indexer)
            history_seconds = time.perf_counter() - start
            for _ in range(self.arguments.head):
                self.endpoint.set_head(self.tree.mine())
                self.index_up_to_head(indexer)
        return history_seconds, time.perf_counter() - start - history_seconds

    def index_up_to_head(self, indexer: Indexer) -> None:
        """Run the indexer's step as the daemon does, until the newest block is folded."""
        while True:
            try:
                step = indexer.step()
            except TransientError as error:
                self.failures[str(error).partition(": ")[2][:40]] += 1
                step = None
            if step is None:
                with indexer.store.read_transaction() as uow:
                    cursor = uow.cursor.get()
                if cursor is not None and cursor.number == self.tree.last_mined.number:
                    return
                time.sleep(POLL_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", type=int, default=600)
    parser.add_argument("--head", type=int, default=40)
    parser.add_argument("--latency", type=float, default=0.2)
    arguments = parser.parse_args()
    console = Console()
    table = Table(title="Blocks per second through one endpoint")
    for title in ("", "without faults", "with faults", "ratio", "target"):
        table.add_column(title, justify="right")
    seconds_without_faults = Run(arguments, {}).measure_seconds()
    faulty_run = Run(arguments, dict(BAD_WEATHER_SHARES))
    seconds_with_faults = faulty_run.measure_seconds()
    speed_ratios = [
        faultless_seconds / faulty_seconds
        for faultless_seconds, faulty_seconds in zip(
            seconds_without_faults, seconds_with_faults, strict=True
        )
    ]
    for name, index, blocks in (("history", 0, arguments.history), ("head", 1, arguments.head)):
        speeds = (
            f"{blocks / seconds_without_faults[index]:.1f}",
            f"{blocks / seconds_with_faults[index]:.1f}",
        )
        table.add_row(name, *speeds, f"{speed_ratios[index]:.2f}", f"{MIN_SPEED_SHARE:.2f}")
    console.print(table)
    console.print(f"failed steps: {sum(faulty_run.failures.values())}")
    for failure, count in faulty_run.failures.most_common(5):
        console.print(f"{count:6} {failure}", markup=False)
    return 0 if min(speed_ratios) >= MIN_SPEED_SHARE else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
