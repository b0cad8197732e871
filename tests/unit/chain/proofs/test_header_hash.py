"""The hash of a block is computed only from fields of the sizes that their prefixes state."""

import pytest

from oracle.chain.proofs.header_hash import HeaderResponse, compute_block_hash

HASH = "0x" + "ab" * 32


def build_header(**changes: str) -> HeaderResponse:
    fields = {
        "number": "0x1",
        "hash": HASH,
        "parent_hash": HASH,
        "timestamp": "0x65000000",
        "sha3_uncles": HASH,
        "miner": "0x" + "cd" * 20,
        "state_root": HASH,
        "transactions_root": HASH,
        "receipts_root": HASH,
        "logs_bloom": "0x" + "00" * 256,
        "difficulty": "0x0",
        "gas_limit": "0x1c9c380",
        "gas_used": "0x5208",
        "extra_data": "0x",
        "mix_hash": HASH,
        "nonce": "0x" + "00" * 8,
    }
    return HeaderResponse(**{**fields, **changes})


@pytest.mark.parametrize("field", ["parent_hash", "miner", "receipts_root"])
def test_field_with_white_space_has_no_hash(field: str):
    text = getattr(build_header(), field)
    with pytest.raises(ValueError, match="white space"):
        compute_block_hash(build_header(**{field: text[:-2] + "  "}))


def test_field_without_hex_digits_has_no_hash():
    with pytest.raises(ValueError, match="non-hexadecimal"):
        compute_block_hash(build_header(state_root="0x" + "zz" * 32))
