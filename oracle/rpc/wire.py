"""JSON-RPC over HTTP: numbered requests, one HTTP exchange, typed responses.

`BatchSize` learns the batch size that an endpoint accepts from its refusals
(docs/explanation/ingest.md#ranges).
"""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from oracle.rpc.replies import Reply, decoder_of, is_mistaken, snippet
from oracle.rpc.rpc_errors import (
    ErrorKind,
    RpcError,
    above_limit,
    from_body,
    from_fault,
    from_status,
)
from oracle.rpc.transport import BoundedHttp, shown
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS

T = TypeVar("T")

# A response must be complete within this many times the timeout for its first byte.
_WHOLE = 3
# The initial batch size; an endpoint that refuses it gets smaller batches from then on.
BATCH = 100
# Batches up to this size are not made smaller because of a rate limit or a timeout alone.
_LEAST_THROTTLED = 10
# Kinds of a batch refused as a whole for its size: a smaller one may pass without more tests.
_OF_ITS_SIZE = {ErrorKind.TOO_LARGE, ErrorKind.THROTTLED}
# Kinds that do not depend on the size of a batch.
_NOT_FOR_BATCHES = {
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.UNREACHABLE,
    ErrorKind.UNSUPPORTED,
    ErrorKind.BACKOFF,
}


class JsonRpcWire:
    """The JSON-RPC connection to one endpoint; see `JsonRpcClient`."""

    def __init__(self, url: str, timeout_seconds: float, max_bytes: int) -> None:
        name = shown(url, ("http", "https"), "[chain] endpoints")
        self.http = BoundedHttp(url, name=name, max_bytes=max_bytes)
        self._timeout_seconds = timeout_seconds
        self._numbers = itertools.count(1)

    @property
    def name(self) -> str:
        """The endpoint's name in errors."""
        return self.http.name

    def asked(self, method: str, params: Sequence[object]) -> dict[str, Any]:
        """Return a JSON-RPC request with a new id."""
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}

    def post(self, method: str, count: int, asked: object, timeout_seconds: float | None) -> bytes:
        """Send the calls and return the body of the response. Raises RpcError."""
        RPC_CALLS.labels(method).inc(count)
        seconds = timeout_seconds or self._timeout_seconds
        try:
            with RPC_SECONDS.labels(method).time():
                answer = self.http.post(msgspec.json.encode(asked), seconds, _WHOLE * seconds)
            failure = from_status(self.name, answer.status, answer.headers, answer.body)
            if failure is not None:
                raise failure
            if answer.is_cut:
                raise above_limit(self.name, self.http.max_bytes)
        except RpcError:
            RPC_ERRORS.labels(method).inc()
            raise
        return answer.body

    def decoded(self, method: str, body: bytes, shape: Any, asked: Collection[int]) -> Any:  # noqa: ANN401  # a type made at run time
        """Decode a body as this type of response to these request ids. Raises RpcError."""
        try:
            return decoder_of(shape).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if is_mistaken(body, asked):
                raise self.misdirected(method) from None
            RPC_ERRORS.labels(method).inc()
            raise from_body(self.name, method, body, str(error)) from None

    def misdirected(self, method: str) -> RpcError:
        """Reset the connections that deliver other requests' responses; return the error.

        A proxy in between mixed the responses up, which is not the endpoint's fault.
        """
        self.http.renew()
        return self.fault(
            method, ErrorKind.UNREACHABLE, f"{method}: an answer to another question"
        )

    def result(self, method: str, body: bytes, reply: Reply[T]) -> T | None:
        """Return the result of a response.

        Raises:
            CallRefusedError: the response has an error.
            RpcError: it has neither a result nor an error.
        """
        if reply.error is None and reply.result is not msgspec.UNSET:
            return reply.result
        RPC_ERRORS.labels(method).inc()
        if reply.error is not None:
            raise from_fault(self.name, method, reply.error)
        words = f"neither result nor error: {snippet(body)}"
        raise from_body(self.name, method, body, words)

    def fault(self, method: str, kind: ErrorKind, words: str) -> RpcError:
        """Count an error of this kind in the metrics, and return it."""
        RPC_ERRORS.labels(method).inc()
        return RpcError(self.name, kind, words)


@dataclass(slots=True)
class BatchSize:
    """The maximum batch size of one endpoint."""

    limit: int = BATCH

    def learn(self, limit: int) -> None:
        """Put at most `limit` requests into a batch from now on."""
        self.limit = max(1, min(BATCH, limit))

    def smaller(self, size: int, error: RpcError) -> int:
        """Return the size to try after a failed batch; raise `error` if a smaller one is no help.

        The limit is lowered only if the size was the reason: a timeout or an error page does not
        count against a small batch, and a bad minute must not cost a day of single requests.
        """
        if error.kind is ErrorKind.THROTTLED and error.of_batch and size > _LEAST_THROTTLED:
            # A batch above the limit per second never passes, however long the client waits.
            self.limit = size // 2
        is_small = size <= _LEAST_THROTTLED
        is_late = is_small and error.kind is ErrorKind.SLOW
        if not is_unclear(error) and (is_late or error.kind in _NOT_FOR_BATCHES):
            raise error
        if not error.is_ours and (
            not is_small or error.of_batch or error.kind is ErrorKind.TOO_LARGE
        ):
            self.limit = size // 2
        return size // 2


def is_unclear(error: RpcError) -> bool:
    """Return whether it is open if a batch was refused for being one or for its content."""
    return error.of_batch and error.kind not in _OF_ITS_SIZE
