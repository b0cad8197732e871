"""Decodes call arguments as the EVM does, following the offsets in the input.

A caller may use any layout of the input that the contract accepts. The decoders of logs accept
only one layout, so they would reject valid calls. Single words are checked as strictly as in logs.
See docs/explanation/ingest.md#decoding.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oracle.chain.decode.abi_values import (
    WORD,
    MalformedError,
    build_word_reader,
    decode_string,
    find_word_layout,
)

# Maximum size of the decoded values. A small input could decode to a very large value, because
# many offsets may point to the same data.
MAX_DECODED_BYTES = 4 * 1024 * 1024

# A function that decodes the bytes after the selector into the values, in order.
ArgumentsDecoder = Callable[[bytes], tuple[Any, ...]]


@dataclass(slots=True)
class _BoundedInput:
    """The calldata, with a limit on the bytes that may still be read."""

    raw: bytes
    remaining_bytes: int

    def read_bytes(self, offset: int, size: int) -> bytes:
        if offset + size > len(self.raw):
            raise MalformedError("the calldata is too short")
        self.remaining_bytes -= size
        if self.remaining_bytes < 0:
            raise MalformedError(f"the decoded arguments exceed {MAX_DECODED_BYTES} bytes")
        return self.raw[offset : offset + size]

    def read_uint(self, offset: int) -> int:
        return int.from_bytes(self.read_bytes(offset, WORD), "big")


@dataclass(frozen=True, slots=True)
class _TypeReader:
    """The reader of one ABI type, and the size of its head.

    `read` takes the position of the value itself, which for a dynamic type is not the position of
    its offset word.
    """

    head_size: int
    is_dynamic: bool
    read: Callable[[_BoundedInput, int], Any]


def build_arguments_decoder(abi_types: Sequence[str]) -> ArgumentsDecoder:
    """Return a decoder for call arguments of these Solidity types.

    The types are canonical. Values have the same Python types as in `build_log_decoder`; structs
    are tuples. The decoder raises ValueError for bytes that are not valid arguments.

    Raises:
        ValueError: one of the types is unknown.
    """
    tuple_reader = _build_tuple_reader([_build_type_reader(abi_type) for abi_type in abi_types])

    def decode_arguments(raw: bytes) -> tuple[Any, ...]:
        values: tuple[Any, ...] = tuple_reader.read(_BoundedInput(raw, MAX_DECODED_BYTES), 0)
        return values

    return decode_arguments


def parse_tuple_type(abi_type: str) -> list[str] | None:
    """Return the types of a tuple's components, or None if the type is not a tuple."""
    if not (abi_type.startswith("(") and abi_type.endswith(")")):
        return None
    components, depth, start = [], 0, 1
    for position, letter in enumerate(abi_type[1:-1] + ",", start=1):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            components.append(abi_type[start:position])
            start = position + 1
    return [] if components == [""] else components


def parse_array_type(abi_type: str) -> tuple[str, int | None] | None:
    """Split an array type into its element type and its length.

    The length is None if the array is dynamic. The result is None if the type is not an array.
    """
    match = re.fullmatch(r"(.+)\[(\d*)\]", abi_type)
    if match is None:
        return None
    return match[1], int(match[2]) if match[2] else None


def _build_type_reader(abi_type: str) -> _TypeReader:
    element_and_length = parse_array_type(abi_type)
    if element_and_length is not None:
        element_reader = _build_type_reader(element_and_length[0])
        array_length = element_and_length[1]
        if array_length is None:
            return _build_array_reader(element_reader)
        return _build_tuple_reader([element_reader] * array_length)
    components = parse_tuple_type(abi_type)
    if components is not None:
        return _build_tuple_reader([_build_type_reader(component) for component in components])
    if abi_type in {"string", "bytes"}:
        return _TypeReader(
            WORD,
            is_dynamic=True,
            read=_read_string if abi_type == "string" else _read_bytes_as_hex,
        )
    if find_word_layout(abi_type) is None:
        raise ValueError(f"there is no decoder for the type {abi_type}")
    read_word = build_word_reader(abi_type)
    return _TypeReader(
        WORD,
        is_dynamic=False,
        read=lambda source, offset: read_word(source.read_bytes(offset, WORD)),
    )


def _read_dynamic_bytes(source: _BoundedInput, offset: int) -> bytes:
    return source.read_bytes(offset + WORD, source.read_uint(offset))


def _read_string(source: _BoundedInput, offset: int) -> str:
    return decode_string(_read_dynamic_bytes(source, offset))


def _read_bytes_as_hex(source: _BoundedInput, offset: int) -> str:
    return "0x" + _read_dynamic_bytes(source, offset).hex()


def _build_array_reader(element_reader: _TypeReader) -> _TypeReader:
    def read_array(source: _BoundedInput, offset: int) -> tuple[Any, ...]:
        count = source.read_uint(offset)
        if count * element_reader.head_size > len(source.raw):
            raise MalformedError("the calldata is too short")
        return _read_components(source, offset + WORD, [element_reader] * count)

    return _TypeReader(WORD, is_dynamic=True, read=read_array)


def _build_tuple_reader(component_readers: Sequence[_TypeReader]) -> _TypeReader:
    is_dynamic = any(reader.is_dynamic for reader in component_readers)
    head_size = WORD if is_dynamic else sum(reader.head_size for reader in component_readers)
    return _TypeReader(
        head_size,
        is_dynamic,
        lambda source, offset: _read_components(source, offset, component_readers),
    )


def _read_components(
    source: _BoundedInput, start: int, component_readers: Sequence[_TypeReader]
) -> tuple[Any, ...]:
    values, position = [], start
    for reader in component_readers:
        values.append(
            reader.read(
                source, start + source.read_uint(position) if reader.is_dynamic else position
            )
        )
        position += reader.head_size
    return tuple(values)
