"""Turns a contract's numbers and texts into our words, by the enums of a profile."""

from collections.abc import Mapping
from enum import StrEnum

from oracle.chain.decode.abi_tails import MalformedError
from oracle.chain.decode.field_bounds import is_unsigned
from oracle.chain.decode.log_parts import Getter, Parts, TypedValue
from oracle.chain.profiles.profile import ABSENT, Enum, Literal
from oracle.domain.events.event_names import FIELD_KINDS

_LONGEST_SHOWN = 40

# The fields that are words, and which words they take.
WORDS: Mapping[str, type[StrEnum]] = {
    name: kind.enum for name, kind in FIELD_KINDS.items() if kind.enum is not None
}


class _EnumTable(dict[Literal, StrEnum | None]):
    """A table; what is not in it reads as `rest`, or cannot be read."""

    def __init__(self, key: str, words: Mapping[Literal, StrEnum | None]) -> None:
        super().__init__(words)
        self._key = key
        self._has_rest = False
        self._rest: StrEnum | None = None

    def otherwise(self, rest: StrEnum | None) -> None:
        """Say what everything else reads as."""
        self._has_rest, self._rest = True, rest

    def __missing__(self, said: Literal) -> StrEnum | None:
        if not self._has_rest:
            raise MalformedError(f"{self._key} has no word for {str(said)[:_LONGEST_SHOWN]!r}")
        return self._rest


def word_of(enum: Enum, field: str, given: TypedValue, block: Getter) -> Getter:
    """Return what reads a field's word; `block` reads the number of the block.

    Raises:
        ValueError: the enum is of other words, or of another type, than field and value are.
    """
    _check(enum, field, given)
    tables = [(first, _words(enum, field, table)) for first, table in enum.tables]
    (_, words), *later = tables
    if not later:
        return given.then(words.__getitem__)
    read = given.read

    def word(parts: Parts) -> StrEnum | None:
        number, held = block(parts), words
        for first, table in later:
            if number >= first:
                held = table
        return held[read(parts)]

    return word


def _words(enum: Enum, field: str, table: Mapping[Literal, str]) -> _EnumTable:
    words = _EnumTable(enum.key, {said: _ours(field, word) for said, word in table.items()})
    if enum.otherwise is not None:
        words.otherwise(_ours(field, enum.otherwise))
    return words


def _ours(field: str, word: str) -> StrEnum | None:
    return None if word == ABSENT else WORDS[field](word)


def _check(enum: Enum, field: str, given: TypedValue) -> None:
    if field not in WORDS:
        raise ValueError(f"an enum is for {', '.join(WORDS)} alone")
    is_text = given.kind == "string"
    if not (is_text or is_unsigned(given.kind)):
        raise ValueError(f"an enum takes an unsigned number or a string; this is {given.shown}")
    if any(isinstance(said, str) is not is_text for _, table in enum.tables for said in table):
        raise ValueError(f"{enum.key} is not made for {given.shown}")
    said = [word for _, table in enum.tables for word in table.values()]
    for word in [*said, enum.otherwise or ABSENT]:
        if word != ABSENT and word not in set(WORDS[field]):
            raise ValueError(f"{enum.key} says {word!r}, which is no {field}")
