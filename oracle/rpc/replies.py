"""JSON-RPC responses: which request a response belongs to, and what its `error` means.

Request ids are compared only here, for reading and for sending: a response to another request
counts as a broken connection, because a proxy mixed up two responses. Vendors return errors in
many shapes; their messages must reach the operator.
"""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec

from oracle.rpc.error_kinds import ErrorKind
from oracle.rpc.provider_dialects import kind_of

T = TypeVar("T")

# HTTP 429 (Too Many Requests), which some endpoints also use as a JSON-RPC code.
_TOO_MANY = 429
# How many bytes of a body that is not JSON-RPC are read, and how many characters are shown.
_READ, _SHOWN = 2_000, 120
_MARKS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Fields in which vendors put the error message, the usual one first.
_WORDS = ("message", "error", "reason", "detail", "details", "description", "title")


class Reply(msgspec.Struct, Generic[T], gc=False):
    """A JSON-RPC response; `result` is UNSET if there is none, `error` has any shape."""

    id: object = None
    result: T | msgspec.UnsetType | None = msgspec.UNSET
    error: object = None

    @property
    def is_told(self) -> bool:
        """Whether it has a result, which may be null, or an error."""
        return self.error is not None or self.result is not msgspec.UNSET


class JsonRpcErrorBody(msgspec.Struct):
    """The `error` of a response; `code` is 0 and `message` empty if it has none."""

    code: int = 0
    message: str = ""

    def is_by_code(self) -> bool:
        """Return whether the message alone does not show the kind of error."""
        return kind_of(0, self.message) is ErrorKind.UNKNOWN and self.code != _TOO_MANY


def is_cut(body: bytes) -> bool:
    """Return whether JSON ends before its brackets are closed, rather than being malformed."""
    first, last = body.lstrip()[:1], body.rstrip()[-1:]
    if first not in (b"", b"{", b"["):
        return False
    if last not in (b"}", b"]"):
        return True
    bare = _STRINGS.sub(b"", body)
    opened = bare.count(b"{") + bare.count(b"[")
    return b'"' in bare or opened > bare.count(b"}") + bare.count(b"]")


def fault_of(error: object) -> JsonRpcErrorBody:
    """Parse the `error` of a response: an object, as specified, or a text, a number, a list."""
    if isinstance(error, list):
        return fault_of(error[0]) if error else JsonRpcErrorBody()
    if isinstance(error, dict):
        return JsonRpcErrorBody(_code(error.get("code")), _words(error))
    if isinstance(error, str):
        return JsonRpcErrorBody(0, error)
    return JsonRpcErrorBody(_code(error), "")


def _code(written: object) -> int:
    if isinstance(written, str):
        try:
            return int(written)
        except ValueError:
            return 0
    return int(written) if isinstance(written, int | float) else 0


def _words(error: dict[str, Any]) -> str:
    """Return the message with any text in `data`, where some vendors put the reason."""
    said = next((error[name] for name in _WORDS if error.get(name)), "")
    if isinstance(said, dict):
        said = _words(said)
    beside = error.get("data")
    told = [_text(said)]
    if isinstance(beside, str) and not beside.startswith("0x"):
        told.append(beside)
    elif not said and beside is not None:
        told.append(_text(beside))
    return ": ".join(text for text in told if text)


def _text(said: object) -> str:
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def is_of(given: object, asked: int, *, is_error: bool) -> bool:
    """Return whether a response with this id answers the request with this id.

    Some endpoints write a number as text or with a decimal point; an error may have no id.
    """
    return is_error if given is None else _number(given) == asked


def by_question(replies: Iterable[Reply[T]], asked: Collection[int]) -> dict[int, Reply[T]] | None:
    """Return the responses of a batch by request id; some may be missing.

    Returns None if a response has an id that was not requested, or if two have the same id.
    """
    found: dict[int, Reply[T]] = {}
    for reply in replies:
        if reply.id is None and reply.error is not None:
            # An error without an id does not name its request; that request counts as unanswered.
            continue
        number = _number(reply.id)
        if number is None or number in found or number not in asked:
            return None
        found[number] = reply
    return found


def _number(given: object) -> int | None:
    if isinstance(given, str):
        return int(given) if given.isdecimal() else None
    is_whole = isinstance(given, int | float) and not isinstance(given, bool)
    return int(given) if is_whole and given == int(given) else None  # type: ignore[call-overload]  # a number


def snippet(body: bytes) -> str:
    """Return the beginning of a body as readable text, without the tags of a web page."""
    text = _MARKS.sub(" ", body[:_READ].decode("utf-8", "replace"))
    return " ".join(text.split())[:_SHOWN]


def is_mistaken(body: bytes, asked: Collection[int]) -> bool:
    """Return whether a body that failed to decode is a response to another request."""
    try:
        said = decoder_of(Reply[object] | list[Reply[object]]).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return by_question(said if isinstance(said, list) else [said], asked) is None


# msgspec 0.22 caches what it learns of a class while it learns it: a second thread that makes a
# decoder for the same class meanwhile gets one that crashes the process.
_LEARNING = Lock()


def decoder_of(shape: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    """Return the cached decoder for this type of body; thread-safe."""
    with _LEARNING:
        return _decoder(shape)


@lru_cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    return msgspec.json.Decoder(shape)
