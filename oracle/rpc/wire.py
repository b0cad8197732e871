"""JSON-RPC on the wire: questions with numbers, one exchange over HTTP, typed answers.

And how many questions an endpoint takes in a batch, learned from its refusals
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

# An answer that has begun must be whole by so many times as long.
_WHOLE = 3
# Where batches begin; an endpoint that refuses them gets smaller ones from then on.
BATCH = 100
# Batches of this size are not made smaller by their rate, or by silence, alone.
_LEAST_THROTTLED = 10
# Of a batch that was refused as a whole: a smaller one may pass, and nothing is to be found out.
_OF_ITS_SIZE = {ErrorKind.TOO_LARGE, ErrorKind.THROTTLED}
# These say nothing about the size of a batch.
_NOT_FOR_BATCHES = {
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.UNREACHABLE,
    ErrorKind.UNSUPPORTED,
    ErrorKind.BACKOFF,
}


class JsonRpcWire:
    """To one endpoint; see `JsonRpcClient`."""

    def __init__(self, url: str, timeout_seconds: float, max_bytes: int) -> None:
        name = shown(url, ("http", "https"), "[chain] endpoints")
        self.http = BoundedHttp(url, name=name, max_bytes=max_bytes)
        self._timeout_seconds = timeout_seconds
        self._numbers = itertools.count(1)

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.http.name

    def asked(self, method: str, params: Sequence[object]) -> dict[str, Any]:
        """Write a question, with a number of its own."""
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}

    def post(self, method: str, count: int, asked: object, timeout_seconds: float | None) -> bytes:
        """Send so many calls, and return the body of the answer. Raises RpcError."""
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
        """Read a body as this type of answer to questions of these numbers. Raises RpcError."""
        try:
            return decoder_of(shape).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if is_mistaken(body, asked):
                raise self.misdirected(method) from None
            RPC_ERRORS.labels(method).inc()
            raise from_body(self.name, method, body, str(error)) from None

    def misdirected(self, method: str) -> RpcError:
        """Let the connections go that bring answers to other questions, and say so.

        Somebody between us and the endpoint mixed them up: it says nothing about the endpoint.
        """
        self.http.renew()
        return self.fault(
            method, ErrorKind.UNREACHABLE, f"{method}: an answer to another question"
        )

    def result(self, method: str, body: bytes, reply: Reply[T]) -> T | None:
        """Return the result of an answer. Raises CallRefusedError, or RpcError: it has none."""
        if reply.error is None and reply.result is not msgspec.UNSET:
            return reply.result
        RPC_ERRORS.labels(method).inc()
        if reply.error is not None:
            raise from_fault(self.name, method, reply.error)
        words = f"neither result nor error: {snippet(body)}"
        raise from_body(self.name, method, body, words)

    def fault(self, method: str, kind: ErrorKind, words: str) -> RpcError:
        """Return an error of this kind, which is counted."""
        RPC_ERRORS.labels(method).inc()
        return RpcError(self.name, kind, words)


@dataclass(slots=True)
class BatchSize:
    """Of one endpoint."""

    limit: int = BATCH

    def learn(self, limit: int) -> None:
        """Put at most so many questions into a batch from now on."""
        self.limit = max(1, min(BATCH, limit))

    def smaller(self, size: int, error: RpcError) -> int:
        """Return how large a batch to try after one that failed; raises `error` where none is.

        From then on no larger one is asked where its size was the reason: of a few questions no
        silence and no broken page is, and a bad minute must not cost a day of single questions.
        """
        if error.kind is ErrorKind.THROTTLED and error.of_batch and size > _LEAST_THROTTLED:
            # A batch that is more than a second allows never passes, however long we wait.
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
    """Tell whether a batch was refused for being one, or for what it asks."""
    return error.of_batch and error.kind not in _OF_ITS_SIZE
