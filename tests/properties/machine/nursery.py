"""A single-threaded process that has everything imported, and forks indexers that may be killed.

Run by `tests.properties.machine.mortal`, which writes jobs, one per line, and reads their
results. A fork costs a fiftieth of a new interpreter, and dies in the same way.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from oracle.store.database import Store
from oracle.store.schema import migrate
from tests.support.ingest.indexer import Indexer
from tests.unit.store import later

# These functions return repositories.
_NO_ROOMS = {"oracle.store.database", "oracle.store.engine"}
# The beginnings of statements that only read.
_READS = ("SELECT", "PRAGMA", "SHOW")


class Countdown:
    """Kills this process before its n-th point, or before a point of this name; None: never."""

    def __init__(self, die_at: int | str | None, report_fd: int) -> None:
        self.points: list[str] = []
        self._die_at = die_at
        self._told = report_fd

    def reached(self, point: str) -> None:
        """Record a point, or die here as by `kill -9`; repeats within one method are one point."""
        if self.points[-1:] == [point]:
            return
        if self._die_at in {len(self.points), point}:
            # The size of an atomic write to a pipe.
            os.write(self._told, json.dumps({"died_at": point[:200]}).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        self.points.append(point)


def watch(store: Store, reached: Callable[[str], None]) -> None:
    """Report each writing transaction before it begins, before its commit, and at its end."""
    engine = store._write_engine

    def before_statement(connection: Connection, *_: object) -> None:
        reached(_room())

    def before_commit(connection: Connection) -> None:
        reached("commit")

    def after_all(*_: object) -> None:
        reached("committed")

    event.listen(engine, "before_cursor_execute", before_statement)
    event.listen(engine, "commit", before_commit)
    event.listen(engine, "checkin", after_all)


def watch_writes(reached: Callable[[str], None]) -> None:
    """Report every SQL statement that writes, of every engine, and every commit.

    A process that dies before it reads leaves the same database as one that dies before it writes
    next.
    """

    def before_statement(_: Connection, __: object, statement: str, *___: object) -> None:
        text = " ".join(statement.split())
        if not text.startswith(_READS):
            reached(text)

    def before_commit(_: Connection) -> None:
        reached("commit")

    event.listen(Engine, "before_cursor_execute", before_statement)
    event.listen(Engine, "commit", before_commit)


def _room() -> str:
    """Return the repository of the store and its method that issued the current statement."""
    outermost = "begin"
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        room = frame.f_locals.get("self")
        module = type(room).__module__
        if module.startswith("oracle.store.") and module not in _NO_ROOMS:
            outermost = f"{type(room).__name__}.{frame.f_code.co_name}"
    return outermost


def _index(job: dict[str, Any], countdown: Countdown) -> list[str]:
    """Index until nothing is left; return the steps."""
    indexer = Indexer(job["urls"], job["url"])
    watch(indexer.store, countdown.reached)
    steps = [type(step).__name__ for step in indexer.index()]
    indexer.close()
    return steps


def _migrate(job: dict[str, Any], countdown: Countdown) -> list[str]:
    """Migrate the schema; return the previous revision."""
    watch_writes(countdown.reached)
    if job["migrations"] is not None:
        later.release(pytest.MonkeyPatch(), Path(job["migrations"]))
    return [migrate(job["url"]).age.value]


_DEEDS = {"index": _index, "migrate": _migrate}


def _live(job: dict[str, Any], report_fd: int) -> None:
    """Run the job in a separate process."""
    countdown = Countdown(job["die_at"], report_fd)
    steps = _DEEDS[job["deed"]](job, countdown)
    os.write(report_fd, json.dumps({"points": countdown.points, "steps": steps}).encode())


def _born(job: dict[str, Any]) -> dict[str, Any]:
    """Fork, wait for the child, and return its exit status and its output."""
    received, report_fd = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(received)
            _live(job, report_fd)
            os._exit(0)
        except BaseException:  # noqa: BLE001  # nothing may run on into the parent's loop
            os.write(report_fd, json.dumps({"fault": traceback.format_exc()}).encode())
            os._exit(1)
    os.close(report_fd)
    with os.fdopen(received, "rb") as ear:
        report_json = ear.read()
    _, status = os.waitpid(child, 0)
    ended = {"killed_by": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"killed_by": None}
    return {**ended, **json.loads(report_json or b"{}")}


def main() -> None:
    """Run jobs until the input ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_born(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
