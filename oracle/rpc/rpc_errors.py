"""Exceptions for the failures of endpoints, and their translation from HTTP and JSON-RPC.

Messages differ from provider to provider: `provider_dialects` lists many, and nothing here relies
on them. `error_kinds` lists the reaction to each kind. See
docs/reference/rpc-requirements.md#errors-when-reading.
"""

import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Literal

from typing_extensions import override

from oracle.errors import InputError, TransientError
from oracle.rpc.error_kinds import BLAMELESS, DIVISIBLE, ErrorKind
from oracle.rpc.provider_dialects import (
    blocks_in,
    is_batch_refusal,
    is_throttled_page,
    kind_of,
    range_in,
)
from oracle.rpc.replies import JsonRpcErrorBody, fault_of, is_cut, snippet
from oracle.telemetry.safe_text import without_secrets

__all__ = ["BLAMELESS", "DIVISIBLE", "OF_ITS_STATUS", "ErrorKind", "RpcError", "all_failed"]

_LONGEST_WORDS = 200
# A longer Retry-After is cut to this: a year would outlast the daemon.
_LONGEST_WAIT = 3600.0


# The EVM runs these calls; no other method can revert.
_RUN = frozenset({"eth_call", "eth_estimateGas"})
# JSON-RPC code of a revert, in Geth and compatible clients.
_REVERT_CODE = 3
# Geth, Erigon, Anvil, Hardhat, Ganache, Besu and Reth write "revert"; OpenEthereum and Nethermind
# "VM execution error"; the other messages mean that the EVM stopped in another way.
_REVERT = re.compile(
    r"revert|vm execution error|invalid opcode|out of gas|stack (?:under|over)flow"
    r"|bad instruction|invalid jump|always failing transaction",
    re.IGNORECASE,
)
# A rate limit or a quota; at some providers the message gives another meaning.
_WAIT_CODES = frozenset({429, 42903, -32005, -32007, -32012, -32029, -32090})
_OTHER_THAN_RATE = re.compile(r"gas|authori|batch|range|fee|pool|queue", re.IGNORECASE)
# Prefix of a revert's output in Nethermind and OpenEthereum.
_REVERTED = "Reverted "


class NoEndpointError(InputError):
    """No endpoint is configured."""


class RpcError(TransientError):
    """A request to an endpoint failed.

    `retry_after`: seconds to wait, if the endpoint stated them. `max_blocks`: the endpoint's limit
    of blocks in one range, if stated. `suggested_range`: first and last block of the range that
    the endpoint would accept, unchecked; it may equal the requested one, be inverted or lie
    outside of it (docs/reference/rpc-requirements.md#errors-when-reading). `is_for_whole_batch`:
    one error for a whole batch. `exceeds_own_limit`: the response exceeds a limit of the daemon,
    not of the endpoint.
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
        self.words = _shown(words)
        super().__init__(f"{endpoint}: {kind}: {self.words}")
        self.endpoint = endpoint
        self.kind = kind
        self.retry_after = retry_after
        self.blocks = blocks
        self.suggested: tuple[int, int] | None = None
        self.of_batch = False
        self.is_ours = False


class CallRefusedError(RpcError):
    """The endpoint understood the request and returned an error.

    `code` is the JSON-RPC code, 0 if there is none; `message` the endpoint's message; `data` the
    output of a call that reverted, None if the endpoint omitted it.
    """

    def __init__(
        self, endpoint: str, kind: ErrorKind, fault: JsonRpcErrorBody, data: str | None = None
    ) -> None:
        words = f"{fault.message or 'an error without words'} ({fault.code})"
        super().__init__(endpoint, kind, words)
        self.code = fault.code
        self.message = _shown(fault.message)
        self.data = data

    @property
    def is_rate_limited(self) -> bool:
        """Whether the endpoint refused the request because of its rate limit."""
        is_by_code = self.code in _WAIT_CODES and not _OTHER_THAN_RATE.search(self.message)
        return is_by_code or kind_of(0, self.message) is ErrorKind.THROTTLED


class RevertError(CallRefusedError):
    """The call was executed and reverted, which every endpoint would report."""

    @property
    @override
    def is_rate_limited(self) -> bool:
        return False


class RpcTimeoutError(RpcError):
    """No connection was made, or no response arrived, in time."""

    def __init__(self, endpoint: str, phase: Literal["connect", "answer"]) -> None:
        kind = ErrorKind.UNREACHABLE if phase == "connect" else ErrorKind.SLOW
        awaited = "connection" if phase == "connect" else "answer"
        super().__init__(endpoint, kind, f"no {awaited} in time")
        self.phase = phase


def _shown(words: str) -> str:
    return " ".join(without_secrets(words).split())[:_LONGEST_WORDS]


def all_failed(failures: Sequence[RpcError]) -> RpcError:
    """Return the last of these failures, with the earlier ones in its message."""
    last = failures[-1]
    others = "; ".join(str(error) for error in failures[:-1])
    words = f"{last.words} (before that: {others})" if others else last.words
    return RpcError(last.endpoint, last.kind, words)


def above_limit(endpoint: str, most: int) -> RpcError:
    """Return the error for a response larger than the `max_bytes` that are read."""
    words = f"an answer of more than [chain] max_response_mib = {most / 2**20:g}"
    error = RpcError(endpoint, ErrorKind.TOO_LARGE, words)
    error.is_ours = True
    return error


def from_status(
    endpoint: str, status: int, headers: Mapping[str, str], body: bytes
) -> RpcError | None:
    """Return the error for an HTTP status; None if the body is to be parsed.

    Some endpoints return JSON-RPC errors with an HTTP error status.
    """
    wait = _retry_after(headers)
    is_json = body[:1] in (b"{", b"[")
    asks_to_wait = (not is_json or status in _REFUSALS) and is_throttled_page(body)
    if status == HTTPStatus.TOO_MANY_REQUESTS or asks_to_wait:
        return RpcError(endpoint, ErrorKind.THROTTLED, _told(status, body), retry_after=wait)
    if not is_json and is_batch_refusal(snippet(body)):
        return RpcError(endpoint, ErrorKind.UNSUPPORTED, _told(status, body))
    # In this order, because most bodies are large and contain no error.
    tells = status in _TOLD_BY_BODY and is_json and b'"error"' in body
    if status in _STATUSES and not tells:
        error = RpcError(endpoint, _STATUSES[status], _told(status, body))
        return _with_limits(error, snippet(body))
    if is_json:
        return None
    if status == HTTPStatus.OK:
        return RpcError(endpoint, ErrorKind.INVALID, _no_json(headers, body))
    is_understood = status not in _NOT_UNDERSTOOD
    kind = ErrorKind.UNREACHABLE if is_understood else kind_of(0, snippet(body))
    return RpcError(endpoint, kind, _told(status, body), retry_after=wait)


def _told(status: int, body: bytes) -> str:
    """Return the status, with an excerpt of the body if there is one."""
    return f"HTTP {status}: {said}" if (said := snippet(body)) else f"HTTP {status}"


def _no_json(headers: Mapping[str, str], body: bytes) -> str:
    kind = headers.get("Content-Type", "no content type")
    words = f"no JSON but {kind}: is this a JSON-RPC address?"
    return f"{words} It says: {said}" if (said := snippet(body)) else words


# Kinds of an HTTP status without JSON-RPC that apply to the whole request, maybe a batch.
OF_ITS_STATUS = frozenset({ErrorKind.UNKNOWN, ErrorKind.REFUSED, ErrorKind.UNSUPPORTED})
# The endpoint rejected the request, or the fact that it was part of a batch.
_NOT_UNDERSTOOD = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# Some endpoints return JSON-RPC errors, which are more precise, with these statuses.
_TOLD_BY_BODY = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
_REFUSALS = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.PAYMENT_REQUIRED,
    HTTPStatus.FORBIDDEN,
}
_STATUSES: dict[int, ErrorKind] = {
    **dict.fromkeys(_REFUSALS, ErrorKind.REFUSED),
    HTTPStatus.NOT_FOUND: ErrorKind.INVALID,
    HTTPStatus.METHOD_NOT_ALLOWED: ErrorKind.UNSUPPORTED,
    HTTPStatus.REQUEST_TIMEOUT: ErrorKind.SLOW,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ErrorKind.TOO_LARGE,
    HTTPStatus.GATEWAY_TIMEOUT: ErrorKind.SLOW,
    # From a cache in front of the server, which did not respond in time.
    524: ErrorKind.SLOW,
}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse Retry-After: seconds, or a date by the server's own clock; at most an hour."""
    written = headers.get("Retry-After", "")
    if written.isdecimal():
        return min(_LONGEST_WAIT, float(written))
    try:
        until = parsedate_to_datetime(written)
        left = (until - parsedate_to_datetime(headers["Date"])).total_seconds()
        return min(_LONGEST_WAIT, max(0.0, left))
    except (KeyError, ValueError, TypeError):
        return None


def from_fault(endpoint: str, method: str, error: object) -> CallRefusedError:
    """Return the error for the `error` of a JSON-RPC response, by its message, then its code."""
    fault = fault_of(error)
    kind = kind_of(fault.code, fault.message)
    data = _data(error.get("data")) if isinstance(error, dict) else None
    is_revert = fault.code == _REVERT_CODE or data is not None or _REVERT.search(fault.message)
    of = RevertError if method in _RUN and is_revert else CallRefusedError
    refusal = of(endpoint, kind, fault, data)
    _with_limits(refusal, fault.message)
    return refusal


def _with_limits(error: RpcError, message: str) -> RpcError:
    """Add the range that a message suggests, or the limit that it states; return the error."""
    if error.kind is ErrorKind.TOO_LARGE:
        error.suggested = range_in(message)
        # A suggested range concerns this request; a stated limit concerns every request.
        error.blocks = None if error.suggested else blocks_in(message)
    return error


def _data(given: object) -> str | None:
    """Return the revert's output; some endpoints nest it once more or add a prefix."""
    if isinstance(given, dict):
        given = given.get("data") or given.get("result")
    if not isinstance(given, str):
        return None
    given = given.removeprefix(_REVERTED)
    return given if given.startswith("0x") else None


def from_body(endpoint: str, method: str, body: bytes, words: str) -> RpcError:
    """Return the error for a body with status 200 that is not a JSON-RPC response."""
    if is_throttled_page(body):
        return RpcError(endpoint, ErrorKind.THROTTLED, f"{method}: no answer, but a wish to wait")
    kind = ErrorKind.CUT if is_cut(body) else ErrorKind.INVALID
    return RpcError(endpoint, kind, f"{method}: {words}")
