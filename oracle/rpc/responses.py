"""Typed structs for endpoints' responses.

A missing or malformed field is rejected.
"""

import re
from typing import Annotated

from msgspec import Meta, Raw, Struct

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# `0x` and the hex of 32 or 20 bytes.
Hex32 = Annotated[str, Meta(min_length=66, max_length=66)]
Hex20 = Annotated[str, Meta(min_length=42, max_length=42)]
Quantity = Annotated[str, Meta(min_length=3, max_length=66)]
Topics = Annotated[tuple[Hex32, ...], Meta(max_length=4)]


# These structs cannot be part of a reference cycle, so `gc=False`. This saves a tenth of the time
# per log.
class LogResponse(Struct, gc=False, rename="camel"):
    """A log in an `eth_getLogs` response.

    A pending log, which has no block, is rejected.
    """

    address: Hex20
    topics: Topics
    data: str
    block_number: Quantity
    block_hash: Hex32
    transaction_hash: Hex32
    transaction_index: Quantity
    log_index: Quantity
    removed: bool | None = False
    # Some endpoints omit this field. Others format it differently than in headers.
    block_timestamp: object = None


class BlockResponse(Struct, gc=False, rename="camel"):
    """The fields of an `eth_getBlockByNumber` response that are used."""

    number: Quantity
    hash: Hex32
    parent_hash: Hex32
    timestamp: Quantity


class FullHeaderResponse(BlockResponse, gc=False, rename="camel"):
    """A block header of any chain.

    A missing field or one of an unusual type proves nothing.
    """

    receipts_root: object = None
    transactions_root: object = None
    logs_bloom: object = None
    sha3_uncles: object = None
    miner: object = None
    state_root: object = None
    difficulty: object = None
    gas_limit: object = None
    gas_used: object = None
    extra_data: object = None
    mix_hash: object = None
    nonce: object = None
    base_fee_per_gas: object = None
    withdrawals_root: object = None
    blob_gas_used: object = None
    excess_blob_gas: object = None
    parent_beacon_block_root: object = None
    requests_hash: object = None
    # Hashes or full transactions. They are decoded only when they are needed.
    transactions: Raw = Raw(b"[]")


_QUANTITY_PATTERN = re.compile(r"0x[0-9a-fA-F]{1,64}")
_HASH_PATTERN = re.compile(r"0x[0-9a-f]{64}")


def parse_quantity(endpoint: str, quantity: str | None) -> int:
    """Parse a quantity in a response of the named endpoint.

    Raises:
        RpcError: the quantity is not `0x` and hex digits.
    """
    if quantity is None or _QUANTITY_PATTERN.fullmatch(quantity) is None:
        raise RpcError(endpoint, ErrorKind.INVALID, f"{quantity!r} is not a hex number")
    return int(quantity, 16)


def parse_block(endpoint: str, header: BlockResponse) -> BlockRef:
    """Parse a block header in a response of the named endpoint.

    Raises:
        RpcError: a number or a hash in it is malformed.
    """
    block_hash = header.hash.lower()
    parent_hash = header.parent_hash.lower()
    if _HASH_PATTERN.fullmatch(block_hash) is None or _HASH_PATTERN.fullmatch(parent_hash) is None:
        raise RpcError(endpoint, ErrorKind.INVALID, "malformed hash or parent hash of a block")
    return BlockRef(
        parse_quantity(endpoint, header.number),
        Hash(block_hash),
        Hash(parent_hash),
        parse_quantity(endpoint, header.timestamp),
    )
