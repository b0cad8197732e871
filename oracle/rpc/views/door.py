"""HTTP to one endpoint: one request, one answer, in bounded space and time; nothing is repeated.

Its URL may hold a key: nothing of it but scheme, host and port is ever in a text.
"""

import time
from typing import Any, TypeAlias

import msgspec
import requests
import urllib3

from oracle.rpc.rpc_errors import ErrorKind, RpcError, from_body, from_status, from_transport
from oracle.rpc.transport import DeadlineAdapter, body_of, shown, trimmed

# An answer that has begun must be whole by so many times as long as its first byte may take.
_WHOLE = 3
# No answer that we ask for is a hundredth of it.
_MOST_BYTES = 32 * 1024 * 1024
# The library must never repeat a request: it may be a send.
_RETRIES = 0

# Whatever shape an endpoint's JSON has.
Json: TypeAlias = Any


class Door:
    """Where an endpoint is asked; `seconds` is how long an answer may take to begin.

    Raises:
        InputError: the URL is no http(s) address.
    """

    def __init__(self, url: str, seconds: float) -> None:
        self._name = shown(url, ("http", "https"), "[chain] endpoints")
        self._url = url
        self._seconds = seconds
        self.session = _opened()

    def hang_up(self) -> None:
        """Ask over a new connection from now on: this one brings answers to other questions."""
        self.session = _opened()

    def close(self) -> None:
        """Let the connection go."""
        self.session.close()

    def post(self, body: object, method: str) -> Json:
        """Ask once, and return the JSON of the answer.

        Raises:
            EndpointError: no answer, a redirection, too large a one, or no JSON.
        """
        until = time.monotonic() + _WHOLE * self._seconds
        try:
            with self.session.post(
                self._url, json=body, timeout=self._seconds, allow_redirects=False, stream=True
            ) as answered:
                text = trimmed(body_of(answered.raw, _MOST_BYTES, until))
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # The library's own errors are of these, and of where we are sent to it reads anything.
            # The message of any may hold the URL, and the URL a key.
            raise from_transport(self._name, error) from None
        failure = from_status(self._name, answered.status_code, answered.headers, text)
        if failure is not None:
            raise failure
        if len(text) > _MOST_BYTES:
            raise RpcError(self._name, ErrorKind.TOO_LARGE, f"more than {_MOST_BYTES} bytes")
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise from_body(self._name, method, text, str(error)) from None


def _opened() -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, DeadlineAdapter(max_retries=_RETRIES))
    return session
