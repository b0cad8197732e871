"""The one door through which an endpoint's failures become ours.

Messages differ from provider to provider: `provider_dialects` lists many, and nothing here trusts
them. `error_kinds` lists what follows from each kind.
See docs/reference/rpc-requirements.md#errors-when-reading.
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
# Who asks us to wait for longer is asked again after this: a year would outlast the daemon.
_LONGEST_WAIT = 3600.0


# Calls are run by the EVM; of no other question can a revert be the answer.
_RUN = frozenset({"eth_call", "eth_estimateGas"})
# JSON-RPC's code of a revert, in Geth and those who follow it.
_REVERT_CODE = 3
# Geth, Erigon, Anvil, Hardhat, Ganache, Besu, Reth say "revert"; OpenEthereum and Nethermind
# "VM execution error"; the others stop the EVM in another way.
_REVERT = re.compile(
    r"revert|vm execution error|invalid opcode|out of gas|stack (?:under|over)flow"
    r"|bad instruction|invalid jump|always failing transaction",
    re.IGNORECASE,
)
# The rate, or a quota; elsewhere some of them mean what is said beside them.
_WAIT_CODES = frozenset({429, 42903, -32005, -32007, -32012, -32029, -32090})
_OTHER_THAN_RATE = re.compile(r"gas|authori|batch|range|fee|pool|queue", re.IGNORECASE)
# How Nethermind and OpenEthereum begin a revert's output.
_REVERTED = "Reverted "


class NoEndpointError(InputError):
    """There is no endpoint to ask."""


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
    """The endpoint understood the question and said no.

    `code` is JSON-RPC's, 0 where there is none; `message` its own words; `data` what a call that
    reverted returned, None where it did not say.
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
        """It was asked too often."""
        is_by_code = self.code in _WAIT_CODES and not _OTHER_THAN_RATE.search(self.message)
        return is_by_code or kind_of(0, self.message) is ErrorKind.THROTTLED


class RevertError(CallRefusedError):
    """The call was run and reverted: an answer of the EVM, which every endpoint would give."""

    @property
    @override
    def is_rate_limited(self) -> bool:
        return False


class RpcTimeoutError(RpcError):
    """Nothing came in time: no connection, or none of an answer to what was asked over one."""

    def __init__(self, endpoint: str, phase: Literal["connect", "answer"]) -> None:
        kind = ErrorKind.UNREACHABLE if phase == "connect" else ErrorKind.SLOW
        awaited = "connection" if phase == "connect" else "answer"
        super().__init__(endpoint, kind, f"no {awaited} in time")
        self.phase = phase


def _shown(words: str) -> str:
    return " ".join(without_secrets(words).split())[:_LONGEST_WORDS]


def all_failed(failures: Sequence[RpcError]) -> RpcError:
    """Return the last of these, with what came before it."""
    last = failures[-1]
    others = "; ".join(str(error) for error in failures[:-1])
    words = f"{last.words} (before that: {others})" if others else last.words
    return RpcError(last.endpoint, last.kind, words)


def above_limit(endpoint: str, most: int) -> RpcError:
    """Tell that an answer has more than the `most` bytes that we read, whatever it says."""
    words = f"an answer of more than [chain] max_response_mib = {most / 2**20:g}"
    error = RpcError(endpoint, ErrorKind.TOO_LARGE, words)
    error.is_ours = True
    return error


def from_status(
    endpoint: str, status: int, headers: Mapping[str, str], body: bytes
) -> RpcError | None:
    """Translate an HTTP status; None where the body has the answer (also of some errors)."""
    wait = _retry_after(headers)
    is_json = body[:1] in (b"{", b"[")
    asks_to_wait = (not is_json or status in _REFUSALS) and is_throttled_page(body)
    if status == HTTPStatus.TOO_MANY_REQUESTS or asks_to_wait:
        return RpcError(endpoint, ErrorKind.THROTTLED, _told(status, body), retry_after=wait)
    if not is_json and is_batch_refusal(snippet(body)):
        return RpcError(endpoint, ErrorKind.UNSUPPORTED, _told(status, body))
    # In this order: most bodies are large, and tell of no error.
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
    """Return the status, and the endpoint's own words where it has some."""
    return f"HTTP {status}: {said}" if (said := snippet(body)) else f"HTTP {status}"


def _no_json(headers: Mapping[str, str], body: bytes) -> str:
    kind = headers.get("Content-Type", "no content type")
    words = f"no JSON but {kind}: is this a JSON-RPC address?"
    return f"{words} It says: {said}" if (said := snippet(body)) else words


# What a status without JSON-RPC says of whatever was asked, which may be a batch.
OF_ITS_STATUS = frozenset({ErrorKind.UNKNOWN, ErrorKind.REFUSED, ErrorKind.UNSUPPORTED})
# The question is what was not liked, or that it was one of a batch.
_NOT_UNDERSTOOD = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# Some answer JSON-RPC errors, which say more, under these.
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


def from_fault(endpoint: str, method: str, error: object) -> CallRefusedError:
    """Translate the `error` of a JSON-RPC answer, by its words first and by its code last."""
    fault = fault_of(error)
    kind = kind_of(fault.code, fault.message)
    data = _data(error.get("data")) if isinstance(error, dict) else None
    is_revert = fault.code == _REVERT_CODE or data is not None or _REVERT.search(fault.message)
    of = RevertError if method in _RUN and is_revert else CallRefusedError
    refusal = of(endpoint, kind, fault, data)
    _with_limits(refusal, fault.message)
    return refusal


def _with_limits(error: RpcError, message: str) -> RpcError:
    """Add the range that a message suggests, or the limit that it states, and return the error."""
    if error.kind is ErrorKind.TOO_LARGE:
        error.suggested = range_in(message)
        # A suggested range is about this request; a stated limit, about every request.
        error.blocks = None if error.suggested else blocks_in(message)
    return error


def _data(given: object) -> str | None:
    """Find the revert's output: some endpoints wrap it once more, or begin it with a word."""
    if isinstance(given, dict):
        given = given.get("data") or given.get("result")
    if not isinstance(given, str):
        return None
    given = given.removeprefix(_REVERTED)
    return given if given.startswith("0x") else None


def from_body(endpoint: str, method: str, body: bytes, words: str) -> RpcError:
    """Translate a body with status 200 that is no JSON-RPC answer; `words` say what is wrong."""
    if is_throttled_page(body):
        return RpcError(endpoint, ErrorKind.THROTTLED, f"{method}: no answer, but a wish to wait")
    kind = ErrorKind.CUT if is_cut(body) else ErrorKind.INVALID
    return RpcError(endpoint, kind, f"{method}: {words}")
