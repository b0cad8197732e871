"""One JSON-RPC endpoint over HTTP: keep-alive, typed answers, batches, time limits.

Its URL may hold keys: nothing but scheme, host and port ever leaves this file.
"""

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from typing_extensions import override

from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.batch_size import BatchSize, is_unclear
from oracle.rpc.endpoints.capabilities import Capabilities
from oracle.rpc.replies import (
    JsonRpcErrorBody,
    Reply,
    by_question,
    decoder_of,
    fault_of,
    is_mistaken,
    is_of,
    snippet,
)
from oracle.rpc.rpc_errors import (
    OF_ITS_STATUS,
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

ANSWER_SECONDS = 20.0
# An answer that has begun must be whole by so many times as long.
_WHOLE = 3
# Above it the answer counts as too large, and less is asked for; [chain] most_answer_mib.
MOST_BYTES = 64 * 1024 * 1024
# Tags of blocks below the newest one.
TAGS = ("safe", "finalized")


class CallObserver(Protocol):
    """Stands between whoever asks and the endpoint."""

    def asking(self, method: str, calls: int, ask: Callable[[], T]) -> T:
        """Return what `ask` does, one question of so many calls; may have it asked again.

        Raises:
            EndpointError: as `ask`; or it was not asked.
        """
        ...

    def has(self, method: str) -> bool:
        """Tell whether the endpoint has the method, as far as it is known."""
        ...


class _Unwatched:
    def asking(self, _method: str, _calls: int, ask: Callable[[], T]) -> T:
        return ask()

    def has(self, _method: str) -> bool:
        return True


class Endpoint:
    """One endpoint; may be used by several threads at once.

    `within` is how long an answer may take, in seconds.

    Raises:
        InputError: the URL is no http(s) address.
    """

    def __init__(self, url: str, *, within: float = ANSWER_SECONDS) -> None:
        # Scheme, host and port; `Endpoints` makes those of one host different.
        self.name = shown(url, ("http", "https"), "[chain] endpoints")
        # What metrics call it.
        self.label = self.name
        self.watch: CallObserver = _Unwatched()
        # What the last probe found; None before the first.
        self.facts: Capabilities | None = None
        self._within = within
        # The highest block that it has shown.
        self.newest = -1
        # Its newest block when its heads were last looked at; None once a window was read by it.
        self.head: BlockRef | None = None
        # Tags of blocks that it knows besides `latest`, until it shows that it does not.
        self.tags: tuple[str, ...] = TAGS
        # The highest block that it has called finalized.
        self.finalized: BlockRef | None = None
        self._size = BatchSize()
        self._numbers = itertools.count(1)
        self._http = BoundedHttp(url, name=self.name, max_bytes=MOST_BYTES)

    @override
    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    def close(self) -> None:
        """Let the connections go; what is under way ends by itself."""
        self._http.close()

    def read_at_most(self, max_bytes: int) -> None:
        """Take an answer of more bytes for too large."""
        self._http.max_bytes = max_bytes

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

        def ask() -> T | None:
            asked = self._asked(method, params)
            body = self._post(method, 1, asked, within)
            reply: Reply[T] = self._decoded(method, body, Reply[answer], {asked["id"]})  # type: ignore[valid-type]  # a type made at run time
            is_error = reply.error is not None
            if reply.is_told and not is_of(reply.id, asked["id"], is_error=is_error):
                raise self._misdirected(method)
            return self._result(method, body, reply)

        return self.watch.asking(method, 1, ask)

    def batch(
        self, method: str, each: Sequence[Sequence[object]], answer: type[T]
    ) -> list[T | None]:
        """Ask the same of many, in as few requests as the endpoint takes; in the order asked.

        Raises:
            EndpointError: one of them has no answer of this type.
        """
        results: list[T | None] = []
        size = self._size.limit
        while len(results) < len(each):
            part = each[len(results) : len(results) + size]
            asked = [self._asked(method, params) for params in part]
            try:
                replies = self._together(method, asked, answer) if len(part) > 1 else {}
            except RpcError as error:
                if is_unclear(error):
                    # Is the batch what is refused, or the question? Alone it tells.
                    results.append(self.call(method, part[0], answer))
                size = self._size.smaller(len(part), error)
                continue
            results += [self._taken(method, one, replies.get(one["id"]), answer) for one in asked]
        return results

    @property
    def batch_limit(self) -> int:
        """How many questions go into one batch."""
        return self._size.limit

    def learn_batch(self, limit: int) -> None:
        """Put at most so many questions into a batch from now on."""
        self._size.learn(limit)

    def _together(
        self, method: str, asked: list[dict[str, Any]], answer: type[T]
    ) -> dict[int, Reply[T]]:
        """Ask one batch; its answers come in any order, and some may be left out."""
        return self.watch.asking(method, len(asked), lambda: self._batched(method, asked, answer))

    def _batched(
        self, method: str, asked: list[dict[str, Any]], answer: type[T]
    ) -> dict[int, Reply[T]]:
        numbers = {one["id"] for one in asked}
        try:
            body = self._post(method, len(asked), asked, None)
        except RpcError as error:
            error.of_batch = error.kind in OF_ITS_STATUS
            raise
        if body[:1] == b"{":
            raise self._refusal(method, body, numbers)
        replies: list[Reply[T]] = self._decoded(method, body, list[Reply[answer]], numbers)  # type: ignore[valid-type]  # a type made at run time
        found = by_question(replies, numbers)
        if found is None:
            raise self._misdirected(method)
        if all(reply.error is not None for reply in replies):
            raise self._all_refused(method, replies)
        return found

    def _refusal(self, method: str, body: bytes, numbers: Collection[int]) -> RpcError:
        """Return why a batch was refused as a whole; even by its rate, a smaller one may pass."""
        refusal: Reply[object] = self._decoded(method, body, Reply[object], numbers)
        if refusal.is_told and by_question([refusal], numbers) is None:
            raise self._misdirected(method)
        if refusal.error is None:
            error = self._fault(method, ErrorKind.INVALID, "one answer to a batch")
            error.of_batch = True
            return error
        return self._all_refused(method, [refusal])

    def _all_refused(self, method: str, replies: Sequence[Reply[Any]]) -> RpcError:
        """Return why nothing of a batch was answered."""
        fault = fault_of(replies[0].error) if replies else JsonRpcErrorBody()
        error: RpcError = from_fault(self.name, method, replies[0].error if replies else None)
        RPC_ERRORS.labels(method).inc()
        if error.kind is ErrorKind.THROTTLED and fault.is_by_code():
            # Its code may mean the rate, its words do not: it is the size of the batch.
            error = self._fault(method, ErrorKind.TOO_LARGE, error.words)
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
        # As the pool calls it by now.
        self._http.name = self.name
        try:
            with RPC_SECONDS.labels(method).time():
                answer = self._http.post(msgspec.json.encode(asked), within, _WHOLE * within)
            failure = from_status(self.name, answer.status, answer.headers, answer.body)
            if failure is not None:
                raise failure
            if answer.is_cut:
                raise above_limit(self.name, self._http.max_bytes)
        except RpcError:
            RPC_ERRORS.labels(method).inc()
            raise
        return answer.body

    def _decoded(self, method: str, body: bytes, shape: Any, asked: Collection[int]) -> Any:  # noqa: ANN401  # a type made at run time
        try:
            return decoder_of(shape).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if is_mistaken(body, asked):
                raise self._misdirected(method) from None
            RPC_ERRORS.labels(method).inc()
            raise from_body(self.name, method, body, str(error)) from None

    def _misdirected(self, method: str) -> RpcError:
        """Let the connections go that bring answers to other questions, and say so.

        Somebody between us and the endpoint mixed them up: it says nothing about the endpoint.
        """
        self._http.renew()
        return self._fault(
            method, ErrorKind.UNREACHABLE, f"{method}: an answer to another question"
        )

    def _result(self, method: str, body: bytes, reply: Reply[T]) -> T | None:
        if reply.error is None and reply.result is not msgspec.UNSET:
            return reply.result
        RPC_ERRORS.labels(method).inc()
        if reply.error is not None:
            raise from_fault(self.name, method, reply.error)
        words = f"neither result nor error: {snippet(body)}"
        raise from_body(self.name, method, body, words)

    def _fault(self, method: str, kind: ErrorKind, words: str) -> RpcError:
        RPC_ERRORS.labels(method).inc()
        return RpcError(self.name, kind, words)
