"""Workers in a Dask cluster, which may be on other machines; uses `Client.get_executor()`.

Each worker runs `preparing`, one order at a time. Endpoint URLs are not sent: a worker reads the
endpoints that it may use from its own environment (decision 0215).
"""

import os
import secrets
import time
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

import msgspec
import structlog

from oracle.chain.segments.frames import frame_of, order_of
from oracle.chain.segments.order import SegmentOrder, SegmentPlan
from oracle.chain.segments.preparing import Preparer
from oracle.chain.segments.process_pool import NoWorkersError, WorkerDiedError
from oracle.chain.segments.segment import RefusedSegmentError
from oracle.errors import InputError
from oracle.resources import extra_command
from oracle.rpc.background import in_background

if TYPE_CHECKING:
    from distributed import Client

# Environment variable with the worker's endpoints, a JSON list as in the daemon's settings.
ENDPOINTS_VARIABLE = "QOS_ORACLE_CHAIN__ENDPOINTS"
# Connection timeout of the scheduler, and the interval of reconnects.
_PATIENCE_SECONDS, _AGAIN_SECONDS = 5.0, 30.0
_LEAVING_SECONDS = 2.0
# Errors of workers that are unusable: another version, missing package, no endpoints.
_UNFIT = (InputError, ImportError, AttributeError)


class ClusterPool:
    """The SegmentExecutor of a Dask cluster; up to `workers` orders are submitted at once.

    Without a scheduler every order is refused, and the writer reads the range itself.

    Raises:
        InputError: Dask is not installed.
    """

    def __init__(self, plan: SegmentPlan, scheduler: str, workers: int) -> None:
        if find_spec("distributed") is None:
            raise InputError(
                f"history.executor: Dask is not installed; run {extra_command('dask')}"
            )
        self.plan, self.workers = plan, max(1, workers)
        self._plan_frame = msgspec.msgpack.encode(plan)
        self._scheduler = scheduler
        # Keys are unique, so that a repeated order never gets the result of an earlier one.
        self._names = (f"segment-{secrets.token_hex(4)}-{number}" for number in count())
        self._lock = Lock()
        self._client: Client | None = None
        self._opening: Future[Client] | None = None
        self._tried_at = -_AGAIN_SECONDS
        self._is_missing = False
        # The cluster's key of each order, by the order's future.
        self._keys: dict[Future[bytes], str] = {}

    def submit(self, order: SegmentOrder) -> Future[bytes]:
        """Submit an order; see SegmentExecutor."""
        answer: Future[bytes] = Future()
        client = self._connected()
        if client is None:
            answer.set_exception(RefusedSegmentError("no scheduler is there"))
            return answer
        key = next(self._names)
        # The writer counts worker deaths per range, and repeats the order itself.
        executor = client.get_executor(pure=False, retries=0)  # type: ignore[no-untyped-call]
        try:
            there = executor.submit(prepared, self._plan_frame, frame_of(order), key=key)
        except Exception as error:  # noqa: BLE001  # whatever it is, the writer reads the range
            answer.set_exception(RefusedSegmentError(f"the scheduler takes no order: {error}"))
            return answer
        self._keys[answer] = key

        def given_back(_done: Future[bytes]) -> None:
            self._keys.pop(answer, None)
            if answer.cancelled():
                there.cancel()

        answer.add_done_callback(given_back)
        there.add_done_callback(lambda done: _hand_over(done, answer))
        return answer

    def give_up(self, future: Future[bytes]) -> None:
        """Abort an order; see SegmentExecutor. A worker without a nanny runs on, unused."""
        key, client = self._keys.get(future), self._client
        if key is None or client is None:
            return
        # Look up the workers before cancelling: afterwards the scheduler no longer lists them.
        with suppress(Exception):
            at_work = client.processing()  # type: ignore[no-untyped-call]
            workers = [worker for worker, keys in at_work.items() if key in keys]
            in_background(lambda: _restarted(client, workers), "segment worker restart")
        future.cancel()

    def close(self) -> None:
        """Close the client; the cluster keeps running."""
        with self._lock:
            client, self._client = self._client, None
            self._tried_at = float("inf")
        if client is not None:
            _closed(client)

    def _connected(self) -> "Client | None":
        """Return the client, or None if there is none now; a reconnect is then attempted."""
        with self._lock:
            client, now = self._client, time.monotonic()
            if client is not None and client.status == "running":
                return client
            is_first = self._tried_at < 0
            if self._opening is None and now - self._tried_at >= _AGAIN_SECONDS:
                self._tried_at = now
                self._opening = in_background(self._open, "segment scheduler")
            return self._opened(wait=is_first)

    def _opened(self, *, wait: bool) -> "Client | None":
        opening = self._opening
        if opening is None or not (wait or opening.done()):
            return None
        self._opening = None
        if self._client is not None:
            lost, self._client = self._client, None
            in_background(lambda: _closed(lost), "segment scheduler lost")
        try:
            # The client has its own timeout.
            self._client = opening.result()
        except (OSError, TimeoutError, ValueError) as error:
            self._note_missing(str(error))
            return None
        self._is_missing = False
        return self._client

    def _open(self) -> "Client":
        # An optional dependency, imported only when needed.
        from distributed import Client  # noqa: PLC0415

        return Client(  # type: ignore[no-untyped-call]
            self._scheduler, timeout=_PATIENCE_SECONDS, set_as_default=False
        )

    def _note_missing(self, reason: str) -> None:
        if not self._is_missing:
            self._is_missing = True
            structlog.get_logger().warning("segment_scheduler_unreachable", reason=reason)


def _hand_over(done: Future[bytes], answer: Future[bytes]) -> None:
    """Copy the cluster's result to the order's future, with SegmentExecutor exceptions."""
    if not answer.set_running_or_notify_cancel():
        return
    if done.cancelled():
        answer.set_exception(RefusedSegmentError("the scheduler is gone, and the order with it"))
        return
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    elif isinstance(error, _UNFIT):
        answer.set_exception(NoWorkersError(f"the cluster cannot work for us: {error}"))
    elif type(error).__name__ == "KilledWorker":
        answer.set_exception(WorkerDiedError("workers of the cluster died at their order"))
    else:
        answer.set_exception(RefusedSegmentError(f"the cluster failed: {error}"))


def _restarted(client: "Client", workers: list[str]) -> None:
    """Restart these workers through their nannies."""
    with suppress(Exception):
        client.restart_workers(workers, timeout=_AGAIN_SECONDS, raise_for_error=False)


def _closed(client: "Client") -> None:
    with suppress(Exception):
        client.close(timeout=_LEAVING_SECONDS)  # type: ignore[no-untyped-call]


# --- code that runs in the cluster ---

# One order at a time per process: counters, connections and facts belong to a single order.
_working = Lock()
_preparers: dict[bytes, Preparer] = {}


def prepared(plan: bytes, order: bytes) -> bytes:
    """Prepare a range in a worker of the cluster; arguments and result are frames.

    Raises:
        InputError: the plan cannot be read by this version, or no endpoints are configured.
    """
    with _working:
        if plan not in _preparers:
            preparer = Preparer(msgspec.msgpack.decode(plan, type=SegmentPlan), _endpoints())
            for other in _preparers.values():
                other.close()
            _preparers.clear()
            _preparers[plan] = preparer
        return _preparers[plan].prepare(order_of(order))


def _endpoints() -> list[str]:
    told = os.environ.get(ENDPOINTS_VARIABLE, "")
    try:
        urls = msgspec.json.decode(told, type=list[str])
    except msgspec.DecodeError:
        urls = []
    if not urls:
        raise InputError(f"a worker needs {ENDPOINTS_VARIABLE}, the endpoints as a list in JSON")
    return urls
