"""Measure how fast windows with all derived rows are committed, compared with simple code.

Run: .venv/bin/python benchmarks/insert.py [--windows 50] [--logs 2000] [--postgresql]
Both write the same rows of the same windows, in one durable transaction for each window. The
simple code uses SQLAlchemy Core with dicts, and a SELECT before each node or task that it writes.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    Table,
    insert,
    select,
    update,
)

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.windows import FoldedWindow, iterate_windows  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.encoding import decode_hex, join_hashes  # noqa: E402
from oracle.store.engine import create_write_engine, parse_database_url  # noqa: E402
from oracle.store.schema import migrate  # noqa: E402
from oracle.store.state.node_repository import encode_node_row  # noqa: E402
from oracle.store.state.task_repository import encode_task_row  # noqa: E402
from oracle.store.tables import state_tables as tables  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.postgresql import Server, find_server_programs  # noqa: E402


@dataclass
class CommitCost:
    """Wall-clock and CPU seconds of this process, and the maximum size of SQLite's WAL file."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    wal_bytes: int = 0


# A function that yields, for each window, another function that commits the window.
PrepareCommits = Callable[[str, Iterable[FoldedWindow]], Iterator[Callable[[], None]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=50)
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--postgresql", action="store_true")
    arguments = parser.parse_args()
    with create_shared_folder() as folder:
        print(
            f"{arguments.windows} windows of {arguments.logs} logs; logs/s with all derived rows:"
        )
        compare_commit_rates(
            "sqlite", [f"sqlite:///{folder}/{n}.sqlite" for n in range(2)], arguments
        )
        programs = find_server_programs()
        if arguments.postgresql and programs is not None:
            (folder / "pg").mkdir()
            with closing(Server(programs, folder / "pg")) as server:
                databases = ("plain", "product")
                for name in databases:
                    server.create(name, "template0")
                urls = [server.url(name) for name in databases]
                compare_commit_rates("postgresql", urls, arguments)


def compare_commit_rates(engine_name: str, urls: list[str], arguments: argparse.Namespace) -> None:
    # The simple code is so slow that it gets fewer windows. Its rate per log does not depend on
    # their number.
    small_count = max(2, arguments.windows // 10)
    window_count = arguments.windows
    rates = []
    variants = (
        ("plain", prepare_plain_commits, small_count),
        ("product", prepare_product_commits, window_count),
    )
    for (variant, prepare_commits, count), url in zip(variants, urls, strict=True):
        commit_cost = measure_commits(
            prepare_commits, url, islice(iterate_windows(arguments.logs), count)
        )
        rates.append(count * arguments.logs / commit_cost.seconds)
        cpu_rate = count * arguments.logs / commit_cost.cpu_seconds
        wal_text = f", maximum size of the WAL {commit_cost.wal_bytes / 1e6:.0f} MB"
        print(
            f"  {engine_name:<11}{variant:<12}{rates[-1]:>9,.0f} "
            f"({cpu_rate:,.0f} by CPU time){wal_text if commit_cost.wal_bytes else ''}"
        )
    print(f"  {engine_name:<11}{rates[1] / rates[0]:.1f} times as fast as the simple code")


def measure_commits(
    prepare_commits: PrepareCommits, url: str, folded_windows: Iterable[FoldedWindow]
) -> CommitCost:
    """Commit the windows; return the cost without the time for creating windows."""
    migrate(url)
    wal_path = Path(url.removeprefix("sqlite:///") + "-wal")
    cost = CommitCost()
    for commit in prepare_commits(url, folded_windows):
        started_at = time.perf_counter()
        cpu_started_at = time.process_time()
        commit()
        cost.cpu_seconds += time.process_time() - cpu_started_at
        cost.seconds += time.perf_counter() - started_at
        cost.wal_bytes = max(cost.wal_bytes, wal_path.stat().st_size if wal_path.exists() else 0)
    return cost


def prepare_product_commits(
    url: str, folded_windows: Iterable[FoldedWindow]
) -> Iterator[Callable[[], None]]:
    with Store.open(url) as store:
        for epoch, window in enumerate(folded_windows):
            yield partial(commit_with_store, store, window, epoch)


def commit_with_store(store: Store, window: FoldedWindow, epoch: int) -> None:
    last_block = window.blocks[-1]
    with store.transaction() as uow:
        uow.logs.append(window.logs)
        uow.blocks.save([last_block])
        uow.write_changes(window.changes, uow.rule_sets.get_or_assign_number(CRYNUX))
        uow.undo.prune_journal_to(last_block.number)
        uow.cursor.move_to(last_block, last_block, epoch)


# The simple table of logs, in which every row holds all values of a log.
PLAIN_LOG = Table(
    "plain_log",
    MetaData(),
    *(Column(name, BigInteger, primary_key=True) for name in ("block", "log_index")),
    Column("block_hash", LargeBinary, primary_key=True),
    *(Column(name, BigInteger) for name in ("time", "tx_index")),
    *(Column(name, LargeBinary) for name in ("tx_hash", "address", "topics", "data")),
    Column("canonical", Boolean),
    sqlite_with_rowid=False,
)


def prepare_plain_commits(
    url: str, folded_windows: Iterable[FoldedWindow]
) -> Iterator[Callable[[], None]]:
    engine = create_write_engine(parse_database_url(url))
    PLAIN_LOG.create(engine)
    for window in folded_windows:
        yield partial(commit_with_plain_code, engine, window)
    engine.dispose()


def commit_with_plain_code(engine: Engine, window: FoldedWindow) -> None:
    with engine.begin() as connection:
        for table, rows in iterate_appended_rows(window):
            if rows:
                connection.execute(insert(table), rows)
        for node in window.changes.nodes.values():
            select_then_write(connection, tables.node, encode_node_row(node))
        for task in window.changes.tasks.values():
            select_then_write(connection, tables.task, encode_task_row(task))


def select_then_write(connection: Connection, table: Table, row: tuple[Any, ...]) -> None:
    (key,) = table.primary_key.columns
    values = dict(zip(table.columns.keys(), row, strict=True))
    if connection.execute(select(key).where(key == values[key.name])).one_or_none() is None:
        connection.execute(insert(table).values(values))
    else:
        connection.execute(update(table).where(key == values[key.name]).values(values))


def iterate_appended_rows(window: FoldedWindow) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    changes = window.changes
    yield (
        PLAIN_LOG,
        [
            {
                "block": log.block,
                "log_index": log.index,
                "block_hash": decode_hex(log.block_hash),
                "time": log.time,
                "tx_index": log.tx,
                "tx_hash": decode_hex(log.tx_hash),
                "address": decode_hex(log.address),
                "topics": join_hashes(log.topics),
                "data": decode_hex(log.data),
                "canonical": True,
            }
            for log in window.logs
        ],
    )
    yield (
        tables.score,
        [
            build_row(
                score.at,
                time=score.time,
                node=decode_hex(score.node),
                seq=score.seq,
                task=decode_hex(score.task),
            )
            | {"task_group": decode_hex(score.group), "rank": score.rank, "elapsed": score.elapsed}
            | {"score": score.score}
            for score in changes.scores
        ],
    )
    yield (
        tables.reliability_change,
        [
            build_row(
                score.at,
                time=score.time,
                seq=0,
                node=decode_hex(score.node),
                cause=score.cause.value,
            )
            | {"task": None if score.task is None else decode_hex(score.task)}
            | {"h_before": score.before, "h_after": score.after}
            for score in changes.reliability
        ],
    )
    yield (
        tables.group_result,
        [
            build_row(
                score.closed_at,
                time=score.time,
                task_group=decode_hex(score.group),
                scored=score.scored,
            )
            for score in changes.results
        ],
    )
    yield (
        tables.group_member,
        [
            build_row(
                score.closed_at, place=number, task=decode_hex(member.task), rank=member.rank
            )
            | {"node": None if member.node is None else decode_hex(member.node)}
            | {"elapsed": member.elapsed, "score": member.score}
            for score in changes.results
            for number, member in enumerate(score.members)
        ],
    )


def build_row(position: tuple[int, int, int, int], **values: object) -> dict[str, Any]:
    return dict(zip(("block", "tx", "log", "sub"), position, strict=True)) | values


@contextmanager
def create_shared_folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="qos-bench-"))
    # PostgreSQL refuses to run as root, so another user must be able to enter the folder.
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
