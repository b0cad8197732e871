"""Reads HTTP answers in bounded space and time: headers, and then the body."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import MSG_PEEK, SHUT_RDWR, socket
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import requests
from typing_extensions import override
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.wait import wait_for_read

from oracle.errors import InputError
from oracle.telemetry.logging_setup import hide

_BOM = b"\xef\xbb\xbf"
_PART = 256 * 1024
# Headers are shorter as a rule.
_PEEKED = 8 * 1024


def body_of(raw: BaseHTTPResponse, most: int, until: float) -> bytes:
    """Return the unpacked body, or its beginning where it has more than `most` bytes.

    `until` is a time of `time.monotonic`. The library's own limit is that of one part: who sends
    a byte now and then would keep us for ever.

    Raises:
        requests.ReadTimeout: it is not whole by then.
    """
    parts: list[bytes] = []
    length = 0
    while length <= most and (part := raw.read1(_PART, decode_content=True)):
        parts.append(part)
        length += len(part)
        if time.monotonic() > until:
            raise requests.ReadTimeout
    return b"".join(parts)


def trimmed(body: bytes) -> bytes:
    """Return the body without what some put before and behind their JSON: a BOM, and blanks."""
    return body.removeprefix(_BOM).strip()


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Gives an answer up whose headers are not whole within the time for its first byte.

    The library gives that time to every byte of them anew.
    """

    @override
    def init_poolmanager(self, *asked: Any, **named: Any) -> None:
        super().init_poolmanager(*asked, **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS


@contextmanager
def _in_time(connection: HTTPConnection) -> Iterator[None]:
    """Hang up where what is done here takes longer than the connection's time.

    Raises:
        TimeoutError: it did.
    """
    seconds, is_late = connection.timeout, threading.Event()
    if not isinstance(seconds, int | float) or _are_here(connection.sock, seconds):
        yield
        return

    def hang_up() -> None:
        is_late.set()
        if connection.sock is not None:
            # Not as TLS says goodbye: somebody reads from it at this moment.
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
    """Wait for what comes first, and tell whether that is all headers: no thread has to watch.

    Raises:
        TimeoutError: nothing came.
    """
    if type(taken) is not socket:
        # What TLS holds cannot be looked at beforehand.
        return False
    if not wait_for_read(taken, timeout=seconds):
        raise TimeoutError
    return b"\r\n\r\n" in taken.recv(_PEEKED, MSG_PEEK)


class _Plain(HTTPConnection):
    @override
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        with _in_time(self):
            return super().getresponse()


class _Tls(HTTPSConnection):
    @override
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        with _in_time(self):
            return super().getresponse()


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _Tls


_POOLS = {"http": _PlainPool, "https": _TlsPool}


def opened(connections: int) -> requests.Session:
    """Return what asks over HTTP, by so many connections of its own and no more.

    Those of one that is let go end with who uses them.
    """
    session = requests.Session()
    adapter = DeadlineAdapter(pool_maxsize=connections, pool_block=True)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return session


# Shorter values are words and numbers that stand in every line of a log: no key, no password.
_SHORTEST_KEY = 8
_SHORTEST_PASSWORD = 4


def shown(url: str, schemes: tuple[str, ...], setting: str) -> str:
    """Return what may be shown of a URL, and have the rest blacked out wherever it turns up.

    Raises:
        InputError: it is no address of one of these schemes; the sentence names the setting.
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
    for key in keys:
        hide(key)
        hide(unquote(key))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}"
