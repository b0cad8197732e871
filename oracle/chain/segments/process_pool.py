"""Workers in processes of this machine, one order each at a time.

Workers are plain child processes with pipes instead of a `ProcessPoolExecutor`: one that dies
loses only its own order, one that hangs is killed alone, and none outlives the writer
(decision 0199).
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Protocol

import oracle
from oracle.chain.segments.frames import (
    MOST_FRAME,
    FrameError,
    Opening,
    frame_of,
    read_frame,
    write_frame,
)
from oracle.chain.segments.order import SegmentOrder, SegmentPlan
from oracle.chain.segments.worker import READY
from oracle.errors import OracleError

# Idle time after which a worker ends; it is started again when needed.
IDLE_SECONDS = 60.0
_LEAVING_SECONDS = 2.0
# A worker signs nothing and opens no database, so it gets only the variables listed here. A key
# may have any name (`keys.signer_env`, `AWS_SECRET_ACCESS_KEY`, `PGPASSWORD`), so a list of
# excluded names would not be safe.
_NEEDED = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
    # Variables for connections: certificates, and credentials by host.
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"}
)
_NEEDED_PREFIXES = ("LC_", "PYTHON")
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})


class WorkerDiedError(OracleError):
    """A worker ended in the middle of an order."""


class NoWorkersError(OracleError):
    """A worker could not be started."""


class SegmentExecutor(Protocol):
    """The interface of worker pools: the part of `concurrent.futures` that is needed."""

    @property
    def workers(self) -> int:
        """How many orders are processed at once."""
        ...

    @property
    def plan(self) -> SegmentPlan:
        """The plan of all its orders."""
        ...

    def submit(self, order: SegmentOrder) -> Future[bytes]:
        """Have a range prepared; the result is that of `SegmentPreparer.prepare`. Raises nothing.

        The future raises WorkerDiedError if the worker with the order died, and WorkerStartError
        if no worker can be started.
        """
        ...

    def give_up(self, future: Future[bytes]) -> None:
        """End the worker of this order, which takes too long or gave an invalid answer."""
        ...

    def close(self) -> None:
        """End all workers; pending orders are dropped."""
        ...


class ProcessPool:
    """A SegmentExecutor with up to `workers` processes, started when first needed."""

    def __init__(self, plan: SegmentPlan, urls: Sequence[str], workers: int) -> None:
        self.plan, self.workers = plan, max(1, workers)
        opening = frame_of(Opening(plan, tuple(urls)))
        self._orders: SimpleQueue[_Ordered | None] = SimpleQueue()
        self._all = [_Worker(opening, self._orders) for _ in range(self.workers)]

    def submit(self, order: SegmentOrder) -> Future[bytes]:
        """Queue an order; see SegmentExecutor."""
        ordered = _Ordered(frame_of(order))
        for worker in self._all:
            worker.begin()
        self._orders.put(ordered)
        return ordered.future

    def give_up(self, future: Future[bytes]) -> None:
        """Abort an order; see SegmentExecutor."""
        future.cancel()
        for worker in self._all:
            worker.kill_if_at(future)

    def pids(self) -> list[int]:
        """Return the process ids of the running workers."""
        return [pid for worker in self._all if (pid := worker.pid()) is not None]

    def close(self) -> None:
        """End all workers; see SegmentExecutor."""
        for _ in self._all:
            self._orders.put(None)
        for worker in self._all:
            worker.close()


class _Ordered:
    """One order's bytes, and the future of its answer."""

    __slots__ = ("frame", "future")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.future: Future[bytes] = Future()


class _Worker:
    """One worker process, and the thread that communicates with it."""

    def __init__(self, opening: bytes, orders: "SimpleQueue[_Ordered | None]") -> None:
        self._opening, self._orders = opening, orders
        self._thread: Thread | None = None
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # The future of the order in progress, or of the last one.
        self._at: Future[bytes] | None = None
        self._is_closed = False

    def begin(self) -> None:
        """Start the thread, unless it was started already."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="segment worker", daemon=True)
            self._thread.start()

    def pid(self) -> int | None:
        """Return the process id, or None if it does not run."""
        with self._lock:
            return None if self._process is None else self._process.pid

    def kill_if_at(self, future: Future[bytes]) -> None:
        """Kill the process if it has this order, or had it last."""
        with self._lock:
            if self._at is future and self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        if self._thread is not None:
            self._thread.join(_LEAVING_SECONDS)
        self._end()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                ordered = self._orders.get(timeout=IDLE_SECONDS)
            except Empty:
                self._end()
                continue
            if ordered is None:
                return
            if ordered.future.set_running_or_notify_cancel():
                self._work(ordered)

    def _work(self, ordered: _Ordered) -> None:
        try:
            process = self._opened()
        except (OSError, FrameError) as error:
            self._end()
            ordered.future.set_exception(NoWorkersError(f"a worker does not start: {error}"))
            return
        with self._lock:
            self._at = ordered.future
        assert process.stdin is not None  # noqa: S101  # opened with pipes
        assert process.stdout is not None  # noqa: S101
        try:
            write_frame(process.stdin, ordered.frame)  # type: ignore[arg-type]  # a binary pipe
            answer = read_frame(process.stdout, MOST_FRAME)  # type: ignore[arg-type]
        except (OSError, FrameError, ValueError):
            answer = None
        if answer is None:
            self._end()
            ordered.future.set_exception(WorkerDiedError("a worker died at its order"))
        else:
            ordered.future.set_result(answer)

    def _opened(self) -> "subprocess.Popen[bytes]":
        """Return the worker process; start it if it does not run.

        Raises:
            OSError, FrameError: the process cannot be started, or does not report that it is
            ready.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            if self._is_closed:
                raise FrameError("closed")
        self._end()
        process = _started()
        with self._lock:
            self._process = process
        assert process.stdin is not None  # noqa: S101  # opened with pipes
        assert process.stdout is not None  # noqa: S101
        write_frame(process.stdin, self._opening)  # type: ignore[arg-type]  # a binary pipe
        if read_frame(process.stdout, MOST_FRAME) != READY:  # type: ignore[arg-type]
            raise FrameError("it ended before it was ready")
        return process

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    # The pipe still contained part of an order.
                    continue


def _started() -> "subprocess.Popen[bytes]":
    """Start a worker process of this package, with only the listed environment variables."""
    environment = {name: value for name, value in os.environ.items() if _is_needed(name)}
    home = str(Path(oracle.__file__).resolve().parents[1])
    known = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = home if not known else os.pathsep.join((home, known))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "oracle.chain.segments.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


def _is_needed(name: str) -> bool:
    """Return whether a worker gets this environment variable."""
    return name in _NEEDED or name.upper() in _PROXIES or name.startswith(_NEEDED_PREFIXES)
