"""One JSON-RPC endpoint over HTTP: keep-alive, typed answers, batches, time limits.

Its URL may hold keys: nothing but scheme, host and port ever leaves this file.
"""

import itertools
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import requests
import urllib3
from typing_extensions import override

from oracle.chain.bodies import Punctual, body_of
from oracle.chain.facts import EndpointFacts
from oracle.chain.failures import (
    EndpointError,
    Fault,
    Kind,
    above_limit,
    from_body,
    from_fault,
    from_status,
    from_transport,
)
from oracle.chain.urls import shown
from oracle.domain.block import BlockRef
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS

T = TypeVar("T")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
# An answer that has begun must be whole by so many times as long.
_WHOLE = 3
# Above it the answer counts as too large, and less is asked for; [chain] most_answer_mib.
MOST_BYTES = 64 * 1024 * 1024
# Where batches begin; an endpoint that refuses them gets smaller ones from then on.
BATCH = 100
# Tags of blocks below the newest one.
TAGS = ("safe", "finalized")
_CONNECTIONS = 8


class Reply(msgspec.Struct, Generic[T], gc=False):
    """A JSON-RPC answer; `result` is unset where there is none."""

    id: int | str | None = None
    result: T | msgspec.UnsetType | None = msgspec.UNSET
    error: Fault | None = None


class Watch(Protocol):
    """Hears of every question to an endpoint."""

    def asking(self, method: str, calls: int) -> AbstractContextManager[None]:
        """Surround one question of so many calls; may refuse it by an EndpointError."""
        ...

    def has(self, method: str) -> bool:
        """Tell whether the endpoint has the method, as far as it is known."""
        ...


class _Unwatched:
    def asking(self, _method: str, _calls: int) -> AbstractContextManager[None]:
        return nullcontext()

    def has(self, _method: str) -> bool:
        return True


class Endpoint:
    """One endpoint; may be used by several threads at once.

    `within` is how long an answer may take, in seconds.

    Raises:
        InputError: the URL is no http(s) address.
    """

    def __init__(self, url: str, *, within: float = ANSWER_SECONDS) -> None:
        self._url = url
        # Scheme, host and port; `Endpoints` makes those of one host different.
        self.name = shown(url, ("http", "https"), "[chain] endpoints")
        # What metrics call it.
        self.label = self.name
        self.watch: Watch = _Unwatched()
        # What the last probe found; None before the first.
        self.facts: EndpointFacts | None = None
        self._within = within
        # The highest block that it has shown.
        self.newest = -1
        # Its newest block when its heads were last looked at; None once a window was read by it.
        self.head: BlockRef | None = None
        # Tags of blocks that it knows besides `latest`, until it shows that it does not.
        self.tags: tuple[str, ...] = TAGS
        # The highest block that it has called finalized.
        self.finalized: BlockRef | None = None
        self.most_bytes = MOST_BYTES
        self._batch = BATCH
        self._numbers = itertools.count(1)
        self._session = requests.Session()
        adapter = Punctual(pool_maxsize=_CONNECTIONS, pool_block=True)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)

    @override
    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    def close(self) -> None:
        """Let the connections go; what is under way ends by itself."""
        self._session.close()

    def has(self, method: str) -> bool:
        """Tell whether the endpoint has the method; True until it has said that it does not."""
        return self.watch.has(method)

    def call(
        self,
        method: str,
        params: Sequence[object],
        answer: type[T],
        *,
        within: float | None = None,
    ) -> T | None:
        """Ask one thing; None where the endpoint answers null. `within` seconds, or as usual.

        Raises:
            EndpointError: no answer of this type.
        """
        asked = self._asked(method, params)
        with self.watch.asking(method, 1):
            body = self._post(method, 1, asked, within)
            reply = self._decoded(method, body, Reply[answer])  # type: ignore[valid-type]  # a type made at run time
            return self._result(method, body, reply)

    def batch(
        self, method: str, each: Sequence[Sequence[object]], answer: type[T]
    ) -> list[T | None]:
        """Ask the same of many, in as few requests as the endpoint takes; in the order asked.

        Raises:
            EndpointError: one of them has no answer of this type.
        """
        results: list[T | None] = []
        size = self._batch
        while len(results) < len(each):
            part = each[len(results) : len(results) + size]
            asked = [self._asked(method, params) for params in part]
            try:
                replies = self._together(method, asked, answer) if len(part) > 1 else {}
            except EndpointError as error:
                size = self._smaller(len(part), error)
                continue
            results += [self._taken(method, one, replies.get(one["id"]), answer) for one in asked]
        return results

    def _smaller(self, size: int, error: EndpointError) -> int:
        """Return how large a batch to try after one that failed; raises `error` where none is.

        From then on no larger one is asked where its size was the reason: of a few questions no
        silence and no broken page is, and a bad minute must not cost a day of single questions.
        """
        if error.kind is Kind.THROTTLED and error.of_batch and size > _LEAST_THROTTLED:
            # A batch that is more than a second allows never passes, however long we wait.
            self._batch = size // 2
        is_small = size <= _LEAST_THROTTLED
        if error.kind in _NOT_FOR_BATCHES or (is_small and error.kind is Kind.SLOW):
            raise error
        if not error.is_ours and (not is_small or error.of_batch or error.kind is Kind.TOO_LARGE):
            self._batch = size // 2
        return size // 2

    @property
    def batch_limit(self) -> int:
        """How many questions go into one batch."""
        return self._batch

    def learn_batch(self, limit: int) -> None:
        """Put at most so many questions into a batch from now on."""
        self._batch = max(1, min(BATCH, limit))

    def _together(
        self, method: str, asked: list[dict[str, Any]], answer: type[T]
    ) -> dict[int | str | None, Reply[T]]:
        """Ask one batch; its answers come in any order, and some may be left out."""
        with self.watch.asking(method, len(asked)):
            body = self._post(method, len(asked), asked, None)
            if body[:1] == b"{":
                raise self._refusal(method, body)
            replies: list[Reply[T]] = self._decoded(method, body, list[Reply[answer]])  # type: ignore[valid-type]  # a type made at run time
        return {reply.id: reply for reply in replies}

    def _refusal(self, method: str, body: bytes) -> EndpointError:
        """Return why a batch was refused as a whole; even by its rate, a smaller one may pass."""
        error = self._fault(method, Kind.INVALID, "one answer to a batch")
        refusal: Reply[object] = self._decoded(method, body, Reply[object])
        if refusal.error is not None:
            error = from_fault(self.name, refusal.error)
            if error.kind is Kind.THROTTLED and refusal.error.is_by_code():
                # Its code may mean the rate, its words do not: it is the size of the batch.
                error = self._fault(method, Kind.TOO_LARGE, error.words)
        error.of_batch = True
        return error

    def _taken(
        self, method: str, asked: dict[str, Any], reply: Reply[T] | None, answer: type[T]
    ) -> T | None:
        """Take an answer out of a batch."""
        if reply is None or reply.error is not None or reply.result is msgspec.UNSET:
            # Left out or failed inside the batch: once more alone, for a reason that we can read.
            return self.call(method, asked["params"], answer)
        return reply.result

    def _asked(self, method: str, params: Sequence[object]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}

    def _post(self, method: str, count: int, asked: object, within: float | None) -> bytes:
        RPC_CALLS.labels(method).inc(count)
        within = within or self._within
        until = time.monotonic() + _WHOLE * within
        try:
            with (
                RPC_SECONDS.labels(method).time(),
                self._session.post(
                    self._url,
                    data=msgspec.json.encode(asked),
                    headers={"Content-Type": "application/json"},
                    timeout=(min(CONNECT_SECONDS, within), within),
                    allow_redirects=False,
                    stream=True,
                ) as answered,
            ):
                body = body_of(answered.raw, self.most_bytes, until)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            RPC_ERRORS.labels(method).inc()
            # The cause names the whole URL: it must not be shown with the traceback either.
            raise from_transport(self.name, error) from None
        failure = from_status(self.name, answered.status_code, answered.headers, body.lstrip())
        if failure is not None:
            RPC_ERRORS.labels(method).inc()
            raise failure
        if len(body) > self.most_bytes:
            RPC_ERRORS.labels(method).inc()
            raise above_limit(self.name, self.most_bytes)
        return body.lstrip()

    def _decoded(self, method: str, body: bytes, shape: Any) -> Any:  # noqa: ANN401  # a type made at run time
        try:
            return decoder_of(shape).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            RPC_ERRORS.labels(method).inc()
            raise from_body(self.name, method, body, str(error)) from None

    def _result(self, method: str, body: bytes, reply: Reply[T]) -> T | None:
        if reply.error is None and reply.result is not msgspec.UNSET:
            return reply.result
        RPC_ERRORS.labels(method).inc()
        if reply.error is not None:
            raise from_fault(self.name, reply.error)
        raise from_body(self.name, method, body, "neither result nor error")

    def _fault(self, method: str, kind: Kind, words: str) -> EndpointError:
        RPC_ERRORS.labels(method).inc()
        return EndpointError(self.name, kind, words)


# Batches of this size are not made smaller by their rate, or by silence, alone.
_LEAST_THROTTLED = 10
# These say nothing about the size of a batch.
_NOT_FOR_BATCHES = {
    Kind.THROTTLED,
    Kind.REFUSED,
    Kind.UNREACHABLE,
    Kind.UNSUPPORTED,
    Kind.RESTING,
}


# msgspec 0.22 writes down what it learns of a class while it learns it: a second thread that
# makes a decoder for the same class meanwhile gets one that crashes the process.
_LEARNING = Lock()


def decoder_of(shape: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    """Return the decoder of this type of answer, made once; any thread may ask."""
    with _LEARNING:
        return _decoder(shape)


@lru_cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    return msgspec.json.Decoder(shape)
