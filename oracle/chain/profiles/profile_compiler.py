"""Compiles the mappings of an event or function into one decoder function.

Argument lookup, enum conversion and record building are closures that are built once, so that a
mapping defined as data is as fast as one written by hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.decode.abi_tails import MalformedError
from oracle.chain.decode.decoder_plan import LogTaker, call_inputs, plan_of
from oracle.chain.decode.field_bounds import fitted, is_literal_in_bounds, is_unsigned, zero_of
from oracle.chain.decode.log_parts import Getter, Parts, TypedValue
from oracle.chain.decode.record_filler import RecordReader, reader_of
from oracle.chain.profiles.profile import (
    ABSENT,
    CompiledMapping,
    Enum,
    EventMapping,
    Literal,
    Value,
)
from oracle.chain.profiles.value_paths import Inputs, arguments_in, hint
from oracle.domain.events.event_fields import field_kinds_of, required_fields_of
from oracle.domain.events.event_names import FIELD_KINDS, NAMES
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.logs import Call, Log

_LONGEST_SHOWN = 40

# The enumeration fields, and the enumeration class of each.
WORDS: Mapping[str, type[StrEnum]] = {
    name: kind.enum for name, kind in FIELD_KINDS.items() if kind.enum is not None
}


class _EnumTable(dict[Literal, StrEnum | None]):
    """A table of enumeration values; other keys give the default, or raise MalformedError."""

    def __init__(self, key: str, words: Mapping[Literal, StrEnum | None]) -> None:
        super().__init__(words)
        self._key = key
        self._has_rest = False
        self._rest: StrEnum | None = None

    def otherwise(self, rest: StrEnum | None) -> None:
        """Set the value of all keys that are not in the table."""
        self._has_rest, self._rest = True, rest

    def __missing__(self, said: Literal) -> StrEnum | None:
        if not self._has_rest:
            raise MalformedError(f"{self._key} has no word for {str(said)[:_LONGEST_SHOWN]!r}")
        return self._rest


def word_of(enum: Enum, field: str, given: TypedValue, block: Getter) -> Getter:
    """Return the getter of an enumeration field; `get_block` reads the block number.

    Raises:
        ValueError: the enum's words or input type do not fit the field or value.
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


_Taker: TypeAlias = Callable[[Any], Parts]
_Condition: TypeAlias = Callable[[Parts], bool]
# The block number is the last of the parts.
_BLOCK: Getter = itemgetter(-1)


class _Reading(NamedTuple):
    """The builder of the event, or None for no event; and the conditions on the parts."""

    make: RecordReader | None
    conditions: Sequence[_Condition]


@dataclass(slots=True)
class Compiler:
    """Compiles the mappings of one profile, and collects faults as `key: what is wrong`."""

    enums: Mapping[str, Enum]
    faults: list[str] = field(default_factory=list)

    def event(
        self, signature: AbiSignature, readings: Sequence[EventMapping]
    ) -> CompiledMapping | None:
        """Return the decoder of this event's logs, or None if there is a fault."""
        try:
            plan = plan_of(signature, arguments_in(_paths(readings)))
        except ValueError as error:
            self.faults.append(f"{readings[0].key}: {error}, in {signature.text}")
            return None
        # An enum with several tables needs the block number among the parts.
        is_dated = any(len(enum.tables) > 1 for enum in self.enums.values())
        take = _dated(plan.take) if is_dated else plan.take
        inputs = Inputs(signature, plan.inputs, is_log=True)
        return self._compiled(inputs, readings, take, plan.digits)

    def call(
        self, signature: AbiSignature, readings: Sequence[EventMapping]
    ) -> CompiledMapping | None:
        """Return the decoder of this function's calls, or None if there is a fault."""
        try:
            take, inputs = call_inputs(signature)
        except ValueError as error:
            self.faults.append(f"{readings[0].key}: {error}, in {signature.text}")
            return None
        return self._compiled(Inputs(signature, inputs, is_log=False), readings, take)

    def _compiled(
        self,
        inputs: Inputs,
        readings: Sequence[EventMapping],
        take: _Taker,
        digits: int | None = None,
    ) -> CompiledMapping | None:
        faults_before, fields_ = len(self.faults), _Fields(self, inputs, take)
        compiled = [
            _Reading(fields_.maker(reading), fields_.conditions(reading)) for reading in readings
        ]
        if len(self.faults) > faults_before:
            return None
        make, conditions = compiled[0]
        if len(compiled) > 1 or make is None or conditions:
            return CompiledMapping(_reader_of_several(compiled, take), many=True, digits=digits)
        return CompiledMapping(make, many=False, digits=digits)


def _paths(readings: Sequence[EventMapping]) -> Iterator[str]:
    for reading in readings:
        yield from (*reading.when, *reading.unless)
        for value in reading.values.values():
            yield from value.arguments


def _dated(take: LogTaker) -> LogTaker:
    return lambda log: (*take(log), log.block)


def _reader_of_several(readings: Sequence[_Reading], take: _Taker) -> Callable[[Any], Any]:
    """Return a reader of all matching mappings, in order; no match raises MalformedError."""

    def read(row: Log | Call) -> list[Any]:
        parts, said, holds = take(row), list[Any](), False
        for make, conditions in readings:
            if all(condition(parts) for condition in conditions):
                holds = True
                if make is not None:
                    said.append(make(row, parts, len(said)))
        if not holds:
            raise MalformedError("no reading holds for its values")
        return said

    return read


@dataclass(frozen=True, slots=True)
class _Fields:
    """Compiles the field getters and conditions of one event or function."""

    compiler: Compiler
    inputs: Inputs
    take: _Taker

    def maker(self, reading: EventMapping) -> RecordReader | None:
        """Return the builder of the event, or None for no event or after a fault."""
        if reading.says is None:
            return None
        faults_before = len(self.compiler.faults)
        values = self._values(reading, reading.says)
        if len(self.compiler.faults) > faults_before:
            return None
        return reader_of(reading.says, values, self.take)

    def _values(self, reading: EventMapping, kind: type[DomainEvent]) -> dict[str, Getter]:
        """Return the getter of every event field that the mapping fills."""
        wanted, needed = field_kinds_of(kind), set(required_fields_of(kind))
        for name in needed - reading.values.keys():
            self.compiler.faults.append(f"{reading.key}: {NAMES[kind]} needs {name}")
        values = dict[str, Getter]()
        for name, value in reading.values.items():
            try:
                if name not in wanted:
                    raise ValueError(f"{NAMES[kind]} has no such field{hint(name, wanted)}")  # noqa: TRY301  # beside the others
                if value.zero_is_absent and name in needed:
                    raise ValueError("zero_is_absent is for fields that may be left out")  # noqa: TRY301  # beside the others
                values[name] = self._value(name, value)
            except ValueError as error:
                self.compiler.faults.append(f"{reading.key}.{name}: {error}")
        return values

    def _value(self, name: str, value: Value) -> Getter:
        if not value.arguments:
            constant = value.constant
            return lambda _: constant
        given = self.inputs.taken(value)
        if not value.zero_is_absent:
            return self._fitted(name, value, given)
        zero = zero_of(given.kind)
        if zero is None:
            raise ValueError(f"{given.shown} has no zero")
        return _absent_at(zero, given.read, self._fitted(name, value, given))

    def _fitted(self, name: str, value: Value, given: TypedValue) -> Getter:
        if value.enum is not None:
            enum = self.compiler.enums.get(value.enum)
            # The fault of the enum itself was reported with the enum.
            return given.read if enum is None else word_of(enum, name, given, _BLOCK)
        if name in WORDS:
            raise ValueError(f"needs an enum: {name} is one of our words")
        return fitted(name, given)

    def conditions(self, reading: EventMapping) -> list[_Condition]:
        """Return the conditions on the parts."""
        found = [self._condition(reading, "when", path) for path in reading.when]
        return found + [self._condition(reading, "unless", path) for path in reading.unless]

    def _condition(self, reading: EventMapping, what: str, path: str) -> _Condition:
        literals = (reading.when if what == "when" else reading.unless)[path]
        try:
            read, wanted = self._compared(path, literals)
        except ValueError as error:
            self.compiler.faults.append(f"{reading.key}.{what}.{path}: {error}")
            return lambda _: False
        if what == "when":
            return lambda parts: read(parts) in wanted
        return lambda parts: read(parts) not in wanted

    def _compared(
        self, path: str, literals: Sequence[Literal]
    ) -> tuple[Getter, frozenset[Literal]]:
        """Return the getter of an argument, and the values that it is compared with."""
        given = self.inputs.argument(path)
        for literal in literals:
            if not is_literal_in_bounds(given.kind, literal):
                raise ValueError(f"{given.shown} is never {literal!r}")
        is_hex = given.kind not in {"string", "bool"} and not is_unsigned(given.kind)
        return given.read, frozenset(str(one).lower() if is_hex else one for one in literals)


def _absent_at(zero: str | int, read: Getter, rest: Getter) -> Getter:
    return lambda parts: None if read(parts) == zero else rest(parts)
