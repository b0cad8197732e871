"""Compiles what a profile says about an event or a function into one function that reads it.

What is taken, turned into our words and put into an event all happens in generated code: a
mapping that is data costs no more than one written by hand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.decode.field_bounds import (
    KNOWN,
    Given,
    fitted,
    is_unsigned,
    literal_fits,
    zero_of,
)
from oracle.chain.decode.log_decoder import (
    CALL_PARTS,
    LOG_PARTS,
    POSITION,
    DecoderPlan,
    call_position,
    log_position,
    plan_of,
    plan_of_call,
)
from oracle.chain.decode.record_filler import filled
from oracle.chain.profiles.enum_mapping import WORDS, word_of
from oracle.chain.profiles.profile import CompiledMapping, Enum, EventMapping, Literal, Value
from oracle.chain.profiles.value_paths import Inputs, hint
from oracle.domain.events.event_names import NAMES
from oracle.domain.events.network_events import DomainEvent


@dataclass(slots=True)
class Compiler:
    """Compiles the readings of one profile, and notes every fault as `key: what is wrong`."""

    enums: Mapping[str, Enum]
    faults: list[str] = field(default_factory=list)

    def event(
        self, signature: AbiSignature, readings: Sequence[EventMapping]
    ) -> CompiledMapping | None:
        """Return the reader of logs of this event; None where there is a fault."""
        return self._compiled(signature, readings, plan_of)

    def call(
        self, signature: AbiSignature, readings: Sequence[EventMapping]
    ) -> CompiledMapping | None:
        """Return the reader of calls of this function; None where there is a fault."""
        return self._compiled(signature, readings, plan_of_call)

    def _compiled(
        self,
        signature: AbiSignature,
        readings: Sequence[EventMapping],
        planned: Callable[[AbiSignature], DecoderPlan],
    ) -> CompiledMapping | None:
        faults_before = len(self.faults)
        try:
            plan = planned(signature)
        except ValueError as error:
            self.faults.append(f"{readings[0].key}: {error}, in {signature.text}")
            return None
        text = _Text(self, plan, Inputs(signature, plan))
        many = len(readings) > 1 or not _always(readings[0])
        lines = text.several(readings) if many else text.one(readings[0])
        if len(self.faults) > faults_before:
            return None
        plan.known |= {**POSITION, **KNOWN, **text.known}
        opening = LOG_PARTS if plan.is_log else CALL_PARTS
        read = plan.compiled(signature.name, "log", [opening], lines)
        return CompiledMapping(read, many, plan.digits)


def _always(reading: EventMapping) -> bool:
    return reading.says is not None and not (reading.when or reading.unless)


@dataclass(slots=True)
class _Text:
    """The lines of one reader as they are made, and what the names in them mean."""

    compiler: Compiler
    plan: DecoderPlan
    inputs: Inputs
    known: dict[str, Any] = field(default_factory=dict)

    def one(self, reading: EventMapping) -> list[str]:
        return [*self._made(reading, "made", "0"), "return made"]

    def several(self, readings: Sequence[EventMapping]) -> list[str]:
        """Say everything that holds, in order; where nothing does, it cannot be read."""
        lines = ["said, holds = [], False"]
        for number, reading in enumerate(readings):
            made, body = f"made{number}", ["holds = True"]
            if reading.says is not None:
                body += [*self._made(reading, made, "len(said)"), f"said.append({made})"]
            lines += [f"if {self._condition(reading)}:", *(f"    {line}" for line in body)]
        refusal = "raise Malformed('no reading holds for its values')"
        return [*lines, f"if not holds: {refusal}", "return said"]

    def _made(self, reading: EventMapping, made: str, sub: str) -> list[str]:
        kind = reading.says
        if kind is None:
            raise ValueError(f"{reading.key} says nothing, and makes nothing")
        position = log_position if self.plan.is_log else call_position
        values = {"at": position(sub), "time": "log.time", **self._values(reading, kind)}
        known, lines = filled(kind, values, made)
        self.known |= known
        return lines

    def _values(self, reading: EventMapping, kind: type[DomainEvent]) -> dict[str, str]:
        """Return the expression of every field of ours that the reading fills."""
        wanted = {own.name: own for own in fields(kind) if own.name not in {"at", "time"}}
        values = {own.name: "None" for own in wanted.values() if own.default is MISSING}
        for name in values.keys() - reading.values.keys():
            self.compiler.faults.append(f"{reading.key}: {NAMES[kind]} needs {name}")
        for name, value in reading.values.items():
            try:
                if name not in wanted:
                    raise ValueError(f"{NAMES[kind]} has no such field{hint(name, wanted)}")  # noqa: TRY301  # beside the others
                if value.zero_is_absent and name in values:
                    raise ValueError("zero_is_absent is for fields that may be left out")  # noqa: TRY301  # beside the others
                values[name] = self._value(name, value)
            except ValueError as error:
                self.compiler.faults.append(f"{reading.key}.{name}: {error}")
        return values

    def _value(self, name: str, value: Value) -> str:
        if not value.arguments:
            return self._named(value.constant)
        given = self.inputs.taken(value)
        if value.zero_is_absent:
            zero, taken = zero_of(given.kind), self._named(None)
            if zero is None:
                raise ValueError(f"{given.shown} has no zero")
            rest = self._fitted(name, value, given._replace(value=taken))
            return f"None if ({taken} := {given.value}) == {zero} else {rest}"
        return self._fitted(name, value, given)

    def _fitted(self, name: str, value: Value, given: Given) -> str:
        if value.enum is not None:
            enum = self.compiler.enums.get(value.enum)
            # One with a fault is told of where it stands.
            return "None" if enum is None else word_of(enum, name, given, self._named)
        if name in WORDS:
            raise ValueError(f"needs an enum: {name} is one of our words")
        return fitted(name, given)

    def _named(self, meaning: object) -> str:
        name = f"k{len(self.known)}"
        self.known[name] = meaning
        return name

    def _condition(self, reading: EventMapping) -> str:
        tests = [
            *(self._test(reading, "when", path, those) for path, those in reading.when.items()),
            *(
                f"not {self._test(reading, 'unless', path, those)}"
                for path, those in reading.unless.items()
            ),
        ]
        return " and ".join(tests) or "True"

    def _test(
        self, reading: EventMapping, what: str, path: str, literals: Sequence[Literal]
    ) -> str:
        try:
            given = self.inputs.argument(path)
            for literal in literals:
                if not literal_fits(given.kind, literal):
                    raise ValueError(f"{given.shown} is never {literal!r}")  # noqa: TRY301  # beside the other
        except ValueError as error:
            self.compiler.faults.append(f"{reading.key}.{what}.{path}: {error}")
            return "False"
        is_hex = given.kind not in {"string", "bool"} and not is_unsigned(given.kind)
        wanted = frozenset(str(one).lower() if is_hex else one for one in literals)
        return f"(({given.value}) in {self._named(wanted)})"
