"""HTTP client for one address: one request, one response, bounded in size and time, no retries.

The URL may contain a key: only scheme, host and port appear in messages.
"""

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socket import EAI_NODATA, EAI_NONAME, MSG_PEEK, SHUT_RDWR, gaierror, socket
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import requests
import urllib3
from requests.utils import get_netrc_auth
from typing_extensions import override
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.wait import wait_for_read

from oracle.errors import InputError
from oracle.rpc.rpc_errors import ErrorKind, RpcError, RpcTimeoutError
from oracle.telemetry.safe_text import BLACKED_OUT, hide, tokens_in_host

CONNECT_SECONDS = 5.0
# The library must never retry a request, because it may be a transaction.
_RETRIES = 0
_CONNECTIONS = 8
_BOM = b"\xef\xbb\xbf"
_PART = 256 * 1024
# A body that takes longer than the timeout for its first byte must arrive at this many bytes per
# second on average; else a server that sends a byte now and then would block until the total
# timeout.
_LEAST_RATE = 64 * 1024
# Headers are usually shorter than this.
_PEEKED = 8 * 1024


# Chooses the IP address to connect to, for a host and a port.
AddressChoice = Callable[[str, int], str]


class HttpAnswer(NamedTuple):
    """An HTTP response; `body` has no surrounding whitespace or BOM.

    `is_truncated`: the body exceeds the limit and has only its beginning.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Credentials for a host of the operator's own: headers, client certificate, CA file.

    Requests to the host ignore the proxies and passwords of the environment. `choose_address`
    returns the IP address to connect to for a host and a port, and may raise an `OracleError`; the
    name is not resolved a second time. With None any address that the name resolves to is used.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: tuple[str, str] | None = None
    ca_file: str | None = None
    choose_address: "AddressChoice | None" = None


class BoundedHttp:
    """HTTP client of one address over a few kept-alive connections; thread-safe.

    `name` stands for the URL in errors; at most `max_bytes` of a response are read.
    """

    def __init__(
        self, url: str, *, name: str, max_bytes: int, access: HttpAccess | None = None
    ) -> None:
        self.name = name
        self.max_bytes = max_bytes
        self._url = url
        self._access = access
        self._session = _opened(url, access)

    def renew(self) -> None:
        """Use new connections from now on; the old ones close once their requests have ended."""
        self._session = _opened(self._url, self._access)

    def close(self) -> None:
        """Close the connections; requests in flight finish first."""
        self._session.close()

    def post(
        self,
        body: bytes,
        timeout_seconds: float,
        whole_seconds: float,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Send JSON, once, and return the response, whatever its status.

        The first byte must arrive within `timeout_seconds`, the last within that time plus the
        time that the body takes at 64 KiB per second; `total_seconds` bounds both.

        Raises:
            RpcTimeoutError: the response was too late, or no connection was made in time.
            RpcError: no response, or one that could not be read.
        """
        said = {"Content-Type": "application/json", **(headers or {})}
        asked = requests.Request("POST", self._url, data=body, headers=said)
        return self._answer(asked, timeout_seconds, whole_seconds)

    def get(self, path: str, timeout_seconds: float, whole_seconds: float) -> HttpAnswer:
        """Request the resource at this path below the address; raises as `post`."""
        parts = urlsplit(self._url)
        url = urlunsplit(parts._replace(path=parts.path.rstrip("/") + path, fragment=""))
        return self._answer(requests.Request("GET", url), timeout_seconds, whole_seconds)

    def _answer(
        self, asked: requests.Request, timeout_seconds: float, whole_seconds: float
    ) -> HttpAnswer:
        began = time.monotonic()
        try:
            with self._session.request(
                asked.method or "GET",
                asked.url or "",
                data=asked.data,
                headers=asked.headers,
                timeout=(min(CONNECT_SECONDS, timeout_seconds), timeout_seconds),
                # Redirects are not followed, because the request may contain secrets.
                allow_redirects=False,
                stream=True,
            ) as answered:
                body = body_of(
                    answered.raw,
                    self.max_bytes,
                    small_by=began + timeout_seconds,
                    whole_by=began + whole_seconds,
                )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # The library's own errors are subclasses of these; a redirect can raise any of them.
            # The message may contain the URL, which must not be in a traceback either.
            raise _failure(self.name, error) from None
        answer = answered.status_code, answered.headers, trimmed(body)
        return HttpAnswer(*answer, is_cut=len(body) > self.max_bytes)


def _failure(name: str, error: Exception) -> RpcError:
    """Return the RpcError for a library error; its text is left out, as it has the URL."""
    if isinstance(error, requests.ConnectTimeout):
        return RpcTimeoutError(name, "connect")
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return RpcTimeoutError(name, "answer")
    for cause, kind, words in _FAILURES:
        if isinstance(error, cause):
            reason = _reason_of(error) if kind is ErrorKind.UNREACHABLE else None
            return RpcError(name, kind, f"{words}: {reason}" if reason else words)
    return RpcError(name, ErrorKind.UNREACHABLE, type(error).__name__)


def _reason_of(error: BaseException) -> str | None:
    """Return why there is no connection, as the operating system or TLS reports it.

    An expired certificate, an unknown host name and a refused connection have different remedies.
    """
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return str(cause.verify_message)
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return cause.reason.replace("_", " ").lower()
        if isinstance(cause, gaierror):
            is_unknown = cause.errno in _UNKNOWN_NAMES
            return "DNS does not know the host name" if is_unknown else "DNS does not answer"
        if isinstance(cause, OSError) and cause.errno and cause.strerror:
            return cause.strerror.lower()
    return None


# The library wraps the operating system's error in several others.
_MOST_CAUSES = 20
_UNKNOWN_NAMES = {EAI_NONAME, EAI_NODATA}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, wherever the library stores them."""
    waiting: list[object] = [error]
    for _ in range(_MOST_CAUSES):
        if not waiting:
            return
        cause = waiting.pop(0)
        if isinstance(cause, BaseException):
            yield cause
            inner = getattr(cause, "reason", None)
            waiting += [inner, cause.__cause__, cause.__context__, *cause.args]


_FAILURES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], ErrorKind, str], ...] = (
    (requests.exceptions.SSLError, ErrorKind.UNREACHABLE, "TLS failed"),
    (requests.exceptions.ProxyError, ErrorKind.UNREACHABLE, "the proxy failed"),
    (
        (requests.exceptions.ChunkedEncodingError, urllib3.exceptions.ProtocolError),
        ErrorKind.CUT,
        "the answer was cut off",
    ),
    (urllib3.exceptions.DecodeError, ErrorKind.CUT, "the answer could not be unpacked"),
    (requests.ConnectionError, ErrorKind.UNREACHABLE, "no connection"),
)


def body_of(raw: BaseHTTPResponse, most: int, *, small_by: float, whole_by: float) -> bytes:
    """Return the decompressed body, or its beginning if it exceeds `max_bytes`.

    A small body must be complete by `min_deadline`, any body by `max_deadline` (`time.monotonic`).

    The library's own timeout applies to each chunk: a server that sends a byte now and then would
    block for ever.

    Raises:
        requests.ReadTimeout: the body is not complete in time.
    """
    parts: list[bytes] = []
    length = 0
    while length <= most and (part := raw.read1(_PART, decode_content=True)):
        parts.append(part)
        length += len(part)
        if time.monotonic() > min(whole_by, small_by + length / _LEAST_RATE):
            raise requests.ReadTimeout
    return b"".join(parts)


def trimmed(body: bytes) -> bytes:
    """Return the body without a BOM and surrounding whitespace, which some servers add to JSON."""
    return body.removeprefix(_BOM).strip()


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Aborts a response whose headers are not complete within the first-byte timeout.

    The library restarts that timeout with every byte of the headers. `choose_address`: see
    `HttpAccess`.
    """

    def __init__(self, choose_address: AddressChoice | None = None, **named: Any) -> None:  # noqa: ANN401  # the library's
        # Set before the base class calls `init_poolmanager`.
        self._choose_address = choose_address
        super().__init__(**named)

    @override
    def init_poolmanager(self, *asked: Any, **named: Any) -> None:
        super().init_poolmanager(*asked, **named)
        self.poolmanager.pool_classes_by_scheme = _pools(self._choose_address)


@contextmanager
def _in_time(connection: HTTPConnection) -> Iterator[None]:
    """Close the connection if the block takes longer than the connection's timeout.

    Raises:
        TimeoutError: the timeout passed.
    """
    seconds, is_late = connection.timeout, threading.Event()
    if not isinstance(seconds, int | float) or _are_here(connection.sock, seconds):
        yield
        return

    def hang_up() -> None:
        is_late.set()
        if connection.sock is not None:
            # No TLS close handshake, because another thread is reading from the socket.
            with suppress(OSError):
                socket.shutdown(connection.sock, SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if is_late.is_set():
            raise TimeoutError


def _are_here(taken: socket | None, seconds: float) -> bool:
    """Wait for the first bytes; return whether all headers are there and need no watchdog.

    Raises:
        TimeoutError: nothing arrived.
    """
    if type(taken) is not socket:
        # Buffered TLS data cannot be peeked at.
        return False
    if not wait_for_read(taken, timeout=seconds):
        raise TimeoutError
    return b"\r\n\r\n" in taken.recv(_PEEKED, MSG_PEEK)


class _Plain(HTTPConnection):
    choose_address: ClassVar[AddressChoice | None] = None

    @override
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        with _in_time(self):
            return super().getresponse()

    @override
    def _new_conn(self) -> socket:
        choose = type(self).choose_address
        if choose is None:
            return super()._new_conn()
        # TLS and the Host header keep the name; only the socket uses the address.
        name = self._dns_host
        self._dns_host = choose(name, self.port)
        try:
            return super()._new_conn()
        finally:
            self._dns_host = name


class _Tls(_Plain, HTTPSConnection):
    """A `_PlainConnection` over TLS."""


def _pools(choose_address: AddressChoice | None) -> dict[str, type[HTTPConnectionPool]]:
    """Return connection pool classes by URL scheme; the library creates the pools."""

    class Plain(_Plain):
        pass

    class Tls(_Tls):
        pass

    for connection in (Plain, Tls):
        if choose_address is not None:
            connection.choose_address = staticmethod(choose_address)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = Tls

    return {"http": PlainPool, "https": TlsPool}


def _opened(url: str, access: HttpAccess | None) -> requests.Session:
    session = requests.Session()
    choose = None if access is None else access.choose_address
    adapter = DeadlineAdapter(
        choose, pool_maxsize=_CONNECTIONS, pool_block=True, max_retries=_RETRIES
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    if access is None:
        # Proxies and netrc are read once, because requests reads the environment for every
        # request.
        told = session.merge_environment_settings(url, {}, None, None, None)
        session.proxies, session.verify = told["proxies"], told["verify"]
        session.auth = get_netrc_auth(url)
    else:
        session.headers.update(access.headers)
        session.cert = access.certificate
        session.verify = access.ca_file or True
    session.trust_env = False
    return session


# Shorter values are common words and numbers of log lines: neither a key nor a password.
_SHORTEST_KEY, _SHORTEST_PASSWORD = 8, 4


def shown(url: str, schemes: tuple[str, ...], setting: str) -> str:
    """Return the public part of a URL, and register its secrets for redaction.

    Raises:
        InputError: the URL has none of these schemes; the message names the setting.
    """
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname:
        forms = " or ".join(f"{scheme}://" for scheme in schemes)
        raise InputError(f"{setting}: an endpoint is an {forms} address")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise InputError(f"{setting}: an address has a port that is no number") from None
    words = [value for _, value in parse_qsl(parts.query)] + parts.path.split("/")
    keys = [word for word in words if len(word) >= _SHORTEST_KEY]
    names = [parts.username or "", parts.password or ""]
    keys += [name for name in names if len(name) >= _SHORTEST_PASSWORD]
    keys += tokens_in_host(parts.hostname)
    for key in keys:
        hide(key)
        hide(unquote(key))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    for token in tokens_in_host(host):
        host = host.replace(token, BLACKED_OUT)
    return f"{parts.scheme}://{host}{port}"
