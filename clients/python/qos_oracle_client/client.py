"""Sends the requests of the read API, and follows its event stream."""

import gzip
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from qos_oracle_client.models import FeedEvent, NodeEntry
from qos_oracle_client.operations import Operations

_OK, _NOT_MODIFIED = 200, 304
_RETRIED = (429, 503)
_MAX_CACHED_RESPONSES = 256


class ApiError(Exception):
    """The server refused a request, or did not answer.

    `status` is the HTTP status, or 0 if there was no response; `found` lists the nodes that an
    ambiguous address prefix matches; `retry_seconds` is when the server allows another attempt.
    """

    def __init__(
        self, status: int, message: str, found: tuple[str, ...] = (), retry_seconds: int = 0
    ) -> None:
        """Store what the response says."""
        super().__init__(f"{status}: {message}" if status else message)
        self.status, self.message = status, message
        self.found, self.retry_seconds = found, retry_seconds


class Client(Operations):
    """A client of one server. It is not thread-safe; each thread has its own.

    A response whose `ETag` is still current is not sent again. Status 429 and 503 are retried
    after the time that the server names, at most `max_retries` times.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 60,
        max_retries: int = 3,
        max_wait_seconds: float = 60,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Store the address of the server, without `/v1`."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"{url}: expected an address that starts with http:// or https://")
        super().__init__(self._send_request)
        self._url = url.rstrip("/")
        self._timeout_seconds, self._max_wait_seconds = timeout_seconds, max_wait_seconds
        self._max_retries, self._sleep = max_retries, sleep
        self._cache: OrderedDict[str, tuple[str, Any]] = OrderedDict()

    def iter_nodes(self, **filters: Any) -> Iterator[NodeEntry]:  # noqa: ANN401 - as of `nodes`
        """Yield all nodes that `nodes` returns for these filters, page by page."""
        page = self.nodes(**filters)
        yield from page["nodes"]
        while page["next"] is not None:
            page = self.nodes(**{**filters, "cursor": page["next"]})
            yield from page["nodes"]

    def events(
        self, *, kinds: Iterable[str] = (), node: str | None = None, after: str | None = None
    ) -> Iterator[tuple[str, FeedEvent]]:
        """Yield each new event with its id, and reconnect when the stream ends.

        With the id of an earlier event as `after`, the stream starts with the events since then.
        """
        query = {"kinds": ",".join(kinds) or None, "node": node}
        failures = 0
        while True:
            url = self._build_url("/v1/events", {}, {**query, "after": after})
            try:
                with self._open("GET", url, {"accept": "text/event-stream"}) as response:
                    for event_id, data in _parse_frames(response):
                        event = _decode(data or "null", url)
                        after = event_id
                        failures = 0
                        if event is not None:
                            yield event_id, event
                lost = ApiError(0, f"{url}: the event stream ended")
            except ApiError as error:
                lost = error
            except (OSError, HTTPException) as error:
                lost = ApiError(0, f"{url}: the event stream broke: {error}")
            failures += 1
            self._wait_or_raise(lost, failures, (0, *_RETRIED))

    def _send_request(
        self,
        method: str,
        path: str,
        values: Mapping[str, object],
        query: Mapping[str, object],
        body: object,
    ) -> Any:  # noqa: ANN401 - decoded JSON
        url = self._build_url(path, values, query)
        failures = 0
        while True:
            try:
                return self._fetch(method, url, body)
            except ApiError as error:
                failures += 1
                self._wait_or_raise(error, failures, _RETRIED)

    def _fetch(self, method: str, url: str, body: object) -> Any:  # noqa: ANN401 - decoded JSON
        etag, cached = self._cache.get(url, ("", None))
        headers = {"accept-encoding": "gzip", **({"if-none-match": etag} if etag else {})}
        try:
            with self._open(method, url, headers, body) as response:
                content = response.read()
            if response.headers.get("content-encoding") == "gzip":
                content = gzip.decompress(content)
        except ApiError as error:
            if error.status != _NOT_MODIFIED:
                raise
            self._cache.move_to_end(url)
            return cached
        except (OSError, HTTPException, EOFError) as error:
            raise ApiError(0, f"{url}: the response broke off: {error}") from error
        if "json" in response.headers.get("content-type", ""):
            content = _decode(content, url)
        if new_etag := response.headers.get("etag"):
            self._cache[url] = (new_etag, content)
            if len(self._cache) > _MAX_CACHED_RESPONSES:
                self._cache.popitem(last=False)
        return content

    def _open(self, method: str, url: str, headers: Mapping[str, str], body: object = None) -> Any:  # noqa: ANN401 - http.client.HTTPResponse
        """Return the open response; raise ApiError for any status other than 2xx."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(url, data, dict(headers), method=method)  # noqa: S310 - checked above
        request.add_header("user-agent", "qos-oracle-client")
        if data is not None:
            request.add_header("content-type", "application/json")
        try:
            return urlopen(request, timeout=self._timeout_seconds)  # noqa: S310 - checked above
        except HTTPError as error:
            with error:
                raise _read_error(error) from None
        except (OSError, HTTPException) as error:
            raise ApiError(0, f"{url}: no response: {error}") from error

    def _build_url(
        self, path: str, values: Mapping[str, object], query: Mapping[str, object]
    ) -> str:
        filled = path.format_map(
            {name: quote(str(value), safe="") for name, value in values.items()}
        )
        sent = {name: value for name, value in query.items() if value is not None}
        return f"{self._url}{filled}{'?' if sent else ''}{urlencode(sent)}"

    def _wait_or_raise(self, error: ApiError, failures: int, retried: tuple[int, ...]) -> None:
        """Wait before the next attempt, or raise the error if no other attempt is allowed."""
        seconds = error.retry_seconds or 2 ** (failures - 1)
        is_over = failures > self._max_retries or seconds > self._max_wait_seconds
        if is_over or error.status not in retried:
            raise error
        self._sleep(seconds)


def _decode(text: str | bytes, url: str) -> Any:  # noqa: ANN401 - decoded JSON
    try:
        return json.loads(text)
    except ValueError as error:
        raise ApiError(_OK, f"{url}: not JSON: {error}") from error


def _read_error(error: HTTPError) -> ApiError:
    """Return the error of a response; only the first 64 KiB of it are read."""
    try:
        problem = json.loads(error.read(2**16))
    except (OSError, HTTPException, ValueError):
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    message = problem.get("detail") or problem.get("error") or error.reason
    delay = error.headers.get("retry-after", "")
    found = tuple(problem.get("found") or ())
    return ApiError(error.code, str(message), found, int(delay) if delay.isdecimal() else 0)


def _parse_frames(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the id and the data of each frame of a server-sent event stream, except comments."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode(errors="replace").rstrip("\r\n").partition(": ")
        if name:
            fields[name] = value
        elif "id" in fields:
            yield fields["id"], fields.get("data", "")
            fields = {}
