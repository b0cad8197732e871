"""Makes one decoder for each event out of its ABI: Python text, compiled once.

A generated decoder checks the number of topics, the length and every unused bit, and then
slices; it is about a hundred times as fast as web3's `process_log` and checked against it.
See docs/explanation/ingest.md#decoding.
"""

import struct
from binascii import unhexlify
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from oracle.chain.decode.abi import AbiSignature, Parameter
from oracle.chain.decode.abi_tails import (
    WORD,
    MalformedError,
    Tail,
    array_of,
    hashes_at,
    hex_at,
    text_at,
    words_of,
)
from oracle.chain.decode.abi_words import BITS, Layout, layout, word_reader
from oracle.chain.decode.call_arguments import Arguments, arguments_reader
from oracle.chain.decode.record_filler import filled
from oracle.domain.blocks import Position
from oracle.domain.logs import Log

# (topics, data) in lower-case hex -> the values asked for, in the order asked.
Decoder = Callable[[Sequence[str], str], tuple[Any, ...]]

# What fits a machine word is unpacked with the others in one go.
_MACHINE_BITS = 64
_LONG = 4096
_ADDRESS_PADDING = "0x" + 24 * "0"


def decoder_of(event: AbiSignature, wanted: Sequence[str] | None = None) -> Decoder:
    """Return the decoder of an event; it raises ValueError for a log that is not of it.

    Values: `int`, `bool`, `str` for strings and, as `0x` hex, for addresses and bytes, tuples
    for arrays; the topic where a value of variable size is indexed. It returns those of the
    `wanted` inputs in that order; without `wanted` all, as declared.

    Raises:
        ValueError: the event has an input of a type that we do not read.
    """
    plan = plan_of(event)
    names = wanted if wanted is not None else [parameter.name for parameter in event.inputs]
    values = "".join(f"{plan.values[value]}, " for value in names)
    decoder: Decoder = plan.compiled(event.name, "topics, data", [], [f"return ({values})"])
    return decoder


def log_reader(event: AbiSignature, wanted: Mapping[str, str], kind: type) -> Callable[[Log], Any]:
    """Return what decodes a log as `decoder_of` does and makes a `kind` of it in one go.

    `wanted` names the input for each field of that dataclass after position and time.

    Raises:
        ValueError: the event has an input of a type that we do not read.
    """
    plan = plan_of(event)
    values = {field: plan.values[name] for field, name in wanted.items()}
    known, lines = filled(kind, {"at": log_position("0"), "time": "log.time", **values})
    plan.known |= {**POSITION, **known}
    reader: Callable[[Log], Any] = plan.compiled(
        event.name, "log", [LOG_PARTS], [*lines, "return made"]
    )
    return reader


# What generated readers of `log`, a log or a call, begin with, and make positions by.
LOG_PARTS = "topics, data = log.topics, log.data"
POSITION = {"position": tuple.__new__, "Position": Position}


CALL_PARTS = "data = log.input[8:]"


def log_position(sub: str) -> str:
    """Return the expression of a log's position."""
    return f"position(Position, (log.block, log.tx, log.index, {sub}))"


def call_position(sub: str) -> str:
    """Return that of a call, before the logs of its transaction."""
    return f"position(Position, (log.block, log.tx, -1, {sub}))"


def plan_of(event: AbiSignature) -> "DecoderPlan":
    """Return the beginning of a function that reads logs of this event.

    Raises:
        ValueError: the event has an input of a type that we do not read.
    """
    plan = DecoderPlan()
    for number, parameter in enumerate(p for p in event.inputs if p.indexed):
        plan.topic(number + 1, parameter)
    plain = [parameter for parameter in event.inputs if not parameter.indexed]
    if all(_is_plain(parameter.kind) for parameter in plain):
        for number, parameter in enumerate(plain):
            plan.word(number, parameter)
    else:
        plan.whole(plain)
    return plan


def plan_of_call(function: AbiSignature) -> "DecoderPlan":
    """Return the beginning of a function that reads calls of this function.

    Raises:
        ValueError: the function has an input of a type that we do not read.
    """
    plan = DecoderPlan(is_log=False)
    plan.whole(function.inputs)
    return plan


def _is_plain(kind: str) -> bool:
    """Tell whether the one layout that compilers use can be checked; not for structs and rows."""
    element = kind.removesuffix("[]")
    return element in _TAILS or (layout(element) is not None and not element.endswith("]"))


@dataclass(slots=True)
class DecoderPlan:
    """The text of one decoder as it grows, and what it refers to.

    `values` are expressions of the inputs, by name; `kinds` their types, "" where only a hash
    of the value is there.
    """

    is_log: bool = True
    count: int = 1
    # Lines that check topics.
    topics: list[str] = field(default_factory=list)
    # One code of `struct` for each word of the fixed part, and the names of what comes out.
    codes: list[str] = field(default_factory=list)
    unpacked: list[str] = field(default_factory=list)
    # Bits of the fixed part that must be zero, first word highest.
    unused: int = 0
    # (name of the offset's word, reader) for each value of variable size.
    tails: list[tuple[str, Tail]] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    # The reader of all the data where it is not read word by word, and what comes out of it.
    arguments: Arguments | None = None
    taken: list[str] = field(default_factory=list)

    @property
    def digits(self) -> int | None:
        """How long the data is, in characters; None where that varies."""
        if self.tails or self.arguments is not None:
            return None
        return 2 + 2 * WORD * len(self.codes)

    def topic(self, number: int, parameter: Parameter) -> None:
        """Read an indexed input."""
        self.count += 1
        shape = layout(parameter.kind)
        self.kinds[parameter.name] = parameter.kind if shape else ""
        text = f"topics[{number}]"
        if shape is None or shape == Layout("bytes", BITS):
            self.values[parameter.name] = text
        elif shape.family == "address":
            self.topics.append(f"if {text}[:26] != {_ADDRESS_PADDING!r}: raise Malformed('topic')")
            self.values[parameter.name] = f"'0x' + {text}[26:]"
        else:
            self.known[f"topic{number}"] = word_reader(parameter.kind)
            self.values[parameter.name] = f"topic{number}(unhexlify({text}[2:]))"

    def whole(self, parameters: Sequence[Parameter]) -> None:
        """Read all the data by the reader of calls."""
        self.arguments = arguments_reader([parameter.kind for parameter in parameters])
        for number, parameter in enumerate(parameters):
            self.taken.append(f"a{number}")
            self.values[parameter.name] = f"a{number}"
            self.kinds[parameter.name] = parameter.kind

    def word(self, number: int, parameter: Parameter) -> None:
        """Read an input at its place in the data."""
        self.kinds[parameter.name] = parameter.kind
        shape = layout(parameter.kind)
        name, start = f"w{number}", WORD * number
        if shape is None:
            self._tail(name, parameter)
            shape = Layout("uint", _MACHINE_BITS)
        elif shape.family in {"address", "bytes"}:
            first = 2 * (start + 1) + (24 if shape.family == "address" else 0)
            self.values[parameter.name] = f"'0x' + data[{first}:{first + shape.bits // 4}]"
        elif shape.family == "int" or shape.bits > _MACHINE_BITS:
            self.known[f"read{number}"] = word_reader(parameter.kind)
            self.values[parameter.name] = f"read{number}(raw[{start}:{start + WORD}])"
        else:
            self.values[parameter.name] = name if shape.family == "uint" else f"{name} == 1"
        self.unused = self.unused << BITS | shape.unused
        machine = shape.family in {"uint", "bool"} and shape.bits <= _MACHINE_BITS
        self.codes.append("24xQ" if machine else "32x")
        self.unpacked += [name] if machine else []

    def _tail(self, name: str, parameter: Parameter) -> None:
        self.tails.append((name, _tail_reader(parameter.kind)))
        self.values[parameter.name] = f"v{name}"

    def compiled(
        self, name: str, given: str, opening: Sequence[str], closing: Sequence[str]
    ) -> Any:  # noqa: ANN401  # a function made at run time
        """Return the function of `given`; `opening` makes `topics` and `data` where they are not.

        `closing` uses the expressions in `values`, and returns.
        """
        lines = [*opening, *self._checks(), *self._variable(), *closing]
        text = f"def read({given}):\n" + "".join(f"    {line}\n" for line in lines)
        known: dict[str, Any] = {
            **self.known,
            "variable": _variable_reader([read for _, read in self.tails]),
            "arguments": self.arguments,
            "Malformed": MalformedError,
            "unhexlify": unhexlify,
            "from_bytes": int.from_bytes,
            "unpack": struct.Struct(">" + "".join(self.codes)).unpack_from,
        }
        # The text is made of an ABI and a profile, by names of ours; nothing of a chain is in it.
        exec(compile(text, f"<decoder of {name}>", "exec"), known)  # noqa: S102
        return known["read"]

    def _checks(self) -> list[str]:
        size = WORD * len(self.codes)
        lines = [
            *(
                [f"if len(topics) != {self.count}: raise Malformed('number of topics')"]
                * self.is_log
            ),
            *self.topics,
        ]
        if self.arguments is not None:
            taken = f"{', '.join(self.taken)}, = " if self.taken else ""
            return [*lines, f"{taken}arguments(unhexlify(data[2:]))"]
        if not (self.tails or self.unused or any("raw" in v for v in self.values.values())):
            # Words that are taken as they stand: that they are hex, the endpoint's door has seen.
            lines.append(f"if len(data) != {2 + 2 * size}: raise Malformed('length')")
            return lines
        lines += [
            "raw = unhexlify(data[2:])",
            f"if len(raw) {'<' if self.tails else '!='} {size}: raise Malformed('length')",
        ]
        if self.unused:
            fixed = f"from_bytes(raw[:{size}], 'big')"
            lines.append(f"if {fixed} & {self.unused:#x}: raise Malformed('unused bits are set')")
        if self.unpacked:
            lines.append(f"{', '.join(self.unpacked)}, = unpack(raw)")
        return lines

    def _variable(self) -> list[str]:
        if not self.tails:
            return []
        size = WORD * len(self.codes)
        offsets = "".join(f"{name} - {size}, " for name, _ in self.tails)
        values = "".join(f"v{name}, " for name, _ in self.tails)
        return [f"{values} = variable(raw[{size}:], ({offsets}))"]


def _variable_reader(readers: Sequence[Tail]) -> Callable[[bytes, tuple[int, ...]], Any]:
    """Return the reader of all that follows the fixed part, with its offsets in it."""

    def read(raw: bytes, offsets: tuple[int, ...]) -> tuple[object, ...]:
        values, end = [], 0
        for offset, reader in zip(offsets, readers, strict=True):
            if offset != end:
                raise MalformedError("an offset leaves a gap")
            value, end = reader(raw, end)
            values.append(value)
        if end != len(raw):
            raise MalformedError("length")
        return tuple(values)

    if hashes_at in readers:
        return read
    # The same few texts (models, GPU names) come again and again; hashes do not. Long ones are
    # read anew: nobody shall fill our memory.
    remembered = lru_cache(maxsize=1024)(read)
    return lambda raw, offsets: (remembered if len(raw) < _LONG else read)(raw, offsets)


def _tail_reader(kind: str) -> Tail:
    if kind in _TAILS:
        return _TAILS[kind]
    element = kind.removesuffix("[]")
    if element == kind or element.endswith("]"):
        raise ValueError(f"no decoder for the type {kind}")
    return words_of(word_reader(element)) if layout(element) else array_of(_tail_reader(element))


_TAILS: dict[str, Tail] = {"string": text_at, "bytes": hex_at, "bytes32[]": hashes_at}
