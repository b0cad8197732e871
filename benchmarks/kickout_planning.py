"""Measure a tick of kickout planning while very many nodes are due, as in a mass outage.

Run: .venv/bin/python benchmarks/kickout_planning.py [--open 4000] [--live 1000] [--ticks 20]
No kickout can proceed yet: the live ones wait for the end of their veto time, and the other nodes'
lanes are above the kickout line. The baseline reads all open intervals again for each live
kickout; it is timed for a few kickouts and extrapolated. The first tick after a start also builds
the evidence of each live kickout and is printed separately.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from oracle.domain.coverage import VerificationLevel  # noqa: E402
from oracle.kickouts.kickout_eligibility import (  # noqa: E402
    EvidenceHashCache,
    find_due_intervals,
    find_proposable_cases,
    find_valid_kicks,
    load_kickout_evidence,
)
from oracle.store.database import Store  # noqa: E402
from tests.support.due_nodes import KICKOUT_RULES, RULES, store_due_nodes  # noqa: E402

TARGET_MS = 50
# Number of live kickouts for which the baseline is timed.
FEW = 20


def tick(store: Store, memory: EvidenceHashCache) -> float:
    """Return the CPU milliseconds of one tick, which checks all due and proposed kickouts."""
    begun = time.process_time()
    with store.read_transaction() as uow:
        intervals, live = find_due_intervals(uow, RULES), uow.rounds.list_live_kicks()
        valid_kicks = find_valid_kicks(uow, KICKOUT_RULES, live, intervals, memory)
        find_proposable_cases(uow, KICKOUT_RULES, VerificationLevel.PROVEN, intervals, live)
        memory.retain({kick.node for kick in live})
    assert valid_kicks == live
    return 1000 * (time.process_time() - begun)


def obvious(store: Store, live_count: int) -> float:
    """Return the CPU milliseconds if all open intervals are read again for each live kickout."""
    begun = time.process_time()
    with store.read_transaction() as uow:
        live = uow.rounds.list_live_kicks()
        few = live[:FEW]
        for kick in few:
            intervals = [
                interval
                for interval in find_due_intervals(uow, RULES)
                if interval.node == kick.node
            ]
            assert load_kickout_evidence(uow, KICKOUT_RULES, intervals[0]).hash == kick.evidence
    return 1000 * (time.process_time() - begun) * live_count / max(1, len(few))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open", type=int, default=4000, dest="open_count")
    parser.add_argument("--live", type=int, default=1000)
    parser.add_argument("--ticks", type=int, default=20)
    arguments = parser.parse_args()
    begin("calls on chain, signatures, verification of blocks")
    with (
        tempfile.TemporaryDirectory(prefix="qos-oracle-kickouts.") as folder_name,
        Store.open(f"sqlite:///{folder_name}/oracle.sqlite", create=True) as store,
    ):
        store_due_nodes(store, arguments.open_count, arguments.live)
        memory = EvidenceHashCache()
        first = tick(store, memory)
        spent = median(tick(store, memory) for _ in range(arguments.ticks))
        plain = obvious(store, arguments.live)
    print(f"first tick after a start: {first:.0f} ms CPU")
    return end(
        [
            Outcome(
                what=f"kickout planning, {arguments.open_count:,} open intervals, "
                f"{arguments.live:,} live kickouts",
                got=spent,
                unit="ms CPU",
                target=TARGET_MS,
                baseline=plain,
                source="reading all open intervals for each kickout",
                target_at="" if arguments.open_count >= 4000 else "4,000 open intervals",
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
