"""Addresses and hashes are accepted in any letter case; a wrong checksum is rejected."""

import pytest
from eth_utils.address import to_checksum_address
from hypothesis import assume, given, strategies as st

from oracle.chain.hex_names import (
    HexNameError,
    format_account_id,
    format_checksum_address,
    parse_address,
    parse_address_prefix,
    parse_hash,
)
from oracle.domain.ids import Address

addresses = st.binary(min_size=20, max_size=20).map(lambda raw: Address(f"0x{raw.hex()}"))


@given(addresses)
def test_address_in_lower_upper_or_checksum_case_is_accepted(address: Address):
    checksummed = to_checksum_address(address)
    assert format_checksum_address(address) == checksummed
    for text in (address, f"0x{address[2:].upper()}", address.upper(), checksummed):
        assert parse_address(text) == address
        assert parse_address_prefix(text) == address


@given(addresses, st.integers(2, 41))
def test_checksum_with_wrong_case_letter_is_rejected(address: Address, place: int):
    text = to_checksum_address(address)
    flipped = text[:place] + text[place].swapcase() + text[place + 1 :]
    is_mixed = flipped[2:] not in {flipped[2:].lower(), flipped[2:].upper()}
    assume(flipped != text and is_mixed)
    for parse in (parse_address, parse_address_prefix):
        with pytest.raises(HexNameError, match="wrong EIP-55 checksum"):
            parse(flipped)


@given(addresses, st.integers(2, 41))
def test_address_prefix_is_accepted_in_any_case(address: Address, length: int):
    assert parse_address_prefix(to_checksum_address(address)[:length]) == address[:length]
    with pytest.raises(HexNameError, match="40 hex digits"):
        parse_address(address[:length])


@given(st.binary(min_size=32, max_size=32))
def test_hash_in_any_case_is_accepted(raw: bytes):
    for text in (f"0x{raw.hex()}", f"0x{raw.hex().upper()}", f"0X{raw.hex()}"):
        assert parse_hash(text) == f"0x{raw.hex()}"


@pytest.mark.parametrize("text", ["", "0x", "abc", "0xg" + "1" * 39, "0x" + "1" * 41, "1" * 40])
def test_error_for_malformed_address_omits_the_address(text: str):
    with pytest.raises(HexNameError) as error:
        parse_address(text)
    assert str(error.value) == "not an address; expected 0x and 40 hex digits"


@pytest.mark.parametrize(
    "account_id",
    [
        "eip155:1:0x22227A31dd842196A246d8f3b775998560eAa61d",
        "eip155:137:0x0495766cD136138Fc492Dd499B8DC87A92D6685b",
    ],
)
def test_account_id_matches_caip_10_examples(account_id: str):
    """From https://github.com/ChainAgnostic/namespaces/blob/main/eip155/caip10.md."""
    _, chain_id, address = account_id.split(":")
    assert format_account_id(int(chain_id), parse_address(address)) == account_id
