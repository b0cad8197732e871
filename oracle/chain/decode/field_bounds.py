"""How a contract's values fit our fields: expressions of generated readers.

Descriptions (memory, versions, sizes) are bounded to what their field holds: anybody may write
any number there, and his task or node counts all the same. Names and places are never bent.
See docs/reference/events-and-jsonl.md#types.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oracle.chain.decode.abi_tails import MalformedError
from oracle.chain.decode.abi_words import layout
from oracle.chain.decode.call_arguments import array_of
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH

UINT32 = 2**32 - 1
INT63 = 2**63 - 1
_VERSION_PARTS = 3
_LAST_PLACE = 2

# The largest number that a field holds; above it a description says just that.
_BOUNDS = {
    "gpu_vram": UINT32,
    "min_vram": UINT32,
    "required_gpu_vram": UINT32,
    "timeout": INT63,
    "size": INT63,
}
ENUM_FIELDS = ("kind", "reason", "last_status")


class Given(NamedTuple):
    """A value of the chain: the expression that gives it, and its canonical Solidity type.

    A list put together of several values has their types, in `kinds`, and none of its own.
    """

    value: str
    kind: str
    kinds: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """How its type is told to people."""
        if self.kinds:
            return f"a list of {', '.join(self.kinds)}"
        return self.kind or "only the hash of a value"


def fitted(field: str, given: Given) -> str:
    """Return the expression of the field's value; `KNOWN` is what its names mean.

    Raises:
        ValueError: no value of this type fits the field.
    """
    fitting = _FITTING.get(field)
    found = None if fitting is None else fitting(given)
    if found is None:
        raise ValueError(f"{field} takes {_TAKES[field]}, and this is {given.shown}")
    return found


def zero_of(kind: str) -> str | None:
    """Return the literal that the type's zero reads as; None where it has none."""
    if kind == "address":
        return repr(str(ZERO_ADDRESS))
    if kind == "bytes32":
        return repr(str(ZERO_HASH))
    return "0" if _bits(kind) else "''" if kind == "string" else None


def is_unsigned(kind: str) -> bool:
    """Tell whether a type is an unsigned number."""
    return _bits(kind) is not None


def _bits(kind: str) -> int | None:
    """Return the bits of an unsigned number; None for any other type."""
    shape = layout(kind)
    return shape.bits if shape is not None and shape.family == "uint" else None


def _address(given: Given) -> str | None:
    return given.value if given.kind == "address" else None


def _hash(given: Given) -> str | None:
    if given.kind == "bytes32":
        return given.value
    return f"'0x%064x' % ({given.value})" if _bits(given.kind) else None


def _amount(given: Given) -> str | None:
    return given.value if _bits(given.kind) else None


def _bounded(most: int) -> Callable[[Given], str | None]:
    def fit(given: Given) -> str | None:
        bits = _bits(given.kind)
        if bits is None:
            return None
        return given.value if 2**bits - 1 <= most else f"min({given.value}, {most})"

    return fit


def _size(given: Given) -> str | None:
    """A size is at least 1: a zero says nothing."""
    found = _bounded(INT63)(given)
    return found and f"{found} or None"


def _place(given: Given) -> str | None:
    return f"place({given.value})" if _bits(given.kind) else None


def _text(given: Given) -> str | None:
    return given.value if given.kind == "string" else None


def _texts(given: Given) -> str | None:
    element, _ = array_of(given.kind) or ("", None)
    fits = element == "string" or (given.kinds and set(given.kinds) == {"string"})
    return given.value if fits else None


def _version(given: Given) -> str | None:
    element, length = array_of(given.kind) or ("", None)
    kinds = given.kinds or (element,) * (length or 0)
    widths = [_bits(kind) for kind in kinds]
    if len(widths) != _VERSION_PARTS or None in widths:
        return None
    if all(2 ** (bits or 0) - 1 <= UINT32 for bits in widths):
        return given.value
    return f"tuple([min(part, {UINT32}) for part in {given.value}])"


def _tasks(given: Given) -> str | None:
    element, _ = array_of(given.kind) or ("", None)
    kinds = set(given.kinds) or {element}
    if kinds == {"bytes32"}:
        return f"some({given.value})"
    if all(_bits(kind) for kind in kinds):
        return f"some(tuple(['0x%064x' % part for part in {given.value}]))"
    return None


_FITTING: Mapping[str, Callable[[Given], str | None]] = {
    "node": _address,
    "creator": _address,
    "task": _hash,
    "group": _hash,
    "tasks": _tasks,
    "stake": _amount,
    "fee": _amount,
    "gpu_name": _text,
    "required_gpu": _text,
    "model": _text,
    "models": _texts,
    "version": _version,
    "round": _place,
    **{name: _bounded(most) for name, most in _BOUNDS.items()},
    "size": _size,
}
_TAKES: Mapping[str, str] = {
    **dict.fromkeys(("node", "creator"), "an address"),
    **dict.fromkeys(("task", "group"), "bytes32 or an unsigned number"),
    "tasks": "a list of bytes32 or of unsigned numbers",
    **dict.fromkeys(("stake", "fee", "round", *_BOUNDS), "an unsigned number"),
    **dict.fromkeys(("gpu_name", "required_gpu", "model"), "a string"),
    "models": "a list of strings",
    "version": "three unsigned numbers",
    **dict.fromkeys(ENUM_FIELDS, "an unsigned number or a string by an enum"),
}


def _checked_place(value: int) -> int:
    if value > _LAST_PLACE:
        raise MalformedError(f"a round of {value}")
    return value


def _checked_some(tasks: tuple[str, ...]) -> tuple[str, ...]:
    if not tasks:
        raise MalformedError("a group without a task")
    return tasks


# What the expressions above refer to.
KNOWN: Mapping[str, Any] = {"place": _checked_place, "some": _checked_some}


def literal_fits(kind: str, literal: object) -> bool:
    """Tell whether a value of this type can be equal to a literal of a profile."""
    if isinstance(literal, bool):
        return kind == "bool"
    if isinstance(literal, int):
        return _bits(kind) is not None and 0 <= literal < 2 ** (_bits(kind) or 0)
    if not isinstance(literal, str):
        return False
    shape = layout(kind)
    if shape is not None and shape.family in {"address", "bytes"}:
        return re.fullmatch(rf"0x[0-9a-fA-F]{{{shape.bits // 4}}}", literal) is not None
    return kind == "string"
