"""Builds plans for decoding event logs, function calls and words of ABI data.

A log or call is split into its parts, which are one flat tuple of topics, data words and values of
dynamic size, in this order. Each input has a fixed index in the tuple, so that reading a field is
a single step. Decoding checks the number of topics, the length of the data and every unused bit.
"""

import struct
from binascii import unhexlify
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from oracle.chain.decode.abi import SELECTOR_DIGITS, AbiSignature, Parameter
from oracle.chain.decode.abi_values import (
    WORD,
    WORD_BITS,
    MalformedError,
    TailReader,
    WordLayout,
    build_array_reader,
    build_word_array_reader,
    build_word_reader,
    find_word_layout,
    read_bytes_as_hex,
    read_hash_array,
    read_string,
)
from oracle.chain.decode.call_arguments import build_arguments_decoder
from oracle.domain.logs import Call, Log

Parts: TypeAlias = tuple[Any, ...]
Getter: TypeAlias = Callable[[Parts], Any]


class TypedValue(NamedTuple):
    """A value of a decoded log or call, with its getter and its canonical Solidity type.

    A list that combines several values has no type of its own, but the types of these values in
    `abi_types`. `part_index` is the value's index in the tuple of parts if it is used without
    conversion.
    """

    getter: Getter
    abi_type: str
    abi_types: tuple[str, ...] = ()
    part_index: int | None = None

    @classmethod
    def at_index(cls, index: int, abi_type: str) -> "TypedValue":
        """Return the typed value for the part at an index of a decoded log or call."""
        return cls(itemgetter(index), abi_type, (), index)

    def build_converting_getter(self, convert: Callable[[Any], Any]) -> Getter:
        """Return a getter that applies `convert` to the value."""
        get_value, index = self.getter, self.part_index
        if index is None:
            return lambda parts: convert(get_value(parts))
        return lambda parts: convert(parts[index])

    @property
    def type_description(self) -> str:
        """The type as shown in error messages."""
        if self.abi_types:
            return f"a list of {', '.join(self.abi_types)}"
        return self.abi_type or "only the hash of a value"


def build_consecutive_values(
    parameters: Sequence[Parameter], first_index: int
) -> dict[str, TypedValue]:
    """Return the typed values of inputs that have consecutive indexes, keyed by input name."""
    return {
        parameter.name: TypedValue.at_index(index, parameter.abi_type)
        for index, parameter in enumerate(parameters, first_index)
    }


DataReader: TypeAlias = Callable[[bytes], Parts]

# `struct` unpacks values up to this size directly into integers.
_MACHINE_WORD_BITS = 64
# The static part of a dynamic value is only an offset.
_OFFSET_LAYOUT = WordLayout("uint", _MACHINE_WORD_BITS)
_MAX_CACHED_BYTES = 4096
_HEX_PREFIX_LENGTH = 2

# A local name saves an attribute lookup per log.
_int_from_bytes = int.from_bytes


def is_strictly_decodable(abi_type: str) -> bool:
    """Return whether the strict decoder supports the type.

    The strict decoder accepts only the compiler's layout. It supports no structs and no nested
    arrays.
    """
    element_type = abi_type.removesuffix("[]")
    return element_type in _TAIL_READERS or (
        find_word_layout(element_type) is not None and not element_type.endswith("]")
    )


@dataclass(slots=True)
class DataLayout:
    """The static words of an event's data, and readers for the tails after them.

    `next_index` is the index of the next value in the tuple of parts. Each word has one `struct`
    format code in `value_format` (a value that is read, or padding) and one in `offset_format`.
    """

    next_index: int
    value_format: str = ">"
    offset_format: str = ">"
    size: int = 0
    # Mask of the bits that must be zero, over all words. The first word is the most significant.
    unused_mask: int = 0
    tails: list[TailReader] = field(default_factory=list)
    value_by_input: dict[str, TypedValue] = field(default_factory=dict)

    @classmethod
    def from_parameters(
        cls, parameters: Sequence[Parameter], selected_names: Collection[str], first_index: int
    ) -> "DataLayout":
        """Build the data layout for these parameters.

        `first_index` is the index of their first decoded value in the tuple of all parts.
        """
        data_layout = cls(first_index)
        for parameter in parameters:
            data_layout.add_parameter(parameter, is_selected=parameter.name in selected_names)
        dynamic_parameters = [
            parameter for parameter in parameters if find_word_layout(parameter.abi_type) is None
        ]
        data_layout.value_by_input |= build_consecutive_values(
            dynamic_parameters, data_layout.next_index
        )
        return data_layout

    def add_parameter(self, parameter: Parameter, *, is_selected: bool) -> None:
        """Add the static word of a parameter, or its offset word and dynamic tail."""
        word_layout = find_word_layout(parameter.abi_type)
        is_dynamic = False
        if word_layout is None:
            self.tails.append(_build_tail_reader(parameter.abi_type))
            word_layout, is_dynamic = _OFFSET_LAYOUT, True
        self.size += WORD
        self.unused_mask = self.unused_mask << WORD_BITS | word_layout.unused_mask
        self.offset_format += "24xQ" if is_dynamic else "32x"
        if is_dynamic or not is_selected:
            self.value_format += "32x"
            return
        code, self.value_by_input[parameter.name] = _build_word_value(
            parameter.abi_type, word_layout, self.next_index
        )
        self.value_format += code
        self.next_index += 1

    @property
    def data_length(self) -> int | None:
        """The length of the data in characters, or None if the length varies."""
        return None if self.tails else _HEX_PREFIX_LENGTH + 2 * self.size

    def build_reader(self) -> DataReader | None:
        """Build the reader of the data, or return None if there is nothing to read or check."""
        if self.tails:
            return self._build_reader_with_tails()
        if not self.unused_mask and not self.value_by_input:
            return None
        size = self.size
        unused_mask = self.unused_mask
        unpack = struct.Struct(self.value_format).unpack

        def read_data(raw: bytes) -> Parts:
            if len(raw) != size:
                raise MalformedError("the data has the wrong length")
            if unused_mask and _int_from_bytes(raw, "big") & unused_mask:
                raise MalformedError("unused bits of the data are set")
            return unpack(raw)

        return read_data

    def _build_reader_with_tails(self) -> DataReader:
        size = self.size
        unused_mask = self.unused_mask
        read_tails = _build_all_tails_reader(self.size, self.tails)
        unpack, unpack_offsets = (
            struct.Struct(struct_format).unpack_from
            for struct_format in (self.value_format, self.offset_format)
        )

        def read_data(raw: bytes) -> Parts:
            if len(raw) < size:
                raise MalformedError("the data is too short")
            if _int_from_bytes(raw[:size], "big") & unused_mask:
                raise MalformedError("unused bits of the data are set")
            return unpack(raw) + read_tails(raw[size:], unpack_offsets(raw))

        return read_data


def _build_word_value(
    abi_type: str, word_layout: WordLayout, index: int
) -> tuple[str, TypedValue]:
    """Return the `struct` format code of a word, and the typed value at its index."""
    size = word_layout.bits // 8
    if word_layout.family in {"address", "bytes"}:
        code = (
            f"{WORD - size}x{size}s"
            if word_layout.family == "address"
            else f"{size}s{WORD - size}x"
        )
        return code, TypedValue(lambda parts: "0x" + parts[index].hex(), abi_type)
    if word_layout.family == "int":
        read_signed = build_word_reader(abi_type)
        return f"{WORD}s", TypedValue(lambda parts: read_signed(parts[index]), abi_type)
    if word_layout.bits > _MACHINE_WORD_BITS:
        return f"{WORD}s", TypedValue(lambda parts: _int_from_bytes(parts[index], "big"), abi_type)
    return "31x?" if word_layout.family == "bool" else "24xQ", TypedValue.at_index(index, abi_type)


def _build_all_tails_reader(
    static_size: int, readers: Sequence[TailReader]
) -> Callable[[bytes, tuple[int, ...]], Parts]:
    """Return a function that reads all tails.

    Offsets count from the start of the static part.
    """

    def read_tails(raw: bytes, offsets: tuple[int, ...]) -> Parts:
        values, end = [], 0
        for offset, read_tail in zip(offsets, readers, strict=True):
            if offset != static_size + end:
                raise MalformedError("an offset leaves a gap in the data")
            value, end = read_tail(raw, end)
            values.append(value)
        if end != len(raw):
            raise MalformedError("the data has the wrong length")
        return tuple(values)

    if read_hash_array in readers:
        return read_tails
    # Short tails are cached, because the same model and GPU names recur. Caching long ones would
    # cost too much memory.
    read_cached = lru_cache(maxsize=1024)(read_tails)
    return lambda raw, offsets: (read_cached if len(raw) < _MAX_CACHED_BYTES else read_tails)(
        raw, offsets
    )


def _build_tail_reader(abi_type: str) -> TailReader:
    if abi_type in _TAIL_READERS:
        return _TAIL_READERS[abi_type]
    element_type = abi_type.removesuffix("[]")
    if element_type == abi_type or element_type.endswith("]"):
        raise ValueError(f"there is no decoder for the type {abi_type}")
    if find_word_layout(element_type):
        return build_word_array_reader(build_word_reader(element_type))
    return build_array_reader(_build_tail_reader(element_type))


_TAIL_READERS: dict[str, TailReader] = {
    "string": read_string,
    "bytes": read_bytes_as_hex,
    "bytes32[]": read_hash_array,
}


LogSplitter: TypeAlias = Callable[[Log], Parts]
CallSplitter: TypeAlias = Callable[[Call], Parts]

_PADDING = "0x" + 24 * "0"


@dataclass(frozen=True, slots=True)
class DecoderPlan:
    """A plan for splitting an event's logs into parts, with the typed value of each input.

    `split_log` raises ValueError for a log of another event. The ABI type of an input is "" if the
    log contains only a hash of its value. `data_length` is the length of the data in characters,
    or None if it varies.
    """

    split_log: LogSplitter
    value_by_input: Mapping[str, TypedValue]
    data_length: int | None


def build_decoder_plan(event: AbiSignature, selected_names: Collection[str]) -> DecoderPlan:
    """Build a plan for decoding the inputs in `selected_names` from an event's logs.

    Raises:
        ValueError: the event has an input of an unsupported type.
    """
    indexed_parameters = [parameter for parameter in event.inputs if parameter.indexed]
    data_parameters = [parameter for parameter in event.inputs if not parameter.indexed]
    value_by_input = {
        indexed_parameter.name: _build_topic_value(topic_index, indexed_parameter)
        for topic_index, indexed_parameter in enumerate(indexed_parameters, 1)
    }
    if all(is_strictly_decodable(parameter.abi_type) for parameter in data_parameters):
        data_layout = DataLayout.from_parameters(
            data_parameters, selected_names, 1 + len(indexed_parameters)
        )
        read_data = data_layout.build_reader()
        data_length = data_layout.data_length
        value_by_input |= data_layout.value_by_input
    else:
        read_data = build_arguments_decoder([parameter.abi_type for parameter in data_parameters])
        data_length = None
        value_by_input |= build_consecutive_values(data_parameters, 1 + len(indexed_parameters))
    address_topics = [
        topic_index
        for topic_index, indexed_parameter in enumerate(indexed_parameters, 1)
        if indexed_parameter.abi_type == "address"
    ]
    return DecoderPlan(
        _build_log_splitter(1 + len(indexed_parameters), address_topics, data_length, read_data),
        value_by_input,
        data_length,
    )


def build_call_splitter(function: AbiSignature) -> tuple[CallSplitter, Mapping[str, TypedValue]]:
    """Return a function that splits a call into parts, and the typed values of its inputs.

    The typed values are keyed by the name of the input. The parts are the inputs, followed by the
    call's sender, value and block number.

    Raises:
        ValueError: the function has an input of an unsupported type.
    """
    decode_arguments = build_arguments_decoder(
        [parameter.abi_type for parameter in function.inputs]
    )

    def split_call(call: Call) -> Parts:
        values = decode_arguments(unhexlify(call.input[SELECTOR_DIGITS:]))
        return (*values, call.sender, call.value, call.block)

    return split_call, build_consecutive_values(function.inputs, 0)


def _build_log_splitter(
    topic_count: int,
    address_topics: Sequence[int],
    data_length: int | None,
    read_data: DataReader | None,
) -> LogSplitter:
    """Return a function that splits a log and checks its data.

    The log has `topic_count` topics.
    """

    def split_log(log: Log) -> Parts:
        topics, data = log.topics, log.data
        if len(topics) != topic_count:
            raise MalformedError("the log has the wrong number of topics")
        for topic_index in address_topics:
            if topics[topic_index][:26] != _PADDING:
                raise MalformedError("an address topic is not padded with zeros")
        if read_data is not None:
            return topics + read_data(unhexlify(data[2:]))
        if len(data) != data_length:
            raise MalformedError("the data has the wrong length")
        return topics

    return split_log


def _build_topic_value(topic_index: int, parameter: Parameter) -> TypedValue:
    word_layout = find_word_layout(parameter.abi_type)
    if word_layout is None:
        return TypedValue.at_index(topic_index, "")
    if word_layout == WordLayout("bytes", WORD_BITS):
        return TypedValue.at_index(topic_index, parameter.abi_type)
    if word_layout.family == "address":
        return TypedValue(lambda parts: "0x" + parts[topic_index][26:], parameter.abi_type)
    read_word = build_word_reader(parameter.abi_type)
    return TypedValue(
        lambda parts: read_word(unhexlify(parts[topic_index][2:])), parameter.abi_type
    )
