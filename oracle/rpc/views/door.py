"""HTTP to one endpoint: one request, one answer, in bounded space and time; nothing is repeated.

Its URL may hold a key: nothing of it but scheme, host and port is ever in a text.
"""

from typing import Any, TypeAlias

import msgspec

from oracle.rpc.rpc_errors import ErrorKind, RpcError, from_body, from_status
from oracle.rpc.transport import BoundedHttp, shown

# An answer that has begun must be whole by so many times as long as its first byte may take.
_WHOLE = 3
# No answer that we ask for is a hundredth of it.
_MOST_BYTES = 32 * 1024 * 1024

# Whatever shape an endpoint's JSON has.
Json: TypeAlias = Any


class Door:
    """Where an endpoint is asked; `seconds` is how long an answer may take to begin.

    Raises:
        InputError: the URL is no http(s) address.
    """

    def __init__(self, url: str, seconds: float) -> None:
        self._name = shown(url, ("http", "https"), "[chain] endpoints")
        self._seconds = seconds
        self.http = BoundedHttp(url, name=self._name, max_bytes=_MOST_BYTES)

    def hang_up(self) -> None:
        """Ask over a new connection from now on: this one brings answers to other questions."""
        self.http.renew()

    def close(self) -> None:
        """Let the connection go."""
        self.http.close()

    def post(self, body: object, method: str) -> Json:
        """Ask once, and return the JSON of the answer.

        Raises:
            EndpointError: no answer, a redirection, too large a one, or no JSON.
        """
        answered = self.http.post(msgspec.json.encode(body), self._seconds, _WHOLE * self._seconds)
        text = answered.body
        failure = from_status(self._name, answered.status, answered.headers, text)
        if failure is not None:
            raise failure
        if answered.is_cut:
            raise RpcError(self._name, ErrorKind.TOO_LARGE, f"more than {_MOST_BYTES} bytes")
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise from_body(self._name, method, text, str(error)) from None
