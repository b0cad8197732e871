"""Compare a backfill that is prepared by workers with one of the daemon alone.

Run: .venv/bin/python benchmarks/segments.py [--events 200000] [--workers 2]
The chain is the one of `verify.py`, with valid blocks; it is served by a separate process, which
uses part of the same cores. Everything is fetched, checked, decoded, folded and committed. The
clock starts before the first worker is started.
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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.backfill import opened, resident_mb  # noqa: E402
from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from benchmarks.verify import NO_PROOF, served  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.segments.process_pool import ProcessPool  # noqa: E402
from oracle.chain.segments.segment_request import SegmentPlan  # noqa: E402
from oracle.chain.source import ChainSource  # noqa: E402
from oracle.chain.verification.verification_policy import VerificationPolicy  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.rpc.client import MAX_RESPONSE_BYTES  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

CHAIN_ID = 31337
CONTRACTS = {"TaskNetwork": NETWORK}
# The name, the policy and the target speedup of each comparison.
WAYS = (("every proof", VerificationPolicy(), 2.0), ("no proof", NO_PROOF, 1.6))
LEAVES_OUT = "the network, and the writer's imports"


@dataclass
class Took:
    """The cost of one backfill.

    `seconds` is wall-clock time, `writer` and `workers` are CPU seconds, and `memory` is the
    writer's resident memory at the end, in MB.
    """

    events: int = 0
    seconds: float = 0.0
    writer: float = 0.0
    workers: float = 0.0
    memory: int = 0
    digest: str = ""

    @property
    def each(self) -> float:
        """Wall-clock microseconds per event."""
        return 1e6 * self.seconds / self.events


def plan_of(reader: EventReader, policy: VerificationPolicy) -> SegmentPlan:
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
def source_of(url: str, policy: VerificationPolicy, workers: int) -> Iterator[ChainSource]:
    source, reader = opened(url)
    source.set_verification(policy)
    if workers:
        source.use_workers(ProcessPool(plan_of(reader, policy), [url], workers))
    try:
        yield source
    finally:
        source.close()


def backfill(url: str, policy: VerificationPolicy, workers: int, database: Path) -> Took:
    """Index the complete chain into a new database."""
    took, before = Took(), os.times()
    began = time.perf_counter()
    with (
        source_of(url, policy, workers) as source,
        Store.open(f"sqlite:///{database}", create=True) as store,
    ):
        with store.transaction() as uow:
            uow.identity.store_or_check(
                Identity(CHAIN_ID, source.fetch_genesis_hash(), dict(CONTRACTS), None, 0)
            )
        folder, ingest = (
            EventFolder(CRYNUX, EventReader.from_profile("reference", CONTRACTS, None)),
            IngestState(),
        )
        while ingest_next_window(source, store, folder, ingest) is not None:
            pass
        took.seconds, took.memory = time.perf_counter() - began, resident_mb()
        took.writer = sum(os.times()[:2]) - sum(before[:2])
        with store.read_transaction() as uow:
            took.events, took.digest = uow.logs.count(), uow.projections.compute_digest()
    after = os.times()
    took.workers = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return took


def told(name: str, took: Took) -> None:
    writer, workers = (1e6 * part / took.events for part in (took.writer, took.workers))
    print(
        f"{name}: {took.events / took.seconds:,.0f} events/s; CPU per event: writer "
        f"{writer:.1f} µs, workers {workers:.1f} µs; writer's memory {took.memory} MB"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=min(3, os.cpu_count() or 1))
    arguments = parser.parse_args()
    begin(LEAVES_OUT)
    freeze_gc()
    outcomes = []
    with served(arguments.events) as url, tempfile.TemporaryDirectory() as folder:
        for name, policy, times in WAYS:
            alone = backfill(url, policy, 0, Path(folder, f"{name} 0.db"))
            told(f"{name}, alone", alone)
            shared = backfill(url, policy, arguments.workers, Path(folder, f"{name} n.db"))
            told(f"{name}, workers: {arguments.workers}", shared)
            assert shared.digest == alone.digest, "workers changed the state"
            what, source = f"backfill with workers, {name}", "the daemon alone"
            target = alone.each / times
            outcomes.append(Outcome(what, shared.each, "µs/event", target, alone.each, source))
    return end(outcomes)


if __name__ == "__main__":
    sys.exit(main())
