"""An HTTP client for one address, with limits on size and time, and without retries.

The URL may contain a key, so messages contain only its scheme, host and port.
"""

import http.client
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import mktime_tz, parsedate_tz
from http.cookiejar import DefaultCookiePolicy
from io import BufferedReader, BytesIO, RawIOBase
from socket import EAI_NODATA, EAI_NONAME, gaierror, socket
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import requests
import urllib3
from requests.utils import get_netrc_auth
from typing_extensions import override
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from oracle.errors import InputError
from oracle.rpc.rpc_errors import ErrorKind, RpcError, RpcTimeoutError
from oracle.telemetry.rpc_metrics import CERTIFICATE_EXPIRY
from oracle.telemetry.safe_text import REDACTED, find_api_keys_in_host, register_secret

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CONNECT_SECONDS = 5.0
# Only the caller may retry, because the request may contain a transaction.
_MAX_RETRIES = 0
_MAX_CONNECTIONS = 8
_BOM = b"\xef\xbb\xbf"
_CHUNK_BYTES = 64 * 1024
# Minimum average rate of a body that takes longer than the timeout for its first byte. Without it,
# a server could block the caller for a long time by sending a byte now and then.
_MIN_BYTES_PER_SECOND = 64 * 1024
# A response may pause for this many seconds in total, plus the time that the received bytes take
# at this rate.
_MAX_PAUSE_SECONDS = 5.0
_MIN_PAUSED_BYTES_PER_SECOND = 4 * 1024
# Interval at which the server's time is read. A response that takes longer than the maximum is not
# used for this.
_SERVER_TIME_SECONDS = 10.0
_MAX_SERVER_TIME_AGE_SECONDS = 5.0
# Time at which the response to this thread's request must be complete (`time.monotonic`). It is a
# context variable, because the libraries have no parameter for it.
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


# A function that chooses the IP address to connect to, for a host and a port.
AddressChoice = Callable[[str, int], str]


# The surrounding whitespace of a body is kept only if the body has this type.
_BINARY_MEDIA_TYPE = "application/octet-stream"


class RawHttpResponse(NamedTuple):
    """An HTTP response.

    `body` has no surrounding whitespace or BOM, unless it is binary. `is_truncated` is whether the
    response exceeded the size limit; `body` is then its beginning.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Credentials for one of the operator's hosts: headers, client certificate, CA file.

    Requests to the host ignore proxies and passwords in the environment. `choose_address` returns
    the IP address to connect to for a host and a port, and may raise an `OracleError`; the name is
    not resolved a second time. If it is None, any address of the host is used.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: tuple[str, str] | None = None
    ca_file: str | None = None
    choose_address: "AddressChoice | None" = None


class BoundedHttp:
    """An HTTP client for one address, with a few kept-alive connections.

    The object is thread-safe. `name` replaces the URL in errors; at most `max_bytes` of a response
    are read. `server_start_time` is the server's time (`Date`, RFC 9110 section 6.6.1) minus this
    machine's monotonic clock, as of a recent response, or None if the server sends no time.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        max_bytes: int,
        access: HttpAccess | None = None,
        watches_certificate: bool = False,
    ) -> None:
        """Create the client, which connects with the first request.

        With `watches_certificate`, the expiry of the server's certificate is exported as a metric
        with the label `name`. Use it only for servers that the operator has configured.
        """
        self.name = name
        self.max_bytes = max_bytes
        self._url = url
        self._access = access
        self._certificate_name = name if watches_certificate else None
        self._session = _open_session(url, access, self._certificate_name)
        self.server_start_time: float | None = None
        self._server_time_read_at = -_SERVER_TIME_SECONDS

    def reset_connections(self) -> None:
        """Switch to new connections.

        The old ones close once their requests have ended.
        """
        self._session = _open_session(self._url, self._access, self._certificate_name)

    def close(self) -> None:
        """Close the connections after requests in flight have finished."""
        self._session.close()

    def post(
        self,
        body: bytes,
        timeout_seconds: float,
        total_seconds: float,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> RawHttpResponse:
        """Send a JSON body once, and return the response with any status.

        The first byte must arrive within `timeout_seconds`. The last byte may take in addition the
        time that the body needs at 64 KiB per second. The total time is at most `total_seconds`.

        Raises:
            RpcTimeoutError: the response was too late, or no connection was made in time.
            RpcError: there is no response, or the response cannot be read.
        """
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        request = requests.Request("POST", self._url, data=body, headers=all_headers)
        return self._send(request, timeout_seconds, total_seconds)

    def get(self, path: str, timeout_seconds: float, total_seconds: float) -> RawHttpResponse:
        """Request the resource at this path below the address.

        Raises the same errors as `post`.
        """
        url_parts = urlsplit(self._url)
        url = urlunsplit(url_parts._replace(path=url_parts.path.rstrip("/") + path, fragment=""))
        return self._send(requests.Request("GET", url), timeout_seconds, total_seconds)

    def _send(
        self, request: requests.Request, timeout_seconds: float, total_seconds: float
    ) -> RawHttpResponse:
        started_at = time.monotonic()
        _deadline.set(started_at + total_seconds)
        try:
            with self._session.request(
                request.method or "GET",
                request.url or "",
                data=request.data,
                headers=request.headers,
                timeout=(min(CONNECT_SECONDS, timeout_seconds), timeout_seconds),
                # Redirects are not followed, because the request may contain secrets.
                allow_redirects=False,
                stream=True,
            ) as response:
                body = read_body(
                    response.raw,
                    self.max_bytes,
                    min_deadline=started_at + timeout_seconds,
                )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # All errors of the library are caught, because a redirect can raise any of them. The
            # cause is dropped. Its message may contain the URL, which must not appear in a
            # traceback.
            raise _translate_error(self.name, error) from None
        self._record_server_time(response.headers.get("date", ""), started_at)
        is_binary = response.headers.get("content-type") == _BINARY_MEDIA_TYPE
        stripped_body = body if is_binary else strip_body(body)
        status_headers_body = response.status_code, response.headers, stripped_body
        return RawHttpResponse(*status_headers_body, is_truncated=len(body) > self.max_bytes)

    def _record_server_time(self, date: str, started_at: float) -> None:
        now = time.monotonic()
        is_recent = now - self._server_time_read_at < _SERVER_TIME_SECONDS
        if is_recent or now - started_at > _MAX_SERVER_TIME_AGE_SECONDS:
            return
        self._server_time_read_at = now
        # If the date is malformed, the library raises one of these errors or returns None.
        with suppress(ValueError, OverflowError, TypeError):
            server_time = parsedate_tz(date)
            if server_time is not None:
                self.server_start_time = mktime_tz(server_time) - now


def _translate_error(name: str, error: Exception) -> RpcError:
    """Convert a library error to an RpcError, without its text.

    The text may contain the URL.
    """
    if isinstance(error, requests.ConnectTimeout):
        return RpcTimeoutError(name, "connect")
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return RpcTimeoutError(name, "answer")
    for cause, kind, message in _FAILURE_KINDS:
        if isinstance(error, cause):
            reason = (
                _find_connection_failure_reason(error) if kind is ErrorKind.UNREACHABLE else None
            )
            return RpcError(name, kind, f"{message}: {reason}" if reason else message)
    return RpcError(name, ErrorKind.UNREACHABLE, type(error).__name__)


def _find_connection_failure_reason(error: BaseException) -> str | None:
    """Return why a connection failed, in the words of the system or of TLS.

    The result is None if the reason is unknown. The operator needs the reason, because an expired
    certificate, an unknown host name and a refused connection have different remedies.
    """
    for cause in _iterate_causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return str(cause.verify_message)
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return cause.reason.replace("_", " ").lower()
        if isinstance(cause, gaierror):
            is_unknown = cause.errno in _UNKNOWN_HOST_ERRNOS
            return "unknown host name" if is_unknown else "DNS does not respond"
        if isinstance(cause, OSError) and cause.errno and cause.strerror:
            return cause.strerror.lower()
    return None


# Maximum number of causes to search, because the library wraps the system's error in others.
_MAX_CAUSES = 20
_UNKNOWN_HOST_ERRNOS = {EAI_NONAME, EAI_NODATA}


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, wherever the library stores them."""
    pending_errors: list[object] = [error]
    for _ in range(_MAX_CAUSES):
        if not pending_errors:
            return
        cause = pending_errors.pop(0)
        if isinstance(cause, BaseException):
            yield cause
            reason = getattr(cause, "reason", None)
            pending_errors += [reason, cause.__cause__, cause.__context__, *cause.args]


_FAILURE_KINDS: tuple[
    tuple[type[Exception] | tuple[type[Exception], ...], ErrorKind, str], ...
] = (
    (requests.exceptions.SSLError, ErrorKind.UNREACHABLE, "TLS failed"),
    (requests.exceptions.ProxyError, ErrorKind.UNREACHABLE, "the proxy failed"),
    (
        (requests.exceptions.ChunkedEncodingError, urllib3.exceptions.ProtocolError),
        ErrorKind.CUT,
        "the response was cut off",
    ),
    (urllib3.exceptions.DecodeError, ErrorKind.CUT, "the response could not be decompressed"),
    (requests.ConnectionError, ErrorKind.UNREACHABLE, "no connection"),
)


def read_body(raw_response: BaseHTTPResponse, max_bytes: int, *, min_deadline: float) -> bytes:
    """Read the decompressed body, or only its beginning if it exceeds `max_bytes`.

    A small body must be complete by `min_deadline` (`time.monotonic`). In addition,
    `_DeadlineReader` applies its deadline to any body, even to bytes that decompress to nothing.

    Raises:
        requests.ReadTimeout: the body is not complete in time.
    """
    # A `BytesIO` is used, because joining a list of chunks allocates new memory for every chunk,
    # which takes a third longer.
    body = BytesIO()
    total_length = 0
    while total_length <= max_bytes and (
        chunk := raw_response.read1(_CHUNK_BYTES, decode_content=True)
    ):
        total_length += body.write(chunk)
        if time.monotonic() > min_deadline + total_length / _MIN_BYTES_PER_SECOND:
            raise requests.ReadTimeout
    return body.getvalue()


def strip_body(body: bytes) -> bytes:
    """Remove a BOM and surrounding whitespace from a body.

    Some servers add them.
    """
    return body.removeprefix(_BOM).strip()


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Aborts responses whose headers or body arrive too late (`_DeadlineResponse`).

    `choose_address` is described in `HttpAccess`. `certificate_name` is the server's label in the
    metric of certificates, or None if the certificate is not watched.
    """

    def __init__(
        self,
        choose_address: AddressChoice | None = None,
        certificate_name: str | None = None,
        **options: Any,  # noqa: ANN401  # the library's
    ) -> None:
        # These attributes are set first, because the base class's constructor calls
        # `init_poolmanager`.
        self._choose_address, self._certificate_name = choose_address, certificate_name
        super().__init__(**options)

    @override
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = _build_pool_classes(
            self._choose_address, self._certificate_name
        )


class _DeadlineReader(RawIOBase):
    """Reads from a socket until a deadline, however often bytes arrive.

    `deadline` is as in `time.monotonic`. The socket's own timeout restarts with every byte.
    Therefore the pauses after the first byte are limited by `_MAX_PAUSE_SECONDS`, so that a server
    that sends a byte from time to time does not block the caller until the deadline. The longest
    pause does not count, because a server may send the headers before it computes the body.
    """

    def __init__(self, stream: RawIOBase, connected_socket: socket, deadline: float) -> None:
        super().__init__()
        self._stream, self._socket = stream, connected_socket
        self._timeout = connected_socket.gettimeout()
        self.deadline = deadline
        self._received_bytes = 0
        self._paused_seconds = self._longest_pause_seconds = 0.0

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        started_at = time.monotonic()
        remaining_seconds = self.deadline - started_at
        if remaining_seconds <= 0:
            raise TimeoutError
        byte_count = self._read_within(buffer, remaining_seconds)
        self._check_pauses(time.monotonic() - started_at, byte_count or 0)
        return byte_count

    def _read_within(self, buffer: "WriteableBuffer", seconds: float) -> int | None:
        if self._timeout is not None and seconds >= self._timeout:
            return self._stream.readinto(buffer)
        self._socket.settimeout(seconds)
        try:
            return self._stream.readinto(buffer)
        finally:
            # The next request on this connection relies on this timeout.
            self._socket.settimeout(self._timeout)

    def _check_pauses(self, pause_seconds: float, byte_count: int) -> None:
        """Add a pause between received bytes, and raise TimeoutError if the sum is too long.

        The limit depends on the number of received bytes.
        """
        if self._received_bytes:
            self._paused_seconds += pause_seconds
            self._longest_pause_seconds = max(self._longest_pause_seconds, pause_seconds)
            max_seconds = _MAX_PAUSE_SECONDS + self._received_bytes / _MIN_PAUSED_BYTES_PER_SECOND
            if self._paused_seconds - self._longest_pause_seconds > max_seconds:
                raise TimeoutError
        self._received_bytes += byte_count

    @override
    def close(self) -> None:
        self._stream.close()
        super().close()


class _DeadlineResponse(http.client.HTTPResponse):
    """A response that aborts if its headers or its end arrive too late.

    The headers must arrive within the socket's timeout, and the whole response by `_deadline`.
    """

    def __init__(
        self,
        sock: socket,
        debuglevel: int = 0,
        method: str | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        self._deadline = _deadline.get()
        response_deadline = time.monotonic() + (sock.gettimeout() or math.inf)
        self._reader = _DeadlineReader(
            self.fp.detach(), sock, min(response_deadline, self._deadline)
        )
        self.fp = BufferedReader(self._reader)

    @override
    def begin(self) -> None:
        super().begin()
        self._reader.deadline = self._deadline


class _PlainConnection(HTTPConnection):
    choose_address: ClassVar[AddressChoice | None] = None

    response_class = _DeadlineResponse

    @override
    def _new_conn(self) -> socket:
        choose_address = type(self).choose_address
        if choose_address is None:
            return super()._new_conn()
        # TLS and the Host header keep using the host name; only the socket uses the IP address.
        host_name = self._dns_host
        self._dns_host = choose_address(host_name, self.port)
        try:
            return super()._new_conn()
        finally:
            self._dns_host = host_name


class _TlsConnection(_PlainConnection, HTTPSConnection):
    """A `_PlainConnection` over TLS."""

    certificate_name: ClassVar[str | None] = None

    @override
    def connect(self) -> None:
        super().connect()
        name = type(self).certificate_name
        if name is None or not isinstance(self.sock, ssl.SSLSocket):
            return
        # The fields are empty if the certificate was not verified.
        expiry_text = (self.sock.getpeercert() or {}).get("notAfter")
        if isinstance(expiry_text, str):
            CERTIFICATE_EXPIRY.labels(name).set(ssl.cert_time_to_seconds(expiry_text))


def _build_pool_classes(
    choose_address: AddressChoice | None, certificate_name: str | None
) -> dict[str, type[HTTPConnectionPool]]:
    """Return the connection pool class for each URL scheme."""

    class PlainWithAddress(_PlainConnection):
        pass

    class TlsWithAddress(_TlsConnection):
        pass

    TlsWithAddress.certificate_name = certificate_name
    for connection in (PlainWithAddress, TlsWithAddress):
        if choose_address is not None:
            connection.choose_address = staticmethod(choose_address)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = PlainWithAddress

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = TlsWithAddress

    return {"http": PlainPool, "https": TlsPool}


class _Session(requests.Session):
    """An HTTP session that neither follows redirects nor stores cookies.

    Even with `allow_redirects=False`, the library reads the whole body of a redirect into memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    @override
    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


def _open_session(
    url: str, access: HttpAccess | None, certificate_name: str | None
) -> requests.Session:
    session = _Session()
    choose_address = None if access is None else access.choose_address
    adapter = DeadlineAdapter(
        choose_address,
        certificate_name,
        pool_maxsize=_MAX_CONNECTIONS,
        pool_block=True,
        max_retries=_MAX_RETRIES,
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    if access is None:
        # Proxies and netrc are read once. Otherwise requests would read the environment for every
        # request.
        environment_settings = session.merge_environment_settings(url, {}, None, None, None)
        session.proxies = environment_settings["proxies"]
        session.verify = environment_settings["verify"]
        session.auth = get_netrc_auth(url)
    else:
        session.headers.update(access.headers)
        session.cert = access.certificate
        session.verify = access.ca_file or True
    session.trust_env = False
    return session


# Minimum lengths of values that are redacted. Shorter values may be common words or numbers.
_MIN_KEY_LENGTH, _MIN_PASSWORD_LENGTH = 8, 4


def redact_url(url: str, schemes: tuple[str, ...], setting: str) -> str:
    """Return the public part of a URL, and register its secrets for redaction.

    Raises:
        InputError: the URL has none of these schemes; the message names the setting.
    """
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname:
        allowed_forms_text = " or ".join(f"{scheme}://" for scheme in schemes)
        raise InputError(
            f"{setting}: not a valid URL; expected {allowed_forms_text} followed by a host"
        )
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise InputError(f"{setting}: invalid port; expected a number up to 65535") from None
    url_parts = [value for _, value in parse_qsl(parts.query)] + parts.path.split("/")
    secret_parts = [url_part for url_part in url_parts if len(url_part) >= _MIN_KEY_LENGTH]
    credentials = [parts.username or "", parts.password or ""]
    secret_parts += [
        credential for credential in credentials if len(credential) >= _MIN_PASSWORD_LENGTH
    ]
    secret_parts += find_api_keys_in_host(parts.hostname)
    for secret in secret_parts:
        register_secret(secret)
        register_secret(unquote(secret))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    for token in find_api_keys_in_host(host):
        host = host.replace(token, REDACTED)
    return f"{parts.scheme}://{host}{port}"
