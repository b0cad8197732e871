"""Matches JSON-RPC responses to their requests, and parses the errors in them.

If a response belongs to another request, a proxy has mixed up two responses, and the connection is
treated as broken. Vendors return errors in many forms; all of them are parsed so that the message
reaches the operator.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from typing_extensions import Buffer

from oracle.rpc.error_kinds import ErrorKind
from oracle.rpc.provider_dialects import classify_error

T = TypeVar("T")
AnyResponse = TypeVar("AnyResponse", "JsonRpcResponse[Any]", "_RawJsonRpcResponse")

# HTTP status "Too Many Requests". Some endpoints also use it as a JSON-RPC code.
_TOO_MANY_REQUESTS = 429
# Of a body that is not JSON-RPC, at most this many bytes are read, and at most this many
# characters are shown.
_MAX_EXCERPT_BYTES, _MAX_EXCERPT_CHARACTERS = 2_000, 120
_HTML_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_JSON_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Fields in which vendors put the error message. The standard field comes first.
_MESSAGE_FIELDS = ("message", "error", "reason", "detail", "details", "description", "title")


class JsonRpcResponse(msgspec.Struct, Generic[T], gc=False):
    """A JSON-RPC response.

    `result` is UNSET if it is missing, and `error` is any JSON value.
    """

    id: object = None
    result: T | msgspec.UnsetType | None = msgspec.UNSET
    error: object = None

    @property
    def has_result_or_error(self) -> bool:
        """Whether the response has an error or a result, which may be null."""
        return self.error is not None or self.result is not msgspec.UNSET


class _RawJsonRpcResponse(msgspec.Struct, gc=False):
    """A JSON-RPC response whose result is not decoded.

    `result` is empty if it is missing.
    """

    id: object = None
    result: msgspec.Raw = msgspec.Raw()
    error: object = None


class JsonRpcErrorBody(msgspec.Struct):
    """The `error` of a response.

    A missing `code` is 0, and a missing `message` is empty.
    """

    code: int = 0
    message: str = ""

    def is_known_by_code_only(self) -> bool:
        """Return whether only the code, and not the message, shows the kind of the error."""
        return (
            classify_error(0, self.message) is ErrorKind.UNKNOWN
            and self.code != _TOO_MANY_REQUESTS
        )


def is_truncated_json(body: bytes) -> bool:
    """Return whether JSON text is valid but ends before its brackets are closed."""
    first_byte = body.lstrip()[:1]
    last_byte = body.rstrip()[-1:]
    if first_byte not in (b"", b"{", b"["):
        return False
    if last_byte not in (b"}", b"]"):
        return True
    body_without_strings = _JSON_STRINGS.sub(b"", body)
    open_count = body_without_strings.count(b"{") + body_without_strings.count(b"[")
    return b'"' in body_without_strings or open_count > body_without_strings.count(
        b"}"
    ) + body_without_strings.count(b"]")


def parse_error_body(error: object) -> JsonRpcErrorBody:
    """Parse the `error` of a response.

    It may be an object, a text, a number or a list.
    """
    if isinstance(error, list):
        return parse_error_body(error[0]) if error else JsonRpcErrorBody()
    if isinstance(error, dict):
        return JsonRpcErrorBody(_parse_error_code(error.get("code")), _extract_error_text(error))
    if isinstance(error, str):
        return JsonRpcErrorBody(0, error)
    return JsonRpcErrorBody(_parse_error_code(error), "")


def _parse_error_code(code: object) -> int:
    if isinstance(code, str):
        try:
            return int(code)
        except ValueError:
            return 0
    return int(code) if isinstance(code, int | float) else 0


def _extract_error_text(error: dict[str, Any]) -> str:
    """Return the error's message, followed by the text in `data`.

    Some vendors put the reason in `data`.
    """
    message = next((error[name] for name in _MESSAGE_FIELDS if error.get(name)), "")
    if isinstance(message, dict):
        message = _extract_error_text(message)
    data = error.get("data")
    text_parts = [_convert_to_text(message)]
    if isinstance(data, str) and not data.startswith("0x"):
        text_parts.append(data)
    elif not message and data is not None:
        text_parts.append(_convert_to_text(data))
    return ": ".join(text for text in text_parts if text)


def _convert_to_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def matches_request_id(response_id: object, request_id: int, *, is_error: bool) -> bool:
    """Return whether a response with this id answers the request with this id.

    Some endpoints return a number as text or with a decimal point. An error may have no id.
    """
    return is_error if response_id is None else _parse_response_id(response_id) == request_id


def index_responses_by_request_id(
    responses: Iterable[AnyResponse], request_ids: Collection[int]
) -> dict[int, AnyResponse] | None:
    """Return the responses of a batch, keyed by request id.

    Responses may be missing. Returns None if a response has an id that was not requested, or if
    two responses have the same id.
    """
    response_by_id: dict[int, AnyResponse] = {}
    for response in responses:
        if response.id is None and response.error is not None:
            # An error without an id cannot be assigned to a request. The request then counts as
            # unanswered.
            continue
        request_id = _parse_response_id(response.id)
        if request_id is None or request_id in response_by_id or request_id not in request_ids:
            return None
        response_by_id[request_id] = response
    return response_by_id


def _parse_response_id(response_id: object) -> int | None:
    if isinstance(response_id, str):
        return int(response_id) if response_id.isdecimal() else None
    is_number = isinstance(response_id, int | float) and not isinstance(response_id, bool)
    return int(response_id) if is_number and response_id == int(response_id) else None  # type: ignore[call-overload]  # a number


# A function that reads the result of a request with these parameters directly from JSON. It
# returns None if the JSON has an unusual form and must be decoded.
RawReader: TypeAlias = Callable[[Sequence[Any], Buffer], T | None]


def read_raw_responses(
    body: bytes, requests: Sequence[Mapping[str, Any]], read_raw: RawReader[T], *, is_batch: bool
) -> dict[int, JsonRpcResponse[T]] | None:
    """Read results with `read_raw`, and return the responses keyed by request id.

    The result is None if a response must be decoded.
    """
    body_type = list[_RawJsonRpcResponse] if is_batch else _RawJsonRpcResponse
    try:
        decoded_body = get_body_decoder(body_type).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    params_by_id = {request["id"]: request["params"] for request in requests}
    raw_by_id = index_responses_by_request_id(
        decoded_body if is_batch else [decoded_body], params_by_id
    )
    if raw_by_id is None or len(raw_by_id) < len(params_by_id):
        return None
    response_by_id: dict[int, JsonRpcResponse[T]] = {}
    for request_id, params in params_by_id.items():
        raw_response = raw_by_id[request_id]
        result = None if raw_response.error is not None else read_raw(params, raw_response.result)
        if result is None:
            return None
        response_by_id[request_id] = JsonRpcResponse(request_id, result)
    return response_by_id


def extract_body_excerpt(body: bytes) -> str:
    """Return the beginning of a body as readable text.

    The tags of a web page are removed.
    """
    excerpt = _HTML_TAGS.sub(" ", body[:_MAX_EXCERPT_BYTES].decode("utf-8", "replace"))
    return " ".join(excerpt.split())[:_MAX_EXCERPT_CHARACTERS]


def is_response_to_other_request(body: bytes, request_ids: Collection[int]) -> bool:
    """Return whether a body that could not be decoded answers another request."""
    try:
        decoded_body = get_body_decoder(
            JsonRpcResponse[object] | list[JsonRpcResponse[object]]
        ).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (
        index_responses_by_request_id(
            decoded_body if isinstance(decoded_body, list) else [decoded_body], request_ids
        )
        is None
    )


# msgspec 0.22 caches the description of a class before it is complete. If a second thread then
# builds a decoder for the same class, that decoder crashes the process.
_DECODER_LOCK = Lock()


def get_body_decoder(body_type: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    """Return the cached JSON decoder for this type of body.

    The function is thread-safe.
    """
    with _DECODER_LOCK:
        return _build_decoder(body_type)


@lru_cache
def _build_decoder(body_type: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    return msgspec.json.Decoder(body_type)
