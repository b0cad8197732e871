"""Computes a block's hash from its header fields, which proves its roots, bloom and parent.

Hard forks add fields at the end (docs/explanation/verification.md#header-hash), so a field is
missing if it was not defined yet at the block. If a chain has another header format, the computed
hash differs, and its headers cannot be proven.
"""

from functools import lru_cache

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import encode_int, encode_rlp_bytes, encode_rlp_list
from oracle.rpc.responses import Hex20, Hex32, Quantity

# Five hashes and an address, each with a prefix of one byte.
_FIRST_FIELDS_SIZE = 5 * 33 + 21


class HeaderResponse(msgspec.Struct, rename="camel"):
    """All header fields that are hashed, as returned by `eth_getBlockByNumber`."""

    number: Quantity
    hash: Hex32
    parent_hash: Hex32
    timestamp: Quantity
    sha3_uncles: Hex32
    miner: Hex20
    state_root: Hex32
    transactions_root: Hex32
    receipts_root: Hex32
    logs_bloom: str
    difficulty: Quantity
    gas_limit: Quantity
    gas_used: Quantity
    extra_data: str
    mix_hash: Hex32
    nonce: str
    # The upgrades London, Shanghai, Cancun (three fields) and Prague added these fields.
    base_fee_per_gas: Quantity | None = None
    withdrawals_root: Hex32 | None = None
    blob_gas_used: Quantity | None = None
    excess_blob_gas: Quantity | None = None
    parent_beacon_block_root: Hex32 | None = None
    requests_hash: Hex32 | None = None


def compute_block_hash(header: HeaderResponse) -> str:
    """Compute the hash of a block with this header, as `0x` hex.

    Raises:
        ValueError: a field is not hex.
    """
    head = header
    encoded_fields = [
        _encode_first_fields(head),
        _encode_hex(head.logs_bloom),
        *map(_encode_quantity, (head.difficulty, head.number, head.gas_limit, head.gas_used)),
        _encode_quantity(head.timestamp),
        *map(_encode_hex, (head.extra_data, head.mix_hash, head.nonce)),
    ]
    for value, encode_value in (
        (head.base_fee_per_gas, _encode_quantity),
        (head.withdrawals_root, _encode_hex),
        (head.blob_gas_used, _encode_quantity),
        (head.excess_blob_gas, _encode_quantity),
        (head.parent_beacon_block_root, _encode_hex),
        (head.requests_hash, _encode_hex),
    ):
        if value is not None:
            encoded_fields.append(encode_value(value))
    return "0x" + keccak(encode_rlp_list(encoded_fields)).hex()


def _encode_first_fields(head: HeaderResponse) -> bytes:
    """Encode the first six fields, which have fixed sizes, in a single conversion from hex."""
    encoded_fields = bytes.fromhex(
        f"a0{head.parent_hash[2:]}a0{head.sha3_uncles[2:]}94{head.miner[2:]}"
        f"a0{head.state_root[2:]}a0{head.transactions_root[2:]}a0{head.receipts_root[2:]}"
    )
    # `fromhex` skips white space, so a field may be shorter than its prefix states.
    if len(encoded_fields) != _FIRST_FIELDS_SIZE:
        raise ValueError("a field of the header contains white space")
    return encoded_fields


# The same quantities recur, such as a difficulty of 0 and the gas limit.
@lru_cache(maxsize=1024)
def _encode_quantity(quantity: str) -> bytes:
    return encode_int(int(quantity, 16))


def _encode_hex(hex_text: str) -> bytes:
    return encode_rlp_bytes(bytes.fromhex(hex_text[2:]))
