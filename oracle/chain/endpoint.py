"""One JSON-RPC endpoint over HTTP: keep-alive, typed answers, batches, time limits.

Its URL may hold keys: nothing but scheme, host and port ever leaves this file.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import requests
import urllib3
from typing_extensions import override

from oracle.chain.failures import (
    EndpointError,
    Fault,
    Kind,
    from_fault,
    from_status,
    from_transport,
)
from oracle.domain.block import BlockRef
from oracle.errors import InputError
from oracle.telemetry.logs import hide
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS

T = TypeVar("T")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
# Above it the answer counts as too large, and a smaller range is asked for.
MOST_BYTES = 64 * 1024 * 1024
# Where batches begin; an endpoint that refuses them gets smaller ones from then on.
BATCH = 100
_CONNECTIONS = 8
_SHORTEST_KEY = 8


class Reply(msgspec.Struct, Generic[T], gc=False):
    """A JSON-RPC answer; `result` is unset where there is none."""

    id: int | str | None = None
    result: T | msgspec.UnsetType | None = msgspec.UNSET
    error: Fault | None = None


class Endpoint:
    """One endpoint; may be used by several threads at once.

    Raises:
        InputError: the URL is no http(s) address.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.name = _shown(url)
        # The highest block that it has shown.
        self.newest = -1
        # Its newest block when its heads were last looked at; None once a window was read by it.
        self.head: BlockRef | None = None
        # Tags of blocks that it knows besides `latest`, until it shows that it does not.
        self.tags: tuple[str, ...] = ("safe", "finalized")
        # Counts of logs that looked like a silent limit and were none.
        self.whole_counts: set[int] = set()
        self._batch = BATCH
        self._numbers = itertools.count(1)
        self._session = requests.Session()
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS, pool_block=True)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)

    @override
    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    def close(self) -> None:
        """Let the connections go; what is under way ends by itself."""
        self._session.close()

    def call(self, method: str, params: Sequence[object], answer: type[T]) -> T | None:
        """Ask one thing; None where the endpoint answers null.

        Raises:
            EndpointError: no answer of this type.
        """
        asked = self._asked(method, params)
        reply = self._decoded(method, self._post(method, 1, asked), Reply[answer])  # type: ignore[valid-type]  # a type made at run time
        return self._result(method, reply)

    def batch(
        self, method: str, each: Sequence[Sequence[object]], answer: type[T]
    ) -> list[T | None]:
        """Ask the same of many, in as few requests as the endpoint takes; in the order asked.

        Raises:
            EndpointError: one of them has no answer of this type.
        """
        results: list[T | None] = []
        while len(results) < len(each):
            part = each[len(results) : len(results) + self._batch]
            try:
                results += self._together(method, part, answer)
            except EndpointError as error:
                if len(part) == 1 or error.kind in _NOT_FOR_BATCHES:
                    raise
                self._batch = len(part) // 2
        return results

    def _together(
        self, method: str, each: Sequence[Sequence[object]], answer: type[T]
    ) -> list[T | None]:
        if len(each) == 1:
            return [self.call(method, each[0], answer)]
        asked = [self._asked(method, params) for params in each]
        body = self._post(method, len(each), asked)
        if body[:1] == b"{":
            # The batch was refused as a whole.
            refusal = self._decoded(method, body, Reply[object])
            self._result(method, refusal)
            raise self._fault(method, Kind.INVALID, "one answer to a batch")
        replies: list[Reply[T]] = self._decoded(method, body, list[Reply[answer]])  # type: ignore[valid-type]  # a type made at run time
        by_id = {reply.id: reply for reply in replies}
        return [
            # Left out or failed inside the batch: once more alone, for a reason that we can read.
            self.call(method, question["params"], answer)
            if reply is None or reply.error or reply.result is msgspec.UNSET
            else reply.result
            for question in asked
            for reply in (by_id.get(question["id"]),)
        ]

    def _asked(self, method: str, params: Sequence[object]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}

    def _post(self, method: str, count: int, asked: object) -> bytes:
        RPC_CALLS.labels(method).inc(count)
        try:
            with (
                RPC_SECONDS.labels(method).time(),
                self._session.post(
                    self._url,
                    data=msgspec.json.encode(asked),
                    headers={"Content-Type": "application/json"},
                    timeout=(CONNECT_SECONDS, ANSWER_SECONDS),
                    allow_redirects=False,
                    stream=True,
                ) as answered,
            ):
                body: bytes = answered.raw.read(MOST_BYTES + 1, decode_content=True)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            RPC_ERRORS.labels(method).inc()
            # The cause names the whole URL: it must not be shown with the traceback either.
            raise from_transport(self.name, error) from None
        failure = from_status(self.name, answered.status_code, answered.headers, body.lstrip())
        if failure is not None:
            RPC_ERRORS.labels(method).inc()
            raise failure
        if len(body) > MOST_BYTES:
            raise self._fault(method, Kind.TOO_LARGE, f"more than {MOST_BYTES} bytes")
        return body.lstrip()

    def _decoded(self, method: str, body: bytes, shape: Any) -> Any:  # noqa: ANN401  # a type made at run time
        try:
            return decoder_of(shape).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._fault(method, Kind.INVALID, f"{method}: {error}") from None

    def _result(self, method: str, reply: Reply[T]) -> T | None:
        if reply.error is not None:
            RPC_ERRORS.labels(method).inc()
            raise from_fault(self.name, reply.error)
        if reply.result is msgspec.UNSET:
            raise self._fault(method, Kind.INVALID, f"{method}: neither result nor error")
        return reply.result

    def _fault(self, method: str, kind: Kind, words: str) -> EndpointError:
        RPC_ERRORS.labels(method).inc()
        return EndpointError(self.name, kind, words)


# These say nothing about the size of a batch.
_NOT_FOR_BATCHES = {Kind.THROTTLED, Kind.REFUSED, Kind.UNREACHABLE}


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


def _shown(url: str) -> str:
    """Return what may be shown of a URL, and have the rest blacked out wherever it turns up."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError("[chain] endpoints: an endpoint is an http:// or https:// address")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise InputError("[chain] endpoints: an address has a port that is no number") from None
    keys = [parts.username or "", parts.password or ""]
    keys += [value for _, value in parse_qsl(parts.query)]
    keys += [part for part in parts.path.split("/") if len(part) >= _SHORTEST_KEY]
    for key in keys:
        hide(key)
        hide(unquote(key))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}"
