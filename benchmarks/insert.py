"""Measure how fast windows are committed with all derived rows, compared with simple code.

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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.windows import FoldedWindow, windows  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.encoding import decode_hex, join_hashes  # noqa: E402
from oracle.store.engine import create_write_engine, parse_database_url  # noqa: E402
from oracle.store.schema import migrate  # noqa: E402
from oracle.store.state.node_repository import encode_node_row  # noqa: E402
from oracle.store.state.task_repository import encode_task_row  # noqa: E402
from oracle.store.tables import state_tables as tables  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.postgresql import Server, find_programs  # noqa: E402


@dataclass
class Took:
    """Wall-clock and CPU seconds of this process, and the maximum size of SQLite's WAL file."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    wal_bytes: int = 0


# A function that yields, for each window, a function that commits it.
Commit = Callable[[str, Iterable[FoldedWindow]], Iterator[Callable[[], None]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=50)
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--postgresql", action="store_true")
    chosen = parser.parse_args()
    with folder() as here:
        print(f"{chosen.windows} windows of {chosen.logs} logs; logs/s with all derived rows:")
        compare("sqlite", [f"sqlite:///{here}/{n}.sqlite" for n in range(2)], chosen)
        programs = find_programs()
        if chosen.postgresql and programs is not None:
            (here / "pg").mkdir()
            with closing(Server(programs, here / "pg")) as server:
                for name in ("obvious", "ours"):
                    server.create(name, "template0")
                compare("postgresql", [server.url(n) for n in ("obvious", "ours")], chosen)


def compare(name: str, urls: list[str], chosen: argparse.Namespace) -> None:
    # The simple code is slow, so it gets fewer windows; its rate per log stays the same.
    few, many = max(2, chosen.windows // 10), chosen.windows
    rates = []
    for insert_windows, url, number in zip((obvious_way, our_way), urls, (few, many), strict=True):
        took = timed(insert_windows, url, islice(windows(chosen.logs), number))
        rates.append(number * chosen.logs / took.seconds)
        cpu = number * chosen.logs / took.cpu_seconds
        wal = f", maximum size of the WAL {took.wal_bytes / 1e6:.0f} MB" * bool(took.wal_bytes)
        print(
            f"  {name:<11}{insert_windows.__name__:<12}{rates[-1]:>9,.0f} "
            f"({cpu:,.0f} by CPU time){wal}"
        )
    print(f"  {name:<11}{rates[1] / rates[0]:.1f} times as fast as the simple code")


def timed(commit: Commit, url: str, history: Iterable[FoldedWindow]) -> Took:
    """Return the time of the commits, without the time to create the next window."""
    migrate(url)
    wal = Path(url.removeprefix("sqlite:///") + "-wal")
    took = Took()
    for write in commit(url, history):
        started, cpu_started = time.perf_counter(), time.process_time()
        write()
        took.cpu_seconds += time.process_time() - cpu_started
        took.seconds += time.perf_counter() - started
        took.wal_bytes = max(took.wal_bytes, wal.stat().st_size if wal.exists() else 0)
    return took


def our_way(url: str, history: Iterable[FoldedWindow]) -> Iterator[Callable[[], None]]:
    with Store.open(url) as store:
        for epoch, window in enumerate(history):
            yield partial(write_ours, store, window, epoch)


def write_ours(store: Store, window: FoldedWindow, epoch: int) -> None:
    last = window.blocks[-1]
    with store.transaction() as uow:
        uow.logs.append(window.logs)
        uow.blocks.save([last])
        uow.write_changes(window.changes, uow.rule_sets.get_or_assign_number(CRYNUX))
        uow.undo.prune_to(last.number)
        uow.cursor.move_to(last, last, epoch)


# The simple table of logs: every row contains all of a log's values.
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


def obvious_way(url: str, history: Iterable[FoldedWindow]) -> Iterator[Callable[[], None]]:
    engine = create_write_engine(parse_database_url(url))
    PLAIN_LOG.create(engine)
    for window in history:
        yield partial(write_obviously, engine, window)
    engine.dispose()


def write_obviously(engine: Engine, window: FoldedWindow) -> None:
    with engine.begin() as connection:
        for table, rows in appended(window):
            if rows:
                connection.execute(insert(table), rows)
        for node in window.changes.nodes.values():
            look_and_write(connection, tables.node, encode_node_row(node))
        for task in window.changes.tasks.values():
            look_and_write(connection, tables.task, encode_task_row(task))


def look_and_write(connection: Connection, table: Table, row: tuple[Any, ...]) -> None:
    (key,) = table.primary_key.columns
    values = dict(zip(table.columns.keys(), row, strict=True))
    if connection.execute(select(key).where(key == values[key.name])).one_or_none() is None:
        connection.execute(insert(table).values(values))
    else:
        connection.execute(update(table).where(key == values[key.name]).values(values))


def appended(window: FoldedWindow) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
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
            place(
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
            place(
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
            place(
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
            place(score.closed_at, place=number, task=decode_hex(member.task), rank=member.rank)
            | {"node": None if member.node is None else decode_hex(member.node)}
            | {"elapsed": member.elapsed, "score": member.score}
            for score in changes.results
            for number, member in enumerate(score.members)
        ],
    )


def place(at: tuple[int, int, int, int], **values: object) -> dict[str, Any]:
    return dict(zip(("block", "tx", "log", "sub"), at, strict=True)) | values


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="qos-bench-"))
    # PostgreSQL refuses to run as root, so the user that it runs as needs access to the folder.
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
