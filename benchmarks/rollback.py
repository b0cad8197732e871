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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.windows import LOGS_PER_BLOCK, block_at, events  # noqa: E402
from oracle.domain.events.network_events import DomainEvent  # noqa: E402
from oracle.domain.fold.fold import Fold, collect_task_keys  # noqa: E402
from oracle.store.database import Store, UnitOfWork  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.postgresql import Server, find_programs  # noqa: E402

DEPTH = 64
ROUNDS = 5
AT_ONCE = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--history", type=int, default=20_000, help="number of events below the common ancestor"
    )
    parser.add_argument("--postgresql", action="store_true")
    chosen = parser.parse_args()
    here = Path(tempfile.mkdtemp(prefix="qos-bench-"))
    # PostgreSQL refuses to run as root, so the user that it runs as needs access to the folder.
    here.chmod(0o755)
    try:
        compare("sqlite", f"sqlite:///{here}/oracle.sqlite", chosen.history)
        programs = find_programs()
        if chosen.postgresql and programs is not None:
            (here / "pg").mkdir()
            with closing(Server(programs, here / "pg")) as server:
                server.create("bench", "template0")
                compare("postgresql", server.url("bench"), chosen.history)
    finally:
        shutil.rmtree(here, ignore_errors=True)


def compare(name: str, url: str, below: int) -> None:
    ancestor = below // LOGS_PER_BLOCK
    source = events()
    history = list(islice(source, ancestor * LOGS_PER_BLOCK))
    above = list(islice(source, DEPTH * LOGS_PER_BLOCK))
    with Store.open(url, create=True) as store:
        fold_anew(store, history)
        rolled_back = min(measure_rollback(store, above, ancestor) for _ in range(ROUNDS))
        after = digest(store)
        started = time.perf_counter()
        fold_anew(store, history)
        rebuilt = time.perf_counter() - started
        assert digest(store) == after
    print(
        f"{name}: {DEPTH} blocks x {LOGS_PER_BLOCK} events undone in {1000 * rolled_back:.1f} ms; "
        f"{len(history):,} events folded again in {1000 * rebuilt:,.0f} ms "
        f"({rebuilt / rolled_back:,.0f} times as long)"
    )


def measure_rollback(store: Store, above: list[DomainEvent], ancestor: int) -> float:
    """Fold the blocks above the ancestor with a journal; return the seconds of the rollback."""
    fold = Fold(CRYNUX)
    with store.transaction() as uow:
        load(uow, fold, above)
        for number, in_block in groupby(above, key=lambda event: event.at.block):
            fold.fold_block(number, list(in_block), journal=True)
        uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(CRYNUX))
        move(uow, ancestor + DEPTH)
    started = time.perf_counter()
    with store.transaction() as uow:
        uow.undo.rollback_to(ancestor)
        move(uow, ancestor)
    return time.perf_counter() - started


def fold_anew(store: Store, history: list[DomainEvent]) -> None:
    fold = Fold(CRYNUX)
    with store.transaction() as uow:
        uow.projections.clear()
        number = uow.rule_sets.get_or_assign_number(CRYNUX)
        for at in range(0, len(history), AT_ONCE):
            fold.fold_events(history[at : at + AT_ONCE])
            uow.write_changes(fold.drain_changes(), number)
        last = history[-1].at.block
        uow.undo.prune_to(last)
        move(uow, last)


def load(uow: UnitOfWork, fold: Fold, above: list[DomainEvent]) -> None:
    fold.last = uow.last_event.get()
    fold.ledger.detector = uow.incidents.load_detector()
    fold.ledger.tasks.update(uow.tasks.get_many(collect_task_keys(above)))
    fold.ledger.nodes.update({node.address: node for node in uow.nodes.iterate_all()})


def move(uow: UnitOfWork, number: int) -> None:
    cursor = uow.cursor.get()
    uow.cursor.move_to(block_at(number), None, 0 if cursor is None else cursor.epoch)


def digest(store: Store) -> str:
    with store.read_transaction() as uow:
        return uow.projections.compute_digest()


if __name__ == "__main__":
    main()
