"""Types of addresses and hashes in requests; any letter case is accepted, and lowered.

The published schema shows the pattern. The parser behind it also checks EIP-55 checksums.
"""

from typing import Annotated

from fastapi import Path
from pydantic import AfterValidator, Field

from oracle.chain.hex_names import (
    ADDRESS_INPUT_PATTERN,
    ADDRESS_PREFIX_INPUT_PATTERN,
    HASH_INPUT_PATTERN,
    parse_address,
    parse_address_prefix,
    parse_hash,
)

AddressInput = Annotated[str, Field(pattern=ADDRESS_INPUT_PATTERN), AfterValidator(parse_address)]
AddressPrefixInput = Annotated[
    str, Field(pattern=ADDRESS_PREFIX_INPUT_PATTERN), AfterValidator(parse_address_prefix)
]
HashInput = Annotated[str, Field(pattern=HASH_INPUT_PATTERN), AfterValidator(parse_hash)]
NodePath = Annotated[
    str,
    Path(
        description="An address in any letter case, or the first digits of one. Mixed case is "
        "checked against EIP-55.",
        pattern="^0[xX][0-9a-fA-F]{1,40}$",
        examples=["0xfabb0ac9d68b0b445fb7357272ff202c5651694a", "0xfabb"],
    ),
    AfterValidator(parse_address_prefix),
]
HashPath = Annotated[
    str,
    Path(pattern=HASH_INPUT_PATTERN, examples=["0x" + "5e" * 32]),
    AfterValidator(parse_hash),
]
