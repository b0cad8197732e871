"""Parsers of command-line values: addresses, numbers, hashes, limits."""

from oracle.chain.hex_names import HexNameError, parse_address, parse_hash
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError

_WORD_BYTES = 32


def address_in(written: str) -> Address:
    """Return an address; the zero address for an empty text. Raises InputError: not valid."""
    if not written:
        return ZERO_ADDRESS
    try:
        return parse_address(written)
    except HexNameError as error:
        raise InputError(f"{written}: {error}") from error


def addresses_in(written: str) -> list[Address]:
    """Return comma-separated addresses. Raises InputError: one is not valid."""
    return [address_in(one.strip()) for one in written.split(",")]


def number_in(written: str) -> int:
    """Return a non-negative whole number. Raises InputError: not a whole number."""
    if not written.isdecimal():
        raise InputError(f"{written}: must be a whole number")
    return int(written)


def hash_in(written: str) -> bytes:
    """Return the 32 bytes of a hash. Raises InputError: not 0x and 64 hex digits."""
    try:
        return bytes.fromhex(parse_hash(written)[2:])
    except HexNameError as error:
        raise InputError(f"{written}: {error}") from error


def word_in(written: str) -> bytes:
    """Return a short text as zero-padded bytes32. Raises InputError: longer than 31 bytes."""
    raw = written.encode()
    if len(raw) >= _WORD_BYTES:
        raise InputError(f"{written}: at most 31 letters")
    return raw.ljust(_WORD_BYTES, b"\0")


def limit_in(written: str) -> tuple[str, int]:
    """Return a limit's name and number. Raises InputError: not NAME=NUMBER."""
    name, equals, number = written.partition("=")
    if not equals or not number.isdecimal():
        raise InputError(f"--limit {written}: write it as NAME=NUMBER")
    return name, int(number)


def named_address_in(written: str) -> tuple[str, Address]:
    """Return a contract's name and address. Raises InputError: not NAME=0x…."""
    name, equals, address = written.partition("=")
    if not equals or not name:
        raise InputError(f"--contract {written}: write it as NAME=0x…")
    return name, address_in(address)
