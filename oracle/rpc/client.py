"""Client of one JSON-RPC endpoint over HTTP: keep-alive, typed results, batches, timeouts.

Nothing is retried here. The URL may contain keys: only scheme, host and port leave this module.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from typing_extensions import override

from oracle.rpc.replies import JsonRpcErrorBody, Reply, by_question, fault_of, is_of
from oracle.rpc.rpc_errors import (
    OF_ITS_STATUS,
    CallRefusedError,
    ErrorKind,
    RpcError,
    from_fault,
)
from oracle.rpc.wire import BATCH, BatchSize, JsonRpcWire, is_unclear
from oracle.telemetry.metrics import RPC_ERRORS

T = TypeVar("T")

ANSWER_SECONDS = 20.0
# A larger response counts as too large and less is requested; see [chain] max_response_mib.
MOST_BYTES = 64 * 1024 * 1024
# JSON of any shape, as endpoints return it.
Json: TypeAlias = Any
# Method and parameters.
RpcRequest = tuple[str, Sequence[Any]]


class CallObserver(Protocol):
    """Observer of the requests to an endpoint; it may refuse or retry them."""

    def asking(self, method: str, calls: int, ask: Callable[[], T]) -> T:
        """Return the result of `send`, one request of `call_count` calls; may retry it.

        Raises:
            RpcError: `send` raised it, or the request was refused before it was sent.
        """
        ...

    def asking_once(
        self, method: str, calls: int, ask: Callable[[], list[Json]], *, is_pressing: bool
    ) -> list[Json]:
        """Return the result of `send` without a retry; the calls may have different methods.

        `ignore_backoff` sends the request even while the endpoint is in backoff.
        """
        ...


class _Unobserved:
    def asking(self, _method: str, _calls: int, ask: Callable[[], T]) -> T:
        return ask()

    def asking_once(
        self, _method: str, _calls: int, ask: Callable[[], list[Json]], *, is_pressing: bool
    ) -> list[Json]:
        del is_pressing
        return ask()


class JsonRpcClient:
    """JSON-RPC client of one endpoint; thread-safe.

    `timeout_seconds` is how long a response may take to begin; one of more than `max_bytes` counts
    as too large.

    Raises:
        InputError: the URL is not an http(s) address.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = ANSWER_SECONDS,
        max_bytes: int = MOST_BYTES,
        observer: CallObserver | None = None,
    ) -> None:
        self.observer: CallObserver = observer or _Unobserved()
        self._wire = JsonRpcWire(url, timeout_seconds, max_bytes)
        self._size = BatchSize()
        # Some endpoints refuse a batch of different methods but accept a large batch of one
        # method.
        self._mixed_limit = BATCH

    @override
    def __repr__(self) -> str:
        return f"JsonRpcClient({self.name})"

    @property
    def name(self) -> str:
        """Scheme, host and port; a pool numbers endpoints of the same host."""
        return self._wire.name

    @name.setter
    def name(self, name: str) -> None:
        self._wire.http.name = name

    def close(self) -> None:
        """Close the connections; requests in flight finish first."""
        self._wire.http.close()

    def call(
        self,
        method: str,
        params: Sequence[object],
        answer: type[T],
        *,
        timeout_seconds: float | None = None,
    ) -> T | None:
        """Send one request and return its result; None if the endpoint returns null.

        Raises:
            RpcError: there is no result of this type.
        """

        def ask() -> T | None:
            asked = self._wire.asked(method, params)
            body = self._wire.post(method, 1, asked, timeout_seconds)
            reply: Reply[T] = self._wire.decoded(method, body, Reply[answer], {asked["id"]})  # type: ignore[valid-type]  # a type made at run time
            is_error = reply.error is not None
            if reply.is_told and not is_of(reply.id, asked["id"], is_error=is_error):
                raise self._wire.misdirected(method)
            return self._wire.result(method, body, reply)

        return self.observer.asking(method, 1, ask)

    def batch(
        self, method: str, each: Sequence[Sequence[object]], answer: type[T]
    ) -> list[T | None]:
        """Call one method with many parameter lists, in as few batches as the endpoint accepts.

        Returns the results in the order of the parameters.

        Raises:
            RpcError: one of the calls has no result of this type.
        """
        results: list[T | None] = []
        size = self._size.limit
        while len(results) < len(each):
            part = each[len(results) : len(results) + size]
            asked = [self._wire.asked(method, params) for params in part]
            try:
                replies = self._together(method, asked, answer) if len(part) > 1 else {}
            except RpcError as error:
                if is_unclear(error):
                    # The batch or the call itself may be refused; a single request shows which.
                    results.append(self.call(method, part[0], answer))
                size = self._size.smaller(len(part), error)
                continue
            results += [self._taken(method, one, replies.get(one["id"]), answer) for one in asked]
        return results

    def batch_of(
        self,
        requests: Sequence[RpcRequest],
        *,
        timeout_seconds: float | None = None,
        is_pressing: bool = False,
    ) -> "list[Json | CallRefusedError]":
        """Send different requests, once each, in as few batches as the endpoint accepts.

        Returns the results or refusals, in the order of the requests. `ignore_backoff` sends them
        even while the endpoint is in backoff.

        Raises:
            RpcError: a response is missing: no connection, a timeout, a response to another
                request, or none at all. Whether the endpoint received the requests is then
                unknown.
            CallRefusedError: the batch was refused as a whole.
        """
        size = min(self._size.limit, self._mixed_limit)
        answers: list[Json | CallRefusedError] = []
        for at in range(0, len(requests), size):
            piece = requests[at : at + size]

            def ask(piece: Sequence[RpcRequest] = piece) -> list[Json]:
                if len(piece) == 1:
                    return [self._alone(*piece[0], timeout_seconds)]
                return self._mixed(piece, timeout_seconds)

            answers += self.observer.asking_once(
                piece[0][0], len(piece), ask, is_pressing=is_pressing
            )
        return answers

    @property
    def batch_limit(self) -> int:
        """Maximum number of requests in one batch."""
        return self._size.limit

    def learn_batch(self, limit: int) -> None:
        """Put at most `limit` requests into a batch from now on."""
        self._size.learn(limit)

    def _together(
        self, method: str, asked: list[dict[str, Any]], answer: type[T]
    ) -> dict[int, Reply[T]]:
        return self.observer.asking(
            method, len(asked), lambda: self._batched(method, asked, answer)
        )

    def _batched(
        self, method: str, asked: list[dict[str, Any]], answer: type[T]
    ) -> dict[int, Reply[T]]:
        numbers = {one["id"] for one in asked}
        try:
            body = self._wire.post(method, len(asked), asked, None)
        except RpcError as error:
            error.of_batch = error.kind in OF_ITS_STATUS
            raise
        if body[:1] == b"{":
            raise self._refusal(method, body, numbers)
        replies: list[Reply[T]] = self._wire.decoded(method, body, list[Reply[answer]], numbers)  # type: ignore[valid-type]  # a type made at run time
        found = by_question(replies, numbers)
        if found is None:
            raise self._wire.misdirected(method)
        if all(reply.error is not None for reply in replies):
            raise self._all_refused(method, replies)
        return found

    def _refusal(self, method: str, body: bytes, numbers: Collection[int]) -> RpcError:
        """Return the error of a batch that was refused as a whole.

        A smaller batch may be accepted, even after a refusal by rate.
        """
        refusal: Reply[object] = self._wire.decoded(method, body, Reply[object], numbers)
        if refusal.is_told and by_question([refusal], numbers) is None:
            raise self._wire.misdirected(method)
        if refusal.error is None:
            error = self._wire.fault(method, ErrorKind.INVALID, "one answer to a batch")
            error.of_batch = True
            return error
        return self._all_refused(method, [refusal])

    def _all_refused(self, method: str, replies: Sequence[Reply[Any]]) -> RpcError:
        """Return the error of a batch in which every request was refused."""
        fault = fault_of(replies[0].error) if replies else JsonRpcErrorBody()
        error: RpcError = from_fault(self.name, method, replies[0].error if replies else None)
        RPC_ERRORS.labels(method).inc()
        if error.kind is ErrorKind.THROTTLED and fault.is_by_code():
            # The code may mean a rate limit, the message does not: the batch is too large.
            error = self._wire.fault(method, ErrorKind.TOO_LARGE, error.words)
        error.of_batch = True
        return error

    def _taken(
        self, method: str, asked: dict[str, Any], reply: Reply[T] | None, answer: type[T]
    ) -> T | None:
        """Return the result of one request of a batch; request it alone if it is missing."""
        if reply is None or reply.error is not None or reply.result is msgspec.UNSET:
            # The request was left out or failed in the batch; a single request gives a readable
            # error.
            return self.call(method, asked["params"], answer)
        return reply.result

    def _alone(
        self, method: str, params: Sequence[object], timeout_seconds: float | None
    ) -> "Json | CallRefusedError":
        asked = self._wire.asked(method, params)
        body = self._wire.post(method, 1, asked, timeout_seconds)
        reply: Reply[Json] = self._wire.decoded(method, body, Reply[Any], {asked["id"]})
        is_error = reply.error is not None
        if reply.is_told and not is_of(reply.id, asked["id"], is_error=is_error):
            raise self._wire.misdirected(method)
        return self._told(method, body, reply)

    def _mixed(
        self, requests: Sequence[RpcRequest], timeout_seconds: float | None
    ) -> "list[Json | CallRefusedError]":
        asked = [self._wire.asked(*request) for request in requests]
        numbers, method = [one["id"] for one in asked], requests[0][0]
        try:
            body = self._wire.post(method, len(asked), asked, timeout_seconds)
        except RpcError as error:
            if error.kind in OF_ITS_STATUS:
                self._mixed_limit = 1
            raise
        shape = Reply[Any] if body[:1] == b"{" else list[Reply[Any]]
        said = self._wire.decoded(method, body, shape, numbers)
        replies: list[Reply[Json]] = said if isinstance(said, list) else [said]
        if said is not replies or all(one.error is not None and one.id is None for one in replies):
            raise self._none_taken(method, replies)
        found = by_question(replies, numbers)
        if found is None or len(found) != len(numbers):
            raise self._wire.misdirected(method)
        pairs = zip(requests, numbers, strict=True)
        return [self._told(request[0], body, found[number]) for request, number in pairs]

    def _none_taken(self, method: str, replies: Sequence[Reply[Json]]) -> RpcError:
        """Return the error of a refused mixed batch; limit later batches unless rate-limited."""
        said = replies[0].error if replies else None
        if replies and said is None:
            self._mixed_limit = 1
            return self._wire.fault(method, ErrorKind.INVALID, f"{method}: one answer to a batch")
        refusal = from_fault(self.name, method, said)
        RPC_ERRORS.labels(method).inc()
        if not refusal.is_rate_limited:
            self._mixed_limit = 1
        return refusal

    def _told(self, method: str, body: bytes, reply: Reply[Json]) -> "Json | CallRefusedError":
        try:
            return self._wire.result(method, body, reply)
        except CallRefusedError as refusal:
            return refusal
