"""Exceptions for endpoint failures, built from HTTP and JSON-RPC errors.

The messages differ from provider to provider; `provider_dialects` lists many of them.
`error_kinds` lists the reaction to each kind. See
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
    classify_error,
    is_batch_refusal,
    is_rate_limit_page,
    parse_max_blocks,
    parse_suggested_range,
)
from oracle.rpc.replies import (
    JsonRpcErrorBody,
    extract_body_excerpt,
    is_truncated_json,
    parse_error_body,
)
from oracle.telemetry.safe_text import redact_secrets

__all__ = [
    "BATCH_STATUS_KINDS",
    "BLAMELESS",
    "DIVISIBLE",
    "ErrorKind",
    "RpcError",
    "combine_failures",
]

_MAX_MESSAGE_LENGTH = 200
# Maximum wait. A longer Retry-After is capped.
_MAX_RETRY_AFTER_SECONDS = 3600.0


# Only these methods run the EVM, so only they can revert.
_EVM_METHODS = frozenset({"eth_call", "eth_estimateGas"})
# JSON-RPC code for a revert in Geth and compatible clients.
_REVERT_CODE = 3
# The message of a revert contains "revert" in Geth, Erigon, Anvil, Hardhat, Ganache, Besu and
# Reth. It contains "VM execution error" in OpenEthereum and Nethermind. The other patterns mean
# that the EVM stopped for another reason.
_REVERT_PATTERN = re.compile(
    r"revert|vm execution error|invalid opcode|out ?of ?gas|stack (?:under|over)flow"
    r"|bad instruction|invalid jump|always failing transaction",
    re.IGNORECASE,
)
# The call needs more gas than a block has or the endpoint allows.
_OUT_OF_GAS_PATTERN = re.compile(
    r"out ?of ?gas|gas required exceeds|exceeds block gas|gas too high", re.IGNORECASE
)
# These codes mean a rate limit or a quota, unless the message shows that the provider uses the
# code for something else.
_RATE_LIMIT_CODES = frozenset({429, 42903, -32005, -32007, -32012, -32029, -32090})
_NOT_RATE_LIMIT_PATTERN = re.compile(r"gas|authori|batch|range|fee|pool|queue", re.IGNORECASE)
# Nethermind and OpenEthereum put this string before the output of a revert.
_REVERT_OUTPUT_PREFIX = "Reverted "


class NoEndpointError(InputError):
    """No endpoint is configured."""


class RpcError(TransientError):
    """A request to an endpoint failed.

    `retry_after` is the number of seconds to wait, and `max_blocks` the endpoint's limit of blocks
    in one range; each is None if the endpoint did not state it. `suggested_range` contains the
    first and last block of a range that the endpoint suggests. It is unchecked, and may equal the
    requested range, be inverted or lie outside of it
    (docs/reference/rpc-requirements.md#errors-when-reading). `is_for_whole_batch` is whether the
    error concerns a whole batch. `exceeds_own_limit` is whether the response exceeds a limit of
    the daemon instead of a limit of the endpoint.
    """

    def __init__(
        self,
        endpoint: str,
        kind: ErrorKind,
        detail: str,
        *,
        retry_after: float | None = None,
        max_blocks: int | None = None,
    ) -> None:
        self.detail = _sanitize_message(detail)
        super().__init__(f"{endpoint}: {kind}: {self.detail}")
        self.endpoint = endpoint
        self.kind = kind
        self.retry_after = retry_after
        self.max_blocks = max_blocks
        self.suggested_range: tuple[int, int] | None = None
        self.is_for_whole_batch = False
        self.exceeds_own_limit = False


class CallRefusedError(RpcError):
    """The endpoint understood the request but returned an error.

    `code` is the JSON-RPC code, or 0 if there is none. `message` is the endpoint's message. `data`
    is the output of a call that reverted, or None if the endpoint omitted it.
    """

    def __init__(
        self, endpoint: str, kind: ErrorKind, error_body: JsonRpcErrorBody, data: str | None = None
    ) -> None:
        detail = f"{error_body.message or 'an error without a message'} ({error_body.code})"
        super().__init__(endpoint, kind, detail)
        self.code = error_body.code
        self.message = _sanitize_message(error_body.message)
        self.data = data

    @property
    def is_out_of_gas(self) -> bool:
        """Whether the call ran out of gas.

        Such a call has no revert data.
        """
        return self.data is None and _OUT_OF_GAS_PATTERN.search(self.message) is not None

    @property
    def is_rate_limited(self) -> bool:
        """Whether the endpoint refused the request because of its rate limit."""
        has_rate_limit_code = (
            self.code in _RATE_LIMIT_CODES and not _NOT_RATE_LIMIT_PATTERN.search(self.message)
        )
        return has_rate_limit_code or classify_error(0, self.message) is ErrorKind.THROTTLED


class RevertError(CallRefusedError):
    """The call was executed and reverted, as on every correct endpoint."""

    @property
    @override
    def is_rate_limited(self) -> bool:
        return False


class RpcTimeoutError(RpcError):
    """A connection or a response took too long."""

    def __init__(self, endpoint: str, phase: Literal["connect", "answer"]) -> None:
        kind = ErrorKind.UNREACHABLE if phase == "connect" else ErrorKind.SLOW
        awaited_event = "connection" if phase == "connect" else "response"
        super().__init__(endpoint, kind, f"no {awaited_event} in time")
        self.phase = phase


def _sanitize_message(message: str) -> str:
    return " ".join(redact_secrets(message).split())[:_MAX_MESSAGE_LENGTH]


def combine_failures(failures: Sequence[RpcError]) -> RpcError:
    """Return the last of these failures, with the others added to its message."""
    last_failure = failures[-1]
    earlier_errors_text = "; ".join(str(error) for error in failures[:-1])
    detail = (
        f"{last_failure.detail} (earlier failures: {earlier_errors_text})"
        if earlier_errors_text
        else last_failure.detail
    )
    return RpcError(last_failure.endpoint, last_failure.kind, detail)


def build_response_too_large_error(endpoint: str, max_bytes: int) -> RpcError:
    """Build the error for a response of more than `max_bytes`."""
    detail = f"the response exceeds [chain] max_response_mib = {max_bytes / 2**20:g}"
    error = RpcError(endpoint, ErrorKind.TOO_LARGE, detail)
    error.exceeds_own_limit = True
    return error


def build_error_from_status(
    endpoint: str, status: int, headers: Mapping[str, str], body: bytes
) -> RpcError | None:
    """Build the error for an HTTP status, or return None if the body must be parsed.

    Some endpoints return JSON-RPC errors with an HTTP error status.
    """
    retry_after_seconds = _parse_retry_after(headers)
    is_json = body[:1] in (b"{", b"[")
    is_throttled = (not is_json or status in _ACCESS_DENIED_STATUSES) and is_rate_limit_page(body)
    if status == HTTPStatus.TOO_MANY_REQUESTS or is_throttled:
        return RpcError(
            endpoint,
            ErrorKind.THROTTLED,
            _describe_status(status, body),
            retry_after=retry_after_seconds,
        )
    if not is_json and is_batch_refusal(extract_body_excerpt(body)):
        return RpcError(endpoint, ErrorKind.UNSUPPORTED, _describe_status(status, body))
    # Search the body last, because most bodies are large and contain no error.
    has_error_in_body = status in _STATUSES_WITH_ERROR_BODY and is_json and b'"error"' in body
    if status in _KIND_BY_STATUS and not has_error_in_body:
        error = RpcError(endpoint, _KIND_BY_STATUS[status], _describe_status(status, body))
        return _add_stated_limits(error, extract_body_excerpt(body))
    # Redirects are not followed, and the body of a redirect does not answer the request.
    is_redirect = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    if is_json and not is_redirect:
        return None
    if status == HTTPStatus.OK:
        return RpcError(endpoint, ErrorKind.INVALID, _describe_non_json(headers, body))
    is_unreachable = status not in _BAD_REQUEST_STATUSES
    kind = (
        ErrorKind.UNREACHABLE if is_unreachable else classify_error(0, extract_body_excerpt(body))
    )
    return RpcError(
        endpoint, kind, _describe_status(status, body), retry_after=retry_after_seconds
    )


def _describe_status(status: int, body: bytes) -> str:
    """Return the HTTP status, followed by an excerpt of the body if there is one."""
    if excerpt := extract_body_excerpt(body):
        return f"HTTP {status}: {excerpt}"
    return f"HTTP {status}"


def _describe_non_json(headers: Mapping[str, str], body: bytes) -> str:
    content_type = headers.get("Content-Type", "no content type")
    if "json" in content_type:
        message = f"returned {content_type}, but the body is not JSON"
    else:
        message = f"returned {content_type} instead of JSON; check that this is a JSON-RPC address"
    return f"{message}; body: {excerpt}" if (excerpt := extract_body_excerpt(body)) else message


# Kinds of errors for an HTTP status without a JSON-RPC body. They concern the entire request or
# batch.
BATCH_STATUS_KINDS = frozenset({ErrorKind.UNKNOWN, ErrorKind.REFUSED, ErrorKind.UNSUPPORTED})
# Statuses of an endpoint that rejects the content of a request, or any batch.
_BAD_REQUEST_STATUSES = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# Statuses with which some endpoints send JSON-RPC errors. These errors are more precise.
_STATUSES_WITH_ERROR_BODY = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
_ACCESS_DENIED_STATUSES = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.PAYMENT_REQUIRED,
    HTTPStatus.FORBIDDEN,
}
_KIND_BY_STATUS: dict[int, ErrorKind] = {
    **dict.fromkeys(_ACCESS_DENIED_STATUSES, ErrorKind.REFUSED),
    HTTPStatus.NOT_FOUND: ErrorKind.INVALID,
    HTTPStatus.METHOD_NOT_ALLOWED: ErrorKind.UNSUPPORTED,
    HTTPStatus.REQUEST_TIMEOUT: ErrorKind.SLOW,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ErrorKind.TOO_LARGE,
    HTTPStatus.GATEWAY_TIMEOUT: ErrorKind.SLOW,
    # A caching proxy (Cloudflare) sends this status if the server behind it did not respond in
    # time.
    524: ErrorKind.SLOW,
}


def _parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, at most an hour.

    The header is a number or a date. The result is None if it is neither.
    """
    header = headers.get("Retry-After", "")
    if header.isdecimal():
        return min(_MAX_RETRY_AFTER_SECONDS, float(header))
    try:
        retry_at = parsedate_to_datetime(header)
        seconds_left = (retry_at - parsedate_to_datetime(headers["Date"])).total_seconds()
        return min(_MAX_RETRY_AFTER_SECONDS, max(0.0, seconds_left))
    except (KeyError, ValueError, TypeError):
        return None


def build_error_from_body(endpoint: str, method: str, error: object) -> CallRefusedError:
    """Build the exception for the `error` of a JSON-RPC response."""
    error_body = parse_error_body(error)
    kind = classify_error(error_body.code, error_body.message)
    data = _extract_revert_data(error.get("data")) if isinstance(error, dict) else None
    is_revert = (
        error_body.code == _REVERT_CODE
        or data is not None
        or _REVERT_PATTERN.search(error_body.message)
    )
    error_class = RevertError if method in _EVM_METHODS and is_revert else CallRefusedError
    call_refused_error = error_class(endpoint, kind, error_body, data)
    _add_stated_limits(call_refused_error, error_body.message)
    return call_refused_error


def _add_stated_limits(error: RpcError, message: str) -> RpcError:
    """Add the range or limit stated in a message to the error, and return the error."""
    if error.kind is ErrorKind.TOO_LARGE:
        error.suggested_range = parse_suggested_range(message)
        # A suggested range applies only to this request; a stated limit applies to all.
        error.max_blocks = None if error.suggested_range else parse_max_blocks(message)
    return error


def _extract_revert_data(data: object) -> str | None:
    """Return the output of a revert, or None if there is none.

    The output may be nested or prefixed.
    """
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    if not isinstance(data, str):
        return None
    data = data.removeprefix(_REVERT_OUTPUT_PREFIX)
    return data if data.startswith("0x") else None


def build_error_from_invalid_body(
    endpoint: str, method: str, body: bytes, problem: str
) -> RpcError:
    """Build the error for a body with status 200 that is not JSON-RPC."""
    if is_rate_limit_page(body):
        message = f"{method}: the body is not JSON-RPC and reports a rate limit"
        return RpcError(endpoint, ErrorKind.THROTTLED, message)
    kind = ErrorKind.CUT if is_truncated_json(body) else ErrorKind.INVALID
    return RpcError(endpoint, kind, f"{method}: {problem}")
