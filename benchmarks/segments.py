"""Compare a backfill that workers prepare with a backfill by the daemon alone.

Run: .venv/bin/python benchmarks/segments.py [--events 200000] [--workers 2]
A separate process serves the chain of `verify.py`, which has valid blocks; this process uses part
of the same cores. Everything is fetched, checked, decoded, folded and committed. The clock starts
before the first worker is started.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.backfill import get_resident_mb, open_chain_source  # noqa: E402
from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from benchmarks.verify import NO_PROOF, serve_valid_chain  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.segments.process_pool import ProcessPool  # noqa: E402
from oracle.chain.segments.segment_request import SegmentPlan  # noqa: E402
from oracle.chain.source import ChainSource  # noqa: E402
from oracle.chain.verification.verification_policy import VerificationPolicy  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.rpc.client import MAX_RESPONSE_BYTES  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

CHAIN_ID = 31337
CONTRACTS = {"TaskNetwork": NETWORK}
# (Name, policy, target speedup).
COMPARISONS = (("every proof", VerificationPolicy(), 2.0), ("no proof", NO_PROOF, 1.6))
NOT_MEASURED = "the network, and the writer's imports"


@dataclass
class BackfillCost:
    """The cost of one backfill.

    `seconds` is wall-clock time, `writer_seconds` and `worker_seconds` are CPU time, and
    `memory_mb` is the writer's resident memory at the end, in MB.
    """

    events: int = 0
    seconds: float = 0.0
    writer_seconds: float = 0.0
    worker_seconds: float = 0.0
    memory_mb: int = 0
    digest: str = ""

    @property
    def microseconds_per_event(self) -> float:
        """Wall-clock microseconds per event."""
        return 1e6 * self.seconds / self.events


def build_plan(reader: EventReader, policy: VerificationPolicy) -> SegmentPlan:
    return SegmentPlan(
        chain_id=CHAIN_ID,
        profile="reference",
        contracts=dict(CONTRACTS),
        oracle=None,
        options={},
        identity=reader.identity,
        history=int(policy.history),
        receipts=policy.receipts,
        every_header=policy.every_header,
        most_bytes=MAX_RESPONSE_BYTES,
    )


@contextmanager
def open_source(url: str, policy: VerificationPolicy, workers: int) -> Iterator[ChainSource]:
    source, reader = open_chain_source(url)
    source.configure_verification(policy)
    if workers:
        source.use_workers(ProcessPool(build_plan(reader, policy), [url], workers))
    try:
        yield source
    finally:
        source.close()


def run_backfill(
    url: str, policy: VerificationPolicy, workers: int, database: Path
) -> BackfillCost:
    """Index the complete chain into a new database."""
    cost = BackfillCost()
    times_before = os.times()
    start = time.perf_counter()
    with (
        open_source(url, policy, workers) as source,
        Store.open(f"sqlite:///{database}", create=True) as store,
    ):
        with store.transaction() as uow:
            uow.identity.ensure_stored_identity(
                Identity(CHAIN_ID, source.fetch_genesis_hash(), dict(CONTRACTS), None, 0)
            )
        folder = EventFolder(CRYNUX, EventReader.from_profile("reference", CONTRACTS, None))
        ingest = IngestState()
        while ingest_next_window(source, store, folder, ingest) is not None:
            pass
        cost.seconds = time.perf_counter() - start
        cost.memory_mb = get_resident_mb()
        cost.writer_seconds = sum(os.times()[:2]) - sum(times_before[:2])
        with store.read_transaction() as uow:
            cost.events = uow.logs.count()
            cost.digest = uow.projections.compute_digest()
    times_after = os.times()
    cost.worker_seconds = (
        times_after.children_user
        + times_after.children_system
        - times_before.children_user
        - times_before.children_system
    )
    return cost


def print_cost(name: str, cost: BackfillCost) -> None:
    writer, workers = (
        1e6 * part / cost.events for part in (cost.writer_seconds, cost.worker_seconds)
    )
    print(
        f"{name}: {cost.events / cost.seconds:,.0f} events/s; CPU per event: writer "
        f"{writer:.1f} µs, workers {workers:.1f} µs; writer's memory {cost.memory_mb} MB"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=min(3, os.cpu_count() or 1))
    arguments = parser.parse_args()
    begin_benchmark(NOT_MEASURED)
    tune_garbage_collection()
    outcomes = []
    with serve_valid_chain(arguments.events) as url, tempfile.TemporaryDirectory() as folder:
        for name, policy, min_speedup in COMPARISONS:
            cost_alone = run_backfill(url, policy, 0, Path(folder, f"{name} 0.db"))
            print_cost(f"{name}, alone", cost_alone)
            cost_with_workers = run_backfill(
                url, policy, arguments.workers, Path(folder, f"{name} n.db")
            )
            print_cost(f"{name}, workers: {arguments.workers}", cost_with_workers)
            assert cost_with_workers.digest == cost_alone.digest, "workers changed the state"
            title = f"backfill with workers, {name}"
            baseline_name = "the daemon alone"
            target_microseconds = cost_alone.microseconds_per_event / min_speedup
            outcomes.append(
                Outcome(
                    title,
                    cost_with_workers.microseconds_per_event,
                    "µs/event",
                    target_microseconds,
                    cost_alone.microseconds_per_event,
                    baseline_name,
                )
            )
    return finish_benchmark(outcomes)


if __name__ == "__main__":
    sys.exit(main())
