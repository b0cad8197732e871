"""What comes back from JSON-RPC: whose question it answers, and what its `error` says.

The one place where ids are compared, for reading and for sending: an answer to another question is
no answer but a broken connection, behind a proxy that mixed two up. Errors have as many shapes as
there are vendors; their own words must reach whoever operates us.
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

# HTTP's code of too many requests, which some write into JSON as well.
_TOO_MANY = 429
# How much of what is no JSON-RPC is read, and how much of its text is shown.
_READ, _SHOWN = 2_000, 120
_MARKS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Where vendors put their words, the usual place first.
_WORDS = ("message", "error", "reason", "detail", "details", "description", "title")


class Reply(msgspec.Struct, Generic[T], gc=False):
    """A JSON-RPC answer; `result` is unset where there is none, `error` of whatever shape."""

    id: object = None
    result: T | msgspec.UnsetType | None = msgspec.UNSET
    error: object = None

    @property
    def is_told(self) -> bool:
        """Whether it is an answer at all: a result, which may be null, or an error."""
        return self.error is not None or self.result is not msgspec.UNSET


class JsonRpcErrorBody(msgspec.Struct):
    """What the `error` of an answer says; `code` 0 and no words where it does not."""

    code: int = 0
    message: str = ""

    def is_by_code(self) -> bool:
        """Tell whether its words alone say nothing that we know."""
        return kind_of(0, self.message) is ErrorKind.UNKNOWN and self.code != _TOO_MANY


def is_cut(body: bytes) -> bool:
    """Tell whether JSON ends before what it opened is closed, and not where it went wrong."""
    first, last = body.lstrip()[:1], body.rstrip()[-1:]
    if first not in (b"", b"{", b"["):
        return False
    if last not in (b"}", b"]"):
        return True
    bare = _STRINGS.sub(b"", body)
    opened = bare.count(b"{") + bare.count(b"[")
    return b'"' in bare or opened > bare.count(b"}") + bare.count(b"]")


def fault_of(error: object) -> JsonRpcErrorBody:
    """Read the `error` of an answer: an object as it should be, or text, a number, a list."""
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
    """Return the message, and what stands beside it as text, as some put the reason there."""
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
    """Tell whether an answer with the id `given` is one to our question of the id `asked`.

    Some write a number as text, or with a point; an error may come without any id.
    """
    return is_error if given is None else _number(given) == asked


def by_question(replies: Iterable[Reply[T]], asked: Collection[int]) -> dict[int, Reply[T]] | None:
    """Return the answers of a batch by the ids of their questions; some may be left out.

    None: one answers a question that was not asked, or two the same one.
    """
    found: dict[int, Reply[T]] = {}
    for reply in replies:
        if reply.id is None and reply.error is not None:
            # It does not say which one it refuses: none of them was answered.
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
    """Return the beginning of what came, as text for people; a web page without its marks."""
    text = _MARKS.sub(" ", body[:_READ].decode("utf-8", "replace"))
    return " ".join(text.split())[:_SHOWN]


def is_mistaken(body: bytes, asked: Collection[int]) -> bool:
    """Tell whether what could not be read as an answer is one to another question."""
    try:
        said = decoder_of(Reply[object] | list[Reply[object]]).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return by_question(said if isinstance(said, list) else [said], asked) is None


# msgspec 0.22 writes down what it learns of a class while it learns it: a second thread that
# makes a decoder for the same class meanwhile gets one that crashes the process.
_LEARNING = Lock()


def decoder_of(shape: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    """Return the decoder of this type of answer, made once; any thread may ask."""
    with _LEARNING:
        return _decoder(shape)


@lru_cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401  # a type made at run time
    return msgspec.json.Decoder(shape)
