"""Measure the time from a block's appearance to its commit, at the head of a chain on Anvil.

Run: .venv/bin/python benchmarks/latency.py [--blocks 200]
The clock starts when Anvil has mined the block. It stops when the transaction with the state
folded from the block is on disk (SQLite, synchronous=FULL). Polling adds half of its interval on
average, which is not counted. Each block creates ten tasks, and all headers are checked.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.source import ChainSource  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.indexer.commit import CommittedWindow  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.rpc.pool import EndpointPool  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.evm.anvil import run_anvil  # noqa: E402
from tests.support.evm.chain import Chain  # noqa: E402
from tests.support.evm.network import FEE, Network  # noqa: E402

TARGET_MEDIAN_MILLISECONDS = 10.0
TARGET_P99_MILLISECONDS = 25.0
# The average delay in milliseconds that a poll interval of one second adds.
_MEAN_POLL_DELAY_MS = 500.0
TASKS_PER_BLOCK = 10
WARM_UP_BLOCKS = 10


class BlockIndexer:
    """Indexes one chain into one database, as a daemon does."""

    def __init__(self, network: Network, store: Store) -> None:
        address = Address(network.contract.address.lower())
        reader = EventReader.from_profile("reference", {"TaskNetwork": address}, None)
        self.source = ChainSource(EndpointPool.from_urls([network.chain.url], 31337), reader, 64)
        self.store = store
        self.folder = EventFolder(CRYNUX, reader)
        self.ingest = IngestState()
        with store.transaction() as uow:
            genesis = self.source.fetch_genesis_hash()
            uow.identity.ensure_stored_identity(
                Identity(31337, genesis, {"TaskNetwork": address}, None, 0)
            )

    def index_up_to(self, block_number: int) -> int:
        """Index up to this block; return the number of logs in the last window."""
        while True:
            step = ingest_next_window(self.source, self.store, self.folder, self.ingest)
            if isinstance(step, CommittedWindow) and step.cursor.number >= block_number:
                return step.log_count


def mine_block_of_tasks(network: Network) -> int:
    """Mine a block with ten new tasks; return its number."""
    chain = network.chain
    orders = [network.does.createTask(network.order()) for _ in range(TASKS_PER_BLOCK)]
    chain.together(*[chain.request(o, sender=network.creator, value=FEE) for o in orders])
    return chain.block


def measure_block_milliseconds(network: Network, store: Store, block_count: int) -> list[float]:
    """Return the milliseconds of each block after the warm-up."""
    indexer = BlockIndexer(network, store)
    milliseconds_by_block = []
    indexer.index_up_to(network.chain.block)
    for _ in range(WARM_UP_BLOCKS + block_count):
        block_number = mine_block_of_tasks(network)
        start = time.perf_counter()
        logs = indexer.index_up_to(block_number)
        milliseconds_by_block.append((time.perf_counter() - start) * 1e3)
        assert logs == TASKS_PER_BLOCK
    indexer.source.close()
    return milliseconds_by_block[WARM_UP_BLOCKS:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=200)
    block_count = parser.parse_args().blocks
    begin_benchmark(
        "polling, proofs, dispatch, reports and leases; only the indexing loop is measured"
    )
    with run_anvil() as url, tempfile.TemporaryDirectory() as folder:
        chain = Chain(url)
        database_url = f"sqlite:///{folder}/latency.db"
        with Store.open(database_url, create=True) as store:
            milliseconds_by_block = measure_block_milliseconds(
                Network.deployed(chain), store, block_count
            )
        chain.close()
    percentiles = statistics.quantiles(milliseconds_by_block, n=100)
    table = Table(
        title=f"Block visible to block committed, {block_count} blocks of {TASKS_PER_BLOCK} events"
    )
    for title in ("median", "90 %", "99 %", "worst"):
        table.add_column(f"{title} (ms)", justify="right")
    table.add_row(
        *(
            f"{value:.1f}"
            for value in (
                percentiles[49],
                percentiles[89],
                percentiles[98],
                max(milliseconds_by_block),
            )
        )
    )
    Console().print(table)
    baseline_name = "a script that polls once a second (half a second on average)"
    return finish_benchmark(
        [
            Outcome(
                "head, median",
                percentiles[49],
                "ms",
                TARGET_MEDIAN_MILLISECONDS,
                _MEAN_POLL_DELAY_MS,
                baseline_name,
            ),
            Outcome(
                "head, 99 %",
                percentiles[98],
                "ms",
                TARGET_P99_MILLISECONDS,
                _MEAN_POLL_DELAY_MS,
                baseline_name,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
