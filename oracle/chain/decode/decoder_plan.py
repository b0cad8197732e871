"""Decoding plans for the logs of an event, the calls of a function, and ABI data words.

Decoding checks the number of topics, the length of the data and every unused bit.
"""

import struct
from binascii import unhexlify
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

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
from oracle.chain.decode.call_arguments import arguments_reader
from oracle.chain.decode.log_parts import Parts, TypedValue, in_a_row
from oracle.domain.logs import Call, Log

DataReader: TypeAlias = Callable[[bytes], Parts]

# `struct` unpacks values of up to a machine word directly as numbers.
_MACHINE_BITS = 64
# A dynamic value has its offset in the static part.
_OFFSET = Layout("uint", _MACHINE_BITS)
_LONG = 4096
_PREFIX = 2

# Bound once, to avoid an attribute lookup for every log.
_number = int.from_bytes


def is_plain(kind: str) -> bool:
    """Return whether the compiler's layout of a type can be checked strictly.

    Structs and nested arrays are not supported.
    """
    element = kind.removesuffix("[]")
    return element in _TAILS or (layout(element) is not None and not element.endswith("]"))


@dataclass(slots=True)
class DataWords:
    """The static words of an event's data, and the readers of the tails behind them.

    `next_index` is the index of the next value among the parts. Each word has one `struct` format
    code in `value_format` (a value that is read, or padding) and one in `offset_format`.
    """

    place: int
    codes: str = ">"
    offsets: str = ">"
    size: int = 0
    # Mask of the bits that must be zero; the first word is the highest.
    unused: int = 0
    tails: list[Tail] = field(default_factory=list)
    inputs: dict[str, TypedValue] = field(default_factory=dict)

    @classmethod
    def of(
        cls, parameters: Sequence[Parameter], wanted: Collection[str], place: int
    ) -> "DataWords":
        """Return the layout of these inputs; the index of their first value is `first_index`."""
        made = cls(place)
        for parameter in parameters:
            made.add(parameter, is_wanted=parameter.name in wanted)
        far = [parameter for parameter in parameters if layout(parameter.kind) is None]
        made.inputs |= in_a_row(far, made.place)
        return made

    def add(self, parameter: Parameter, *, is_wanted: bool) -> None:
        """Add a static word, or the offset word and tail of a dynamic value."""
        shape, is_far = layout(parameter.kind), False
        if shape is None:
            self.tails.append(_tail_reader(parameter.kind))
            shape, is_far = _OFFSET, True
        self.size += WORD
        self.unused = self.unused << BITS | shape.unused
        self.offsets += "24xQ" if is_far else "32x"
        if is_far or not is_wanted:
            self.codes += "32x"
            return
        code, self.inputs[parameter.name] = _word(parameter.kind, shape, self.place)
        self.codes += code
        self.place += 1

    @property
    def digits(self) -> int | None:
        """Length of the data in characters; None if it varies."""
        return None if self.tails else _PREFIX + 2 * self.size

    def reader(self) -> DataReader | None:
        """Return the reader of the data, or None if nothing has to be read or checked."""
        if self.tails:
            return self._with_tails()
        if not self.unused and not self.inputs:
            return None
        size, unused, unpack = self.size, self.unused, struct.Struct(self.codes).unpack

        def read(raw: bytes) -> Parts:
            if len(raw) != size:
                raise MalformedError("length")
            if unused and _number(raw, "big") & unused:
                raise MalformedError("unused bits are set")
            return unpack(raw)

        return read

    def _with_tails(self) -> DataReader:
        size, unused, variable = self.size, self.unused, _variable_reader(self.size, self.tails)
        unpack, offsets = (struct.Struct(each).unpack_from for each in (self.codes, self.offsets))

        def read(raw: bytes) -> Parts:
            if len(raw) < size:
                raise MalformedError("length")
            if _number(raw[:size], "big") & unused:
                raise MalformedError("unused bits are set")
            return unpack(raw) + variable(raw[size:], offsets(raw))

        return read


def _word(kind: str, shape: Layout, place: int) -> tuple[str, TypedValue]:
    """Return the `struct` code of a word, and the typed value at its index."""
    size = shape.bits // 8
    if shape.family in {"address", "bytes"}:
        code = f"{WORD - size}x{size}s" if shape.family == "address" else f"{size}s{WORD - size}x"
        return code, TypedValue(lambda parts: "0x" + parts[place].hex(), kind)
    if shape.family == "int":
        signed = word_reader(kind)
        return f"{WORD}s", TypedValue(lambda parts: signed(parts[place]), kind)
    if shape.bits > _MACHINE_BITS:
        return f"{WORD}s", TypedValue(lambda parts: _number(parts[place], "big"), kind)
    return "31x?" if shape.family == "bool" else "24xQ", TypedValue.at(place, kind)


def _variable_reader(
    size: int, readers: Sequence[Tail]
) -> Callable[[bytes, tuple[int, ...]], Parts]:
    """Return the reader of all tails behind `static_size` bytes, by their offsets."""

    def read(raw: bytes, offsets: tuple[int, ...]) -> Parts:
        values, end = [], 0
        for offset, reader in zip(offsets, readers, strict=True):
            if offset != size + end:
                raise MalformedError("an offset leaves a gap")
            value, end = reader(raw, end)
            values.append(value)
        if end != len(raw):
            raise MalformedError("length")
        return tuple(values)

    if hashes_at in readers:
        return read
    # The same few texts (models, GPU names) occur again and again, hashes do not. Long texts are
    # not cached, to bound the memory.
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


LogTaker: TypeAlias = Callable[[Log], Parts]
CallTaker: TypeAlias = Callable[[Call], Parts]

_PADDING = "0x" + 24 * "0"
_SELECTOR_DIGITS = 10


@dataclass(frozen=True, slots=True)
class DecoderPlan:
    """How the logs of one event are split into parts, and the value of each input.

    `split_log` raises ValueError for a log that is not of that event. The ABI type of an input is
    "" if the log contains only a hash of its value. `data_length` is the length of the data in
    characters; None if it varies.
    """

    take: LogTaker
    inputs: Mapping[str, TypedValue]
    digits: int | None


def plan_of(event: AbiSignature, wanted: Collection[str]) -> DecoderPlan:
    """Return the plan for the logs of an event, which reads the inputs of these names.

    Raises:
        ValueError: the event has an input of an unsupported type.
    """
    indexed = [parameter for parameter in event.inputs if parameter.indexed]
    plain = [parameter for parameter in event.inputs if not parameter.indexed]
    inputs = {given.name: _topic(place, given) for place, given in enumerate(indexed, 1)}
    if all(is_plain(parameter.kind) for parameter in plain):
        data = DataWords.of(plain, wanted, 1 + len(indexed))
        read, digits = data.reader(), data.digits
        inputs |= data.inputs
    else:
        read, digits = arguments_reader([parameter.kind for parameter in plain]), None
        inputs |= in_a_row(plain, 1 + len(indexed))
    addresses = [place for place, given in enumerate(indexed, 1) if given.kind == "address"]
    return DecoderPlan(_taker(1 + len(indexed), addresses, digits, read), inputs, digits)


def call_inputs(function: AbiSignature) -> tuple[CallTaker, Mapping[str, TypedValue]]:
    """Return the splitter of a function's calls, and the value of each input.

    The parts after the inputs are sender, value and block.

    Raises:
        ValueError: the function has an input of an unsupported type.
    """
    arguments = arguments_reader([parameter.kind for parameter in function.inputs])

    def take(call: Call) -> Parts:
        given = arguments(unhexlify(call.input[_SELECTOR_DIGITS:]))
        return (*given, call.sender, call.value, call.block)

    return take, in_a_row(function.inputs, 0)


def _taker(
    count: int, addresses: Sequence[int], digits: int | None, read: DataReader | None
) -> LogTaker:
    """Return the splitter of logs with `topic_count` topics; data is optional."""

    def take(log: Log) -> Parts:
        topics, data = log.topics, log.data
        if len(topics) != count:
            raise MalformedError("number of topics")
        for place in addresses:
            if topics[place][:26] != _PADDING:
                raise MalformedError("topic")
        if read is not None:
            return topics + read(unhexlify(data[2:]))
        if len(data) != digits:
            raise MalformedError("length")
        return topics

    return take


def _topic(place: int, parameter: Parameter) -> TypedValue:
    """Return the value of an indexed input."""
    shape = layout(parameter.kind)
    if shape is None:
        return TypedValue.at(place, "")
    if shape == Layout("bytes", BITS):
        return TypedValue.at(place, parameter.kind)
    if shape.family == "address":
        return TypedValue(lambda parts: "0x" + parts[place][26:], parameter.kind)
    word = word_reader(parameter.kind)
    return TypedValue(lambda parts: word(unhexlify(parts[place][2:])), parameter.kind)
