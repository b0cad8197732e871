"""Parses addresses and hashes from user input, scripts and configuration, in any letter case.

Addresses and hashes are stored and printed in lower case. A full address in mixed case contains a
checksum (EIP-55), and a wrong checksum is an error, because it means that a digit was mistyped.
"""

import re

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address, Hash
from oracle.errors import InputError

ADDRESS_DIGITS, HASH_DIGITS = 40, 64
# OpenAPI schemas cannot express the checksum rule, so these patterns accept any case.
ADDRESS_INPUT_PATTERN = "^0[xX][0-9a-fA-F]{40}$"
ADDRESS_PREFIX_INPUT_PATTERN = "^0[xX][0-9a-fA-F]{0,40}$"
HASH_INPUT_PATTERN = "^0[xX][0-9a-fA-F]{64}$"
_HEX_PATTERN = re.compile(r"0[xX]([0-9a-fA-F]*)")
_MIN_UPPER_CASE_NIBBLE = 8


class HexNameError(InputError, ValueError):
    """The text is not a valid address or hash.

    This is a ValueError, so that pydantic reports it. The message never contains the text, because
    a key that was pasted into the wrong field must not appear in a log. A caller that may show the
    text adds it to the message.
    """


def parse_address(text: str) -> Address:
    """Parse an address, and return it in lower case.

    Raises:
        HexNameError: `text` is not 0x and 40 hex digits, or its EIP-55 checksum is wrong.
    """
    prefix = parse_address_prefix(text)
    if len(prefix) != ADDRESS_DIGITS + len("0x"):
        raise HexNameError(f"not an address; expected 0x and {ADDRESS_DIGITS} hex digits")
    return Address(prefix)


def parse_address_prefix(text: str) -> str:
    """Parse an address or the prefix of one.

    The result is in lower case with `0x`.

    Raises:
        HexNameError: `text` is not 0x and at most 40 hex digits, or it is a full address whose
            EIP-55 checksum is wrong.
    """
    match = _HEX_PATTERN.fullmatch(text)
    if match is None or len(match[1]) > ADDRESS_DIGITS:
        raise HexNameError(f"not an address; expected 0x and {ADDRESS_DIGITS} hex digits")
    digits = match[1]
    address = Address(f"0x{digits.lower()}")
    is_mixed_case = digits not in {digits.lower(), digits.upper()}
    if (
        len(digits) == ADDRESS_DIGITS
        and is_mixed_case
        and format_checksum_address(address)[2:] != digits
    ):
        raise HexNameError(
            "wrong EIP-55 checksum; look for a mistyped digit, or write the address in lower case"
        )
    return address


def parse_hash(text: str) -> Hash:
    """Parse a hash, and return it in lower case.

    Raises HexNameError if the text is not a hash.
    """
    match = _HEX_PATTERN.fullmatch(text)
    if match is None or len(match[1]) != HASH_DIGITS:
        raise HexNameError(f"not a hash; expected 0x and {HASH_DIGITS} hex digits")
    return Hash(f"0x{match[1].lower()}")


def format_account_id(chain_id: int, address: Address) -> str:
    """Format the CAIP-10 id of an address, for example `eip155:1:0xAb58…`.

    The address has its EIP-55 checksum, as the profile of CAIP-10 for these chains recommends.
    """
    return f"eip155:{chain_id}:{format_checksum_address(address)}"


def format_checksum_address(address: Address) -> str:
    """Format an address in the mixed case of its EIP-55 checksum."""
    hex_digits = address[2:]
    hash_digits = keccak(hex_digits.encode()).hex()
    checksummed_digits = (
        digit.upper() if int(nibble, 16) >= _MIN_UPPER_CASE_NIBBLE else digit
        for digit, nibble in zip(hex_digits, hash_digits, strict=False)
    )
    return "0x" + "".join(checksummed_digits)
