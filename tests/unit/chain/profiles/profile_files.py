"""Writes small profiles to files, and builds logs and calls for them."""

from pathlib import Path
from typing import Any

from eth_abi.abi import encode

from oracle.chain.decode.abi import parse_signature
from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, Log

CONTRACT = Address("0x" + "4e" * 20)
SENDER = Address("0x" + "5e" * 20)
BLOCK, TX, INDEX, TIME = 7, 2, 3, 100
BLOCK_HASH = Hash("0x" + "b0" * 32)
TX_HASH = Hash("0x" + "70" * 32)


def write_profile(folder: Path, text: str, name: str = "network.toml") -> str:
    """Write a profile with this text, and return its path."""
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


def open_profile_reader(folder: Path, text: str, **options: Any) -> EventReader:
    """Return the reader of a profile whose only contract is `Network`."""
    return EventReader.from_profile(
        write_profile(folder, text), {"Network": CONTRACT}, None, options
    )


def decode_hex(kind: str, value: Any) -> Any:
    """Convert hex to bytes, and leave other values."""
    is_hex = kind.startswith("bytes") and isinstance(value, str)
    return bytes.fromhex(value[2:]) if is_hex else value


def build_log(text: str, *values: Any, block: int = BLOCK) -> Log:
    """Return a log of an event with this signature."""
    _, event = parse_signature(text)
    topics = [event.digest]
    kinds = []
    plain = []
    for parameter, value in zip(event.inputs, values, strict=True):
        if parameter.indexed:
            topics.append(
                "0x" + encode([parameter.abi_type], [decode_hex(parameter.abi_type, value)]).hex()
            )
        else:
            kinds.append(parameter.abi_type)
            plain.append(decode_hex(parameter.abi_type, value))
    data = "0x" + encode(kinds, plain).hex()
    return Log(block, BLOCK_HASH, TIME, TX, TX_HASH, INDEX, CONTRACT, tuple(topics), data)


def build_call(text: str, *values: Any, value: int = 0, succeeded: bool = True) -> Call:
    """Return a call of a function with this signature."""
    _, function = parse_signature(text)
    kinds = [parameter.abi_type for parameter in function.inputs]
    raw_values = [decode_hex(kind, argument) for kind, argument in zip(kinds, values, strict=True)]
    return with_input(
        function.selector + encode(kinds, raw_values).hex(), value, succeeded=succeeded
    )


def with_input(text: str, value: int = 0, *, succeeded: bool = True) -> Call:
    return Call(
        BLOCK, BLOCK_HASH, TIME, TX, TX_HASH, SENDER, CONTRACT, value, text, succeeded=succeeded
    )


def build_decoder(reader: EventReader, *rows: Log | Call) -> DecodedEvents:
    """Return a function that decodes logs and calls together."""
    logs = [row for row in rows if isinstance(row, Log)]
    return reader.decode_rows(logs, [row for row in rows if isinstance(row, Call)])
