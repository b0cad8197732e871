"""The one door through which an endpoint's failures become ours.

Words of errors differ from vendor to vendor: `fault_words` knows many, and nothing here trusts
them. `kinds` says what each kind is answered with.
See docs/reference/rpc-requirements.md#errors-when-reading.
"""

from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime

import requests
import urllib3

from oracle.errors import TransientError
from oracle.rpc.error_kinds import (
    BLAMELESS,
    DIVISIBLE,
    ErrorKind,
    blocks_in,
    is_throttled_page,
    kind_of,
    range_in,
)
from oracle.rpc.replies import JsonRpcErrorBody, snippet
from oracle.telemetry.logging_setup import without_secrets

__all__ = ["BLAMELESS", "DIVISIBLE", "OF_ITS_STATUS", "ErrorKind", "RpcError", "all_failed"]

_LONGEST_WORDS = 200
# Who asks us to wait for longer is asked again after this: a year would outlast the daemon.
_LONGEST_WAIT = 3600.0


class RpcError(TransientError):
    """One endpoint did not give what it was asked for.

    `retry_after` in seconds, where it said so; `blocks` is the most that it takes in one range,
    where it said so; `suggested` the range that it would answer, first and last block, as it
    wrote it: equal to the asked one, inverted or outside of it as it may be
    (docs/reference/rpc-requirements.md#errors-when-reading).
    `of_batch`: one answer to a whole batch. `is_ours`: it is our own limit that it exceeds.
    """

    def __init__(
        self,
        endpoint: str,
        kind: ErrorKind,
        words: str,
        *,
        retry_after: float | None = None,
        blocks: int | None = None,
    ) -> None:
        self.words = " ".join(without_secrets(words).split())[:_LONGEST_WORDS]
        super().__init__(f"{endpoint}: {kind}: {self.words}")
        self.endpoint = endpoint
        self.kind = kind
        self.retry_after = retry_after
        self.blocks = blocks
        self.suggested: tuple[int, int] | None = None
        self.of_batch = False
        self.is_ours = False


def all_failed(failures: Sequence[RpcError]) -> RpcError:
    """Return the last of these, with what came before it."""
    last = failures[-1]
    others = "; ".join(str(error) for error in failures[:-1])
    words = f"{last.words} (before that: {others})" if others else last.words
    return RpcError(last.endpoint, last.kind, words)


def above_limit(endpoint: str, most: int) -> RpcError:
    """Tell that an answer has more than the `most` bytes that we read, whatever it says."""
    words = f"an answer of more than [chain] most_answer_mib = {most / 2**20:g}"
    error = RpcError(endpoint, ErrorKind.TOO_LARGE, words)
    error.is_ours = True
    return error


def from_transport(endpoint: str, error: Exception) -> RpcError:
    """Translate what the HTTP library raised; its own text holds the URL, so it is left out."""
    for cause, kind, words in _TRANSPORT:
        if isinstance(error, cause):
            return RpcError(endpoint, kind, words)
    return RpcError(endpoint, ErrorKind.UNREACHABLE, type(error).__name__)


_TRANSPORT: tuple[tuple[type[Exception] | tuple[type[Exception], ...], ErrorKind, str], ...] = (
    (requests.ConnectTimeout, ErrorKind.UNREACHABLE, "no connection in time"),
    (
        (requests.Timeout, urllib3.exceptions.TimeoutError),
        ErrorKind.SLOW,
        "no answer in time",
    ),
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


def from_status(
    endpoint: str, status: int, headers: Mapping[str, str], body: bytes
) -> RpcError | None:
    """Translate an HTTP status; None where the body has the answer (also of some errors)."""
    wait = _retry_after(headers)
    is_json = body[:1] in (b"{", b"[")
    asks_to_wait = (not is_json or status in _REFUSALS) and is_throttled_page(body)
    if status == requests.codes.too_many_requests or asks_to_wait:
        return RpcError(endpoint, ErrorKind.THROTTLED, _told(status, body), retry_after=wait)
    tells = is_json and b'"error"' in body and status in _TOLD_BY_BODY
    if status in _STATUSES and not tells:
        return RpcError(endpoint, _STATUSES[status], _told(status, body))
    if is_json:
        return None
    if status == requests.codes.ok:
        return RpcError(endpoint, ErrorKind.INVALID, _no_json(headers, body))
    is_understood = status not in _NOT_UNDERSTOOD
    kind = ErrorKind.UNREACHABLE if is_understood else kind_of(0, snippet(body))
    return RpcError(endpoint, kind, _told(status, body), retry_after=wait)


def _told(status: int, body: bytes) -> str:
    """Return the status, and the endpoint's own words where it has some."""
    return f"HTTP {status}: {said}" if (said := snippet(body)) else f"HTTP {status}"


def _no_json(headers: Mapping[str, str], body: bytes) -> str:
    kind = headers.get("Content-Type", "no content type")
    words = f"no JSON but {kind}: is this a JSON-RPC address?"
    return f"{words} It says: {said}" if (said := snippet(body)) else words


# What a status without JSON-RPC says of whatever was asked, which may be a batch.
OF_ITS_STATUS = frozenset({ErrorKind.UNKNOWN, ErrorKind.REFUSED, ErrorKind.UNSUPPORTED})
# The question is what was not liked, or that it was one of a batch.
_NOT_UNDERSTOOD = {requests.codes.bad_request, requests.codes.unprocessable_entity}
# Some answer JSON-RPC errors, which say more, under these.
_TOLD_BY_BODY = {requests.codes.not_found, requests.codes.method_not_allowed}
_REFUSALS = {
    requests.codes.unauthorized,
    requests.codes.payment_required,
    requests.codes.forbidden,
}
_STATUSES = {
    **dict.fromkeys(_REFUSALS, ErrorKind.REFUSED),
    requests.codes.not_found: ErrorKind.INVALID,
    requests.codes.method_not_allowed: ErrorKind.UNSUPPORTED,
    requests.codes.request_timeout: ErrorKind.SLOW,
    requests.codes.request_entity_too_large: ErrorKind.TOO_LARGE,
    requests.codes.gateway_timeout: ErrorKind.SLOW,
    # Of a cache in front of it: the server behind did not answer in time.
    524: ErrorKind.SLOW,
}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read seconds, or a date by the server's own clock; an hour at most."""
    written = headers.get("Retry-After", "")
    if written.isdecimal():
        return min(_LONGEST_WAIT, float(written))
    try:
        until = parsedate_to_datetime(written)
        left = (until - parsedate_to_datetime(headers["Date"])).total_seconds()
        return min(_LONGEST_WAIT, max(0.0, left))
    except (KeyError, ValueError, TypeError):
        return None


def from_fault(endpoint: str, fault: JsonRpcErrorBody) -> RpcError:
    """Translate the error of a JSON-RPC answer, by its words first and by its code last."""
    words = fault.message
    kind = kind_of(fault.code, words)
    error = RpcError(endpoint, kind, f"{words or 'an error without words'} ({fault.code})")
    if kind is ErrorKind.TOO_LARGE:
        error.suggested = range_in(words)
        # Who suggests a range speaks of this question; who states a limit, of every one.
        error.blocks = None if error.suggested else blocks_in(words)
    return error


def from_body(endpoint: str, method: str, body: bytes, words: str) -> RpcError:
    """Translate a body with status 200 that is no JSON-RPC answer; `words` say what is wrong."""
    if is_throttled_page(body):
        return RpcError(endpoint, ErrorKind.THROTTLED, f"{method}: no answer, but a wish to wait")
    kind = ErrorKind.CUT if "truncated" in words else ErrorKind.INVALID
    return RpcError(endpoint, kind, f"{method}: {words}")
