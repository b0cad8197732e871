"""Reads what people write on the command line: addresses, numbers, hashes, limits."""

import re

from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError

_WORD_BYTES = 32


def address_in(written: str) -> Address:
    """Return an address, zero where none is given. Raises InputError: it is none."""
    if not written:
        return ZERO_ADDRESS
    if re.fullmatch(r"0x[0-9a-fA-F]{40}", written) is None:
        raise InputError(f"{written}: an address is 0x and 40 hex digits")
    return Address(written.lower())


def addresses_in(written: str) -> list[Address]:
    """Return addresses that commas part. Raises InputError: one of them is none."""
    return [address_in(one.strip()) for one in written.split(",")]


def number_in(written: str) -> int:
    """Return a whole number from 0 on. Raises InputError: it is none."""
    if not written.isdecimal():
        raise InputError(f"{written}: must be a whole number")
    return int(written)


def hash_in(written: str) -> bytes:
    """Return 32 bytes. Raises InputError: they are written otherwise."""
    if re.fullmatch(r"0x[0-9a-fA-F]{64}", written) is None:
        raise InputError(f"{written}: a hash is 0x and 64 hex digits")
    return bytes.fromhex(written[2:])


def word_in(written: str) -> bytes:
    """Return a short word as the contract takes it. Raises InputError: it is too long."""
    raw = written.encode()
    if len(raw) >= _WORD_BYTES:
        raise InputError(f"{written}: at most 31 letters")
    return raw.ljust(_WORD_BYTES, b"\0")


def limit_in(written: str) -> tuple[str, int]:
    """Return a limit's name and number. Raises InputError: they are written otherwise."""
    name, equals, number = written.partition("=")
    if not equals or not number.isdecimal():
        raise InputError(f"--limit {written}: write it as NAME=NUMBER")
    return name, int(number)


def named_address_in(written: str) -> tuple[str, Address]:
    """Return a contract's name and address. Raises InputError: they are written otherwise."""
    name, equals, address = written.partition("=")
    if not equals or not name:
        raise InputError(f"--contract {written}: write it as NAME=0x…")
    return name, address_in(address)
