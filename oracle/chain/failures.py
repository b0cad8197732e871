"""The one door through which an endpoint's failures become ours (chain.md 3.7).

Words of errors differ from vendor to vendor and change overnight: the table only makes the
reaction quicker. What it does not know is `UNKNOWN`, and a range of logs is then bisected.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum

import msgspec
import requests
import urllib3

from oracle.errors import InputError, TransientError
from oracle.telemetry.logs import without_secrets

_LONGEST_WORDS = 200


class Kind(StrEnum):
    """What to do about it: wait, ask for less, ask another endpoint, or put the settings right."""

    THROTTLED = "throttled"
    TOO_LARGE = "too large"
    SLOW = "slow"
    NOT_THERE = "not there yet"
    BEHIND = "behind"
    UNSUPPORTED = "not supported"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    INVALID = "invalid answer"
    UNKNOWN = "failed"


class EndpointError(TransientError):
    """One endpoint did not give what it was asked for.

    `retry_after` in seconds, where it said so; `blocks` is the most that it takes in one range,
    where it said so.
    """

    def __init__(
        self,
        endpoint: str,
        kind: Kind,
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


class NoneAnswersError(InputError):
    """No endpoint answers: a wrong address, or one that is not up yet, which may be waited for."""


class Fault(msgspec.Struct):
    """The `error` of a JSON-RPC answer."""

    code: int = 0
    message: str | None = None


def from_transport(endpoint: str, error: Exception) -> EndpointError:
    """Translate what the HTTP library raised; its own text holds the URL, so it is left out."""
    for cause, kind, words in _TRANSPORT:
        if isinstance(error, cause):
            return EndpointError(endpoint, kind, words)
    return EndpointError(endpoint, Kind.UNREACHABLE, type(error).__name__)


_TRANSPORT: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Kind, str], ...] = (
    (requests.ConnectTimeout, Kind.UNREACHABLE, "no connection in time"),
    (
        (requests.Timeout, urllib3.exceptions.TimeoutError),
        Kind.SLOW,
        "no answer in time",
    ),
    (requests.exceptions.SSLError, Kind.UNREACHABLE, "TLS failed"),
    (requests.exceptions.ProxyError, Kind.UNREACHABLE, "the proxy failed"),
    (
        (requests.exceptions.ChunkedEncodingError, urllib3.exceptions.ProtocolError),
        Kind.SLOW,
        "the answer was cut off",
    ),
    (requests.ConnectionError, Kind.UNREACHABLE, "no connection"),
)


def from_status(
    endpoint: str, status: int, headers: Mapping[str, str], body: bytes
) -> EndpointError | None:
    """Translate an HTTP status; None where the body has the answer (also of some errors)."""
    words = f"HTTP {status}"
    if status == requests.codes.too_many_requests:
        return EndpointError(endpoint, Kind.THROTTLED, words, retry_after=_retry_after(headers))
    if status in _STATUSES:
        return EndpointError(endpoint, _STATUSES[status], words)
    if body[:1] in (b"{", b"["):
        return None
    if status != requests.codes.ok:
        return EndpointError(endpoint, Kind.UNREACHABLE, words)
    kind = headers.get("Content-Type", "no content type")
    return EndpointError(
        endpoint, Kind.INVALID, f"no JSON but {kind}: is this a JSON-RPC address?"
    )


_STATUSES = {
    requests.codes.unauthorized: Kind.REFUSED,
    requests.codes.forbidden: Kind.REFUSED,
    requests.codes.not_found: Kind.INVALID,
    requests.codes.method_not_allowed: Kind.INVALID,
    requests.codes.request_entity_too_large: Kind.TOO_LARGE,
    requests.codes.gateway_timeout: Kind.SLOW,
}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read seconds, or a date, which is measured against the server's own clock."""
    written = headers.get("Retry-After", "")
    if written.isdigit():
        return float(written)
    try:
        until = parsedate_to_datetime(written)
        return max(0.0, (until - parsedate_to_datetime(headers["Date"])).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None


def from_fault(endpoint: str, fault: Fault) -> EndpointError:
    """Translate the error of a JSON-RPC answer, by its words first and by its code last."""
    words = fault.message or ""
    kind = next((kind for kind, pattern in _WORDS if pattern.search(words)), None)
    if kind is None:
        kind = _CODES.get(fault.code, Kind.UNKNOWN)
    limit = _LIMIT.search(words) if kind is Kind.TOO_LARGE else None
    blocks = int(limit[1].replace(",", "")) if limit else None
    return EndpointError(endpoint, kind, f"{words} ({fault.code})", blocks=blocks or None)


# The first that matches; order matters: "exceeded ... per second" is no range.
_WORDS = tuple(
    (kind, re.compile("|".join(patterns), re.IGNORECASE))
    for kind, *patterns in (
        (
            Kind.THROTTLED,
            r"rate.?limit|too many requests|request limit|throttl|quota|credits|throughput",
            r"per (second|minute|day)|\bcapacity|compute units|\bCUs?\b",
        ),
        (
            Kind.NOT_THERE,
            r"(block|height) is out of range|outofrange|beyond .*head|unfinalized",
            r"header not found|unknown block|block not found|after last accepted block",
            r"missing trie node|pruned|history .*unavailable",
        ),
        (Kind.UNSUPPORTED, r"method not (found|supported)|does not exist|is not available"),
        (Kind.SLOW, r"tim(ed?|e) ?-?out|aborted|took too long"),
        (
            Kind.TOO_LARGE,
            r"range|limited to|at most [\d,]+ blocks|over [\d,]+ blocks|blocks distance",
            r"more than [\d,]+ (results|logs)|too many (results|logs)|limit of [\d,]+",
            r"(response|result|query).*(size|large|big)|max(imum)? (results|logs|blocks)",
        ),
    )
)
# -32005 alone is ambiguous (quota or size): asking for less is right for both in the end.
_CODES = {
    429: Kind.THROTTLED,
    -32601: Kind.UNSUPPORTED,
    -32004: Kind.UNSUPPORTED,
    -32002: Kind.SLOW,
    -32014: Kind.NOT_THERE,
    -32005: Kind.TOO_LARGE,
}
_LIMIT = re.compile(
    r"(?:limited to (?:a )?|up to (?:a )?|max(?:imum)? (?:block )?range[^\d]{0,20}|at most "
    r"|allowed is |is set to:? ?|blocks distance: |over )([\d,]*\d)(?! ?(?:results|logs))",
    re.IGNORECASE,
)
