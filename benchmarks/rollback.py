"""Measure how fast a reorg of 64 blocks is undone, compared with folding everything again.

Run: .venv/bin/python benchmarks/rollback.py [--history 20000] [--postgresql]
Each block has 20 events. The baseline, which needs no undo journal, deletes the state and folds
the history up to the common ancestor again. Both must result in the same bytes, which is checked.
"""

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import closing
from itertools import groupby, islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.windows import LOGS_PER_BLOCK, build_block_ref, iterate_events  # noqa: E402
from oracle.domain.events.network_events import DomainEvent  # noqa: E402
from oracle.domain.fold.fold import Fold, collect_task_keys  # noqa: E402
from oracle.store.database import Store, UnitOfWork  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.postgresql import Server, find_server_programs  # noqa: E402

DEPTH = 64
ROUNDS = 5
EVENTS_PER_WRITE = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--history", type=int, default=20_000, help="number of events below the common ancestor"
    )
    parser.add_argument("--postgresql", action="store_true")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="qos-bench-"))
    # PostgreSQL refuses to run as root, so another user must be able to enter the folder.
    folder.chmod(0o755)
    try:
        compare_rollback_with_refold(
            "sqlite", f"sqlite:///{folder}/oracle.sqlite", arguments.history
        )
        programs = find_server_programs()
        if arguments.postgresql and programs is not None:
            (folder / "pg").mkdir()
            with closing(Server(programs, folder / "pg")) as server:
                server.create("bench", "template0")
                compare_rollback_with_refold("postgresql", server.url("bench"), arguments.history)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare_rollback_with_refold(engine: str, url: str, history_events: int) -> None:
    ancestor_number = history_events // LOGS_PER_BLOCK
    event_source = iterate_events()
    history = list(islice(event_source, ancestor_number * LOGS_PER_BLOCK))
    reorged_events = list(islice(event_source, DEPTH * LOGS_PER_BLOCK))
    with Store.open(url, create=True) as store:
        refold_history(store, history)
        rollback_seconds = min(
            measure_rollback_seconds(store, reorged_events, ancestor_number) for _ in range(ROUNDS)
        )
        digest_after_rollback = compute_projections_digest(store)
        start = time.perf_counter()
        refold_history(store, history)
        refold_seconds = time.perf_counter() - start
        assert compute_projections_digest(store) == digest_after_rollback
    print(
        f"{engine}: {DEPTH} blocks x {LOGS_PER_BLOCK} events undone in "
        f"{1000 * rollback_seconds:.1f} ms; {len(history):,} events folded again in "
        f"{1000 * refold_seconds:,.0f} ms "
        f"({refold_seconds / rollback_seconds:,.0f} times as long)"
    )


def measure_rollback_seconds(
    store: Store, reorged_events: list[DomainEvent], ancestor: int
) -> float:
    """Return the seconds to roll back the blocks above the ancestor by their undo journal."""
    fold = Fold(CRYNUX)
    with store.transaction() as uow:
        load_state(uow, fold, reorged_events)
        for number, in_block in groupby(reorged_events, key=lambda event: event.at.block):
            fold.fold_block(number, list(in_block), journal=True)
        uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(CRYNUX))
        move_cursor(uow, ancestor + DEPTH)
    start = time.perf_counter()
    with store.transaction() as uow:
        uow.undo.rollback_to(ancestor)
        move_cursor(uow, ancestor)
    return time.perf_counter() - start


def refold_history(store: Store, history: list[DomainEvent]) -> None:
    fold = Fold(CRYNUX)
    with store.transaction() as uow:
        uow.projections.clear()
        number = uow.rule_sets.get_or_assign_number(CRYNUX)
        for offset in range(0, len(history), EVENTS_PER_WRITE):
            fold.fold_events(history[offset : offset + EVENTS_PER_WRITE])
            uow.write_changes(fold.drain_changes(), number)
        last_block = history[-1].at.block
        uow.undo.prune_journal_to(last_block)
        move_cursor(uow, last_block)


def load_state(uow: UnitOfWork, fold: Fold, reorged_events: list[DomainEvent]) -> None:
    fold.last = uow.last_event.get()
    fold.ledger.detector = uow.incidents.load_detector()
    fold.ledger.tasks.update(uow.tasks.get_many(collect_task_keys(reorged_events)))
    fold.ledger.nodes.update({node.address: node for node in uow.nodes.iterate_all()})


def move_cursor(uow: UnitOfWork, number: int) -> None:
    cursor = uow.cursor.get()
    uow.cursor.move_to(build_block_ref(number), None, 0 if cursor is None else cursor.epoch)


def compute_projections_digest(store: Store) -> str:
    with store.read_transaction() as uow:
        return uow.projections.compute_digest()


if __name__ == "__main__":
    main()
