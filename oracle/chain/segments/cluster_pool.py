"""Runs workers in a Dask cluster, through `Client.get_executor()`.

The workers may be on other machines. Each worker runs a `SegmentPreparer`, one request at a time.
URLs of endpoints are not sent to workers. Instead, a worker reads the endpoints that it may use
from its own environment (decision 0215).
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

from oracle.chain.segments.process_pool import WorkerDiedError, WorkerStartError
from oracle.chain.segments.segment import RefusedSegmentError
from oracle.chain.segments.segment_request import (
    SegmentPlan,
    SegmentRequest,
    decode_request,
    encode_frame,
)
from oracle.chain.segments.worker import SegmentPreparer
from oracle.errors import InputError
from oracle.resources import format_install_command
from oracle.rpc.background import run_in_background
from oracle.telemetry.logger import get_logger

if TYPE_CHECKING:
    from distributed import Client

# The environment variable that holds the worker's endpoints, a JSON list of URLs.
ENDPOINTS_VARIABLE = "QOS_ORACLE_CHAIN__ENDPOINTS"
# The timeout for connecting to the scheduler, and the interval between attempts to reconnect.
_CONNECT_SECONDS, _RECONNECT_SECONDS = 5.0, 30.0
_CLOSE_SECONDS = 2.0
# These errors mean that a worker is unusable, because it has another version or lacks a package or
# an endpoint.
_UNUSABLE_WORKER_ERRORS = (InputError, ImportError, AttributeError)


class ClusterPool:
    """A SegmentExecutor that sends requests to a Dask cluster.

    Up to `workers` requests run concurrently. Without a scheduler, every request is refused, so
    that the writer reads the range itself.

    Raises:
        InputError: Dask is not installed.
    """

    def __init__(self, plan: SegmentPlan, scheduler: str, workers: int) -> None:
        if find_spec("distributed") is None:
            raise InputError(
                f"history.executor: Dask is not installed; run {format_install_command('dask')}"
            )
        self.plan = plan
        self.worker_count = max(1, workers)
        self._plan_frame = msgspec.msgpack.encode(plan)
        self._scheduler = scheduler
        # Each request gets a unique Dask key, because Dask would return an earlier result for a
        # repeated key.
        self._key_sequence = (f"segment-{secrets.token_hex(4)}-{number}" for number in count())
        self._lock = Lock()
        self._client: Client | None = None
        self._pending_client: Future[Client] | None = None
        self._tried_at = -_RECONNECT_SECONDS
        self._is_scheduler_missing = False
        # The Dask key of each request.
        self._key_by_future: dict[Future[bytes], str] = {}

    def submit(self, request: SegmentRequest) -> Future[bytes]:
        """Submit a request to the cluster.

        See SegmentExecutor.
        """
        answer_future: Future[bytes] = Future()
        client = self._get_or_open_client()
        if client is None:
            answer_future.set_exception(RefusedSegmentError("the Dask scheduler is not reachable"))
            return answer_future
        key = next(self._key_sequence)
        # Dask must not retry, because the writer repeats requests itself and counts dying workers.
        executor = client.get_executor(pure=False, retries=0)  # type: ignore[no-untyped-call]
        try:
            cluster_future = executor.submit(
                prepare_range_on_worker, self._plan_frame, encode_frame(request), key=key
            )
        except Exception as error:  # noqa: BLE001  # whatever it is, the writer reads the range
            answer_future.set_exception(RefusedSegmentError(f"the Dask scheduler failed: {error}"))
            return answer_future
        self._key_by_future[answer_future] = key

        def release_key(_finished: Future[bytes]) -> None:
            self._key_by_future.pop(answer_future, None)
            if answer_future.cancelled():
                cluster_future.cancel()

        answer_future.add_done_callback(release_key)
        cluster_future.add_done_callback(lambda finished: _forward_result(finished, answer_future))
        return answer_future

    def abort_request(self, future: Future[bytes]) -> None:
        """Abort a request in the cluster.

        See SegmentExecutor. A worker without a Dask nanny is not restarted.
        """
        key = self._key_by_future.get(future)
        client = self._client
        if key is None or client is None:
            return
        # Look up the workers before cancelling, because the scheduler no longer lists them
        # afterwards.
        with suppress(Exception):
            keys_by_worker = client.processing()  # type: ignore[no-untyped-call]
            workers = [worker for worker, keys in keys_by_worker.items() if key in keys]
            run_in_background(lambda: _restart_workers(client, workers), "segment worker restart")
        future.cancel()

    def close(self) -> None:
        """Close the client, but leave the cluster running."""
        with self._lock:
            client, self._client = self._client, None
            self._tried_at = float("inf")
        if client is not None:
            _close_client(client)

    def _get_or_open_client(self) -> "Client | None":
        """Return the client, reconnecting if needed, or None if no scheduler is connected."""
        with self._lock:
            client = self._client
            now = time.monotonic()
            if client is not None and client.status == "running":
                return client
            is_first_attempt = self._tried_at < 0
            if self._pending_client is None and now - self._tried_at >= _RECONNECT_SECONDS:
                self._tried_at = now
                self._pending_client = run_in_background(self._open_client, "segment scheduler")
            return self._take_opened_client(wait=is_first_attempt)

    def _take_opened_client(self, *, wait: bool) -> "Client | None":
        pending_client = self._pending_client
        if pending_client is None or not (wait or pending_client.done()):
            return None
        self._pending_client = None
        if self._client is not None:
            lost_client, self._client = self._client, None
            run_in_background(lambda: _close_client(lost_client), "segment scheduler lost")
        try:
            # No timeout here, because the client has its own.
            self._client = pending_client.result()
        except (OSError, TimeoutError, ValueError) as error:
            self._log_missing_scheduler(str(error))
            return None
        self._is_scheduler_missing = False
        return self._client

    def _open_client(self) -> "Client":
        # Dask is optional and imported only when needed.
        from distributed import Client  # noqa: PLC0415

        return Client(  # type: ignore[no-untyped-call]
            self._scheduler, timeout=_CONNECT_SECONDS, set_as_default=False
        )

    def _log_missing_scheduler(self, reason: str) -> None:
        if not self._is_scheduler_missing:
            self._is_scheduler_missing = True
            get_logger().warning("segment_scheduler_unreachable", reason=reason)


def _forward_result(cluster_future: Future[bytes], request_future: Future[bytes]) -> None:
    """Copy the cluster's result or error to a future.

    Errors are those that SegmentExecutor documents.
    """
    if not request_future.set_running_or_notify_cancel():
        return
    if cluster_future.cancelled():
        request_future.set_exception(
            RefusedSegmentError("the connection to the Dask scheduler was lost")
        )
        return
    error = cluster_future.exception()
    if error is None:
        request_future.set_result(cluster_future.result())
    elif isinstance(error, _UNUSABLE_WORKER_ERRORS):
        request_future.set_exception(
            WorkerStartError(f"workers of the cluster are not usable: {error}")
        )
    elif type(error).__name__ == "KilledWorker":
        request_future.set_exception(
            WorkerDiedError("workers of the cluster died while processing the request")
        )
    else:
        request_future.set_exception(RefusedSegmentError(f"the cluster failed: {error}"))


def _restart_workers(client: "Client", workers: list[str]) -> None:
    """Restart these Dask workers through their nannies."""
    with suppress(Exception):
        client.restart_workers(workers, timeout=_RECONNECT_SECONDS, raise_for_error=False)


def _close_client(client: "Client") -> None:
    with suppress(Exception):
        client.close(timeout=_CLOSE_SECONDS)  # type: ignore[no-untyped-call]


# --- code that runs in the cluster ---

# One request at a time per process, because counters, connections and facts are kept for a single
# request.
_order_lock = Lock()
_preparer_by_plan: dict[bytes, SegmentPreparer] = {}


def prepare_range_on_worker(plan_frame: bytes, request_frame: bytes) -> bytes:
    """Prepare a range on a cluster worker.

    The arguments and the result are encoded frames.

    Raises:
        InputError: the plan cannot be read by this version, or no endpoints are configured.
    """
    with _order_lock:
        if plan_frame not in _preparer_by_plan:
            preparer = SegmentPreparer(
                msgspec.msgpack.decode(plan_frame, type=SegmentPlan), _read_endpoint_urls()
            )
            for old_preparer in _preparer_by_plan.values():
                old_preparer.close()
            _preparer_by_plan.clear()
            _preparer_by_plan[plan_frame] = preparer
        return _preparer_by_plan[plan_frame].prepare(decode_request(request_frame))


def _read_endpoint_urls() -> list[str]:
    value = os.environ.get(ENDPOINTS_VARIABLE, "")
    try:
        urls = msgspec.json.decode(value, type=list[str])
    except msgspec.DecodeError:
        urls = []
    if not urls:
        raise InputError(
            f"{ENDPOINTS_VARIABLE}: the worker's variable must be a JSON list of endpoint URLs"
        )
    return urls
