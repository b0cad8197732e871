"""Parsers of command-line values: addresses, numbers, hashes, limits."""

from oracle.chain.hex_names import HexNameError, parse_address, parse_hash
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError

_BYTES32_SIZE = 32


def parse_optional_address(text: str) -> Address:
    """Return an address, or for an empty text the zero address. Raises InputError: not valid."""
    return parse_required_address(text) if text else ZERO_ADDRESS


def parse_required_address(text: str) -> Address:
    """Return an address. Raises InputError: empty or not valid."""
    if not text:
        raise InputError("empty address; expected 0x and 40 hex digits")
    try:
        return parse_address(text)
    except HexNameError as error:
        raise InputError(f"{text}: {error}") from error


def parse_addresses(text: str) -> list[Address]:
    """Return comma-separated addresses. Raises InputError: one is empty or not valid."""
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        raise InputError(f"{text}: empty address; expected comma-separated addresses")
    return [parse_required_address(part) for part in parts]


def parse_whole_number(text: str) -> int:
    """Return a non-negative whole number. Raises InputError: not a whole number."""
    if not text.isdecimal():
        raise InputError(f"{text}: must be a whole number")
    return int(text)


def parse_hash_bytes(text: str) -> bytes:
    """Return the 32 bytes of a hash. Raises InputError: not 0x and 64 hex digits."""
    try:
        return bytes.fromhex(parse_hash(text)[2:])
    except HexNameError as error:
        raise InputError(f"{text}: {error}") from error


def encode_bytes32(text: str) -> bytes:
    """Return a short text as zero-padded bytes32. Raises InputError: longer than 31 bytes."""
    raw = text.encode()
    if len(raw) >= _BYTES32_SIZE:
        raise InputError(f"{text}: too long; expected at most 31 bytes")
    return raw.ljust(_BYTES32_SIZE, b"\0")


def parse_limit(text: str) -> tuple[str, int]:
    """Return a limit's name and number. Raises InputError: not NAME=NUMBER."""
    name, equals, number = text.partition("=")
    if not equals or not number.isdecimal():
        raise InputError(f"--limit {text}: must be NAME=NUMBER")
    return name, int(number)


def parse_named_address(text: str) -> tuple[str, Address]:
    """Return a contract's name and address. Raises InputError: not NAME=0x…."""
    name, equals, address = text.partition("=")
    if not equals or not name or not address:
        raise InputError(f"--contract {text}: must be NAME=0x…")
    return name, parse_required_address(address)
