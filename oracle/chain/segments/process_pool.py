"""Runs workers as local processes, each handling one request at a time.

A `ProcessPoolExecutor` is not used. With plain child processes and pipes, a worker that dies loses
only its own request, a worker that hangs can be killed alone, and no worker outlives the writer
(decision 0199).
"""

import subprocess
from collections.abc import Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Protocol

from oracle.chain.segments.segment_request import (
    MAX_FRAME_BYTES,
    FrameError,
    SegmentPlan,
    SegmentRequest,
    WorkerSetup,
    encode_frame,
    read_frame,
    write_frame,
)
from oracle.chain.segments.worker import READY_MESSAGE
from oracle.chain.segments.worker_process import start_worker_process
from oracle.errors import OracleError

# A worker exits after being idle this long, and is started again when needed.
IDLE_SECONDS = 60.0
_JOIN_SECONDS = 2.0
_WORKER_MODULE = "oracle.chain.segments.worker"


class WorkerDiedError(OracleError):
    """A worker ended while processing a request."""


class WorkerStartError(OracleError):
    """A worker could not be started."""


class SegmentExecutor(Protocol):
    """The interface of a worker pool, similar to `concurrent.futures.Executor`."""

    @property
    def worker_count(self) -> int:
        """The number of requests processed concurrently."""
        ...

    @property
    def plan(self) -> SegmentPlan:
        """The plan that all requests share."""
        ...

    def submit(self, request: SegmentRequest) -> Future[bytes]:
        """Submit a request.

        The future returns the bytes of `SegmentPreparer.prepare`. This method raises no error. The
        future raises WorkerDiedError if the worker of the request died, and WorkerStartError if no
        worker can be started.
        """
        ...

    def abort_request(self, future: Future[bytes]) -> None:
        """Kill the worker of a request that takes too long or got an invalid answer."""
        ...

    def close(self) -> None:
        """End all workers, dropping pending requests."""
        ...


class ProcessPool:
    """A SegmentExecutor with up to `workers` processes.

    The processes are started when needed.
    """

    def __init__(self, plan: SegmentPlan, urls: Sequence[str], workers: int) -> None:
        self.plan = plan
        self.worker_count = max(1, workers)
        setup_frame = encode_frame(WorkerSetup(plan, tuple(urls)))
        self._requests: SimpleQueue[_QueuedRequest | None] = SimpleQueue()
        self._workers = [_Worker(setup_frame, self._requests) for _ in range(self.worker_count)]

    def submit(self, request: SegmentRequest) -> Future[bytes]:
        """Queue a request.

        See SegmentExecutor.
        """
        queued_request = _QueuedRequest(encode_frame(request))
        for worker in self._workers:
            worker.start_thread()
        self._requests.put(queued_request)
        return queued_request.future

    def abort_request(self, future: Future[bytes]) -> None:
        """Abort a request.

        See SegmentExecutor.
        """
        future.cancel()
        for worker in self._workers:
            worker.kill_if_assigned(future)

    def close(self) -> None:
        """End all workers.

        See SegmentExecutor.
        """
        for _ in self._workers:
            self._requests.put(None)
        for worker in self._workers:
            worker.close()


class _QueuedRequest:
    """A queued request, with its serialised bytes and the future of its answer.

    A worker gives the answer.
    """

    __slots__ = ("frame", "future")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.future: Future[bytes] = Future()


class _Worker:
    """A worker process, and the thread that communicates with it."""

    def __init__(self, setup_frame: bytes, requests: "SimpleQueue[_QueuedRequest | None]") -> None:
        self._setup_frame, self._requests = setup_frame, requests
        self._thread: Thread | None = None
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # The future of the current request or, between requests, of the last one.
        self._current_future: Future[bytes] | None = None
        self._is_closed = False

    def start_thread(self) -> None:
        """Start the thread if it has not been started."""
        if self._thread is None:
            self._thread = Thread(
                target=self._process_requests, name="segment worker", daemon=True
            )
            self._thread.start()

    def kill_if_assigned(self, future: Future[bytes]) -> None:
        """Kill the process if `future` belongs to its current or last request."""
        with self._lock:
            if self._current_future is future and self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        self._end_worker_process()

    def _process_requests(self) -> None:
        while not self._is_closed:
            try:
                queued_request = self._requests.get(timeout=IDLE_SECONDS)
            except Empty:
                self._end_worker_process()
                continue
            if queued_request is None:
                return
            if queued_request.future.set_running_or_notify_cancel():
                self._execute_request(queued_request)

    def _execute_request(self, queued_request: _QueuedRequest) -> None:
        try:
            process = self._ensure_worker_process()
        except (OSError, FrameError) as error:
            self._end_worker_process()
            queued_request.future.set_exception(
                WorkerStartError(f"a worker failed to start: {error}")
            )
            return
        with self._lock:
            self._current_future = queued_request.future
        assert process.stdin is not None  # noqa: S101  # opened with pipes
        assert process.stdout is not None  # noqa: S101
        try:
            write_frame(process.stdin, queued_request.frame)  # type: ignore[arg-type]  # a binary pipe
            answer = read_frame(process.stdout, MAX_FRAME_BYTES)  # type: ignore[arg-type]
        except (OSError, FrameError, ValueError):
            answer = None
        if answer is None:
            self._end_worker_process()
            queued_request.future.set_exception(
                WorkerDiedError("a worker died while preparing a range")
            )
        else:
            queued_request.future.set_result(answer)

    def _ensure_worker_process(self) -> "subprocess.Popen[bytes]":
        """Return the worker process, starting it if necessary.

        Raises:
            OSError, FrameError: the process cannot be started, or does not report that it is
            ready.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            if self._is_closed:
                raise FrameError("the worker pool is closed")
        self._end_worker_process()
        process = start_worker_process(_WORKER_MODULE)
        with self._lock:
            self._process = process
        assert process.stdin is not None  # noqa: S101  # opened with pipes
        assert process.stdout is not None  # noqa: S101
        write_frame(process.stdin, self._setup_frame)  # type: ignore[arg-type]  # a binary pipe
        if read_frame(process.stdout, MAX_FRAME_BYTES) != READY_MESSAGE:  # type: ignore[arg-type]
            raise FrameError("the worker exited before it was ready")
        return process

    def _end_worker_process(self) -> None:
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
                    # The dead process left part of a request in the pipe.
                    continue
