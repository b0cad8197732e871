"""Encodes receipts (types 0 to 4, EIP-2718) for receipts roots, and computes log blooms.

Receipts are encoded as hex, which is the format of endpoints, and each is converted to bytes once
(docs/explanation/verification.md#receipts-root). A bloom has 2048 bits, of which each address and
topic sets three (Yellow Paper, 4.3.1). It is represented by one integer, whose bit 0 is the last
bit of the bloom's last byte.
"""

from binascii import a2b_hex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.merkle_trie import compute_trie_root
from oracle.chain.proofs.rlp import encode_int, encode_list_head, encode_string_head
from oracle.rpc.responses import Hex20, Hex32, LogResponse, Quantity

BLOOM_BYTES = 256
_BIT_INDEX_MASK = BLOOM_BYTES * 8 - 1
# Masks are cached because the same addresses and first topics recur often.
_MAX_CACHED_MASKS = 65_536


class BloomInput(Protocol):
    """The fields of a log that determine its bloom, as `0x` hex."""

    @property
    def address(self) -> str: ...
    @property
    def topics(self) -> Sequence[str]: ...


@lru_cache(_MAX_CACHED_MASKS)
def compute_bloom_mask(hex_text: str) -> int:
    """Return the bits of a bloom that an address or topic (`0x` hex) sets."""
    hash_bytes = keccak(bytes.fromhex(hex_text[2:]))
    bloom_bits = 0
    for position in (0, 2, 4):
        bloom_bits |= 1 << (
            int.from_bytes(hash_bytes[position : position + 2], "big") & _BIT_INDEX_MASK
        )
    return bloom_bits


def compute_bloom(logs: Iterable[BloomInput]) -> int:
    bloom_bits = 0
    for log in logs:
        bloom_bits |= compute_bloom_mask(log.address)
        for topic in log.topics:
            bloom_bits |= compute_bloom_mask(topic)
    return bloom_bits


def has_all_bits(bits: int, mask_bits: int) -> bool:
    """Return whether a bloom has all bits of a mask set.

    Only the result False is certain, because other logs may have set the same bits.
    """
    return bits & mask_bits == mask_bits


def may_contain_log(bits: int, address_masks: Iterable[int], topic_masks: Iterable[int]) -> bool:
    """Return whether the bloom may contain a log with one of these addresses and topics."""
    return any(bits & mask_bits == mask_bits for mask_bits in address_masks) and any(
        bits & mask_bits == mask_bits for mask_bits in topic_masks
    )


def format_bloom(bits: int) -> str:
    """Format a bloom as `0x` and 512 hex digits, as in RPC responses."""
    return f"0x{bits:0512x}"


# Types of legacy, access list, dynamic fee, blob and set-code transactions. The fields of other
# types are unknown.
KNOWN_TYPES = range(5)
# The RLP list head before a log's topics, indexed by the number of topics.
_TOPIC_HEADS = [encode_list_head(33 * count).hex() for count in range(5)]
_BLOOM_HEAD = "b90100"
_ZERO_BLOOM = format_bloom(0)
_MISSING_BLOOMS = {_ZERO_BLOOM, "0x", "0x0", "0x00"}
_RLP_BY_STATUS = {"0x0": "80", "0x1": "01"}
_TYPE_BY_HEX = {hex(kind): kind for kind in KNOWN_TYPES}


class ProvenReceipt(msgspec.Struct, gc=False, rename="camel"):
    """An entry of `eth_getBlockReceipts`, with its index and the fields that the root proves."""

    transaction_hash: Hex32
    transaction_index: Quantity
    cumulative_gas_used: Quantity
    logs: list[LogResponse]
    type: Quantity = "0x0"
    # Exactly one of the two fields is set, because receipts had a state root instead of a status
    # before Byzantium.
    status: Quantity | None = None
    root: Hex32 | None = None
    logs_bloom: str | None = None
    contract_address: Hex20 | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the transaction succeeded.

        The result is False for a pre-Byzantium receipt, which has no status.
        """
        return self.status is not None and int(self.status, 16) == 1

    def encode_leaf(self) -> bytes:
        """Encode the receipt as in the receipts trie.

        If the bloom is missing, or is zero although there are logs, it is computed from the logs.
        Some endpoints do not return it, and the root shows whether the computed one is correct.

        Raises:
            ValueError: the receipt has an unknown type, or a field is not hex.
        """
        logs_bloom = self.logs_bloom
        if logs_bloom is None or logs_bloom in _MISSING_BLOOMS:
            logs_bloom = format_bloom(compute_bloom(self.logs)) if self.logs else _ZERO_BLOOM
        encoded_outcome = _RLP_BY_STATUS.get(self.status or "0x0") if self.root is None else None
        if encoded_outcome is None:
            encoded_outcome = self._encode_outcome()
        receipt_type = _TYPE_BY_HEX.get(self.type)
        return encode_receipt_leaf(
            int(self.type, 16) if receipt_type is None else receipt_type,
            encoded_outcome,
            int(self.cumulative_gas_used, 16),
            logs_bloom[2:],
            [encode_log_hex(log.address, log.topics, log.data) for log in self.logs],
        )

    def _encode_outcome(self) -> str:
        if self.root:
            return "a0" + self.root[2:]
        return encode_int(int(self.status or "0x0", 16)).hex()


def compute_receipts_root(receipts: Sequence[ProvenReceipt]) -> str:
    """Compute the receipts root of a block, as `0x` hex.

    The receipts are in execution order.

    Raises:
        ValueError: a receipt cannot be encoded, so the chain's root cannot be verified.
    """
    return "0x" + compute_trie_root([receipt.encode_leaf() for receipt in receipts]).hex()


def encode_log_hex(address: str, topics: Sequence[str], data: str) -> str:
    """Encode a log as RLP.

    The log is given as `0x` hex, and the result is hex without `0x`.

    Raises:
        ValueError: the data has an odd number of digits, or there are more than four topics.
    """
    if len(data) & 1 or len(topics) >= len(_TOPIC_HEADS):
        raise ValueError(
            "the log's data has an odd number of hex digits, or the log has more than four topics"
        )
    topics_hex = "".join(["a0" + topic[2:] for topic in topics])
    content_hex = (
        f"94{address[2:]}{_TOPIC_HEADS[len(topics)]}{topics_hex}{encode_string_hex(data)}"
    )
    return _encode_list_head_hex(len(content_hex) >> 1) + content_hex


def encode_string_hex(hex_text: str) -> str:
    """Encode a byte string as RLP.

    The string is given as `0x` hex, and the result is hex without `0x`.
    """
    byte_count = len(hex_text) // 2 - 1
    if byte_count == 1 and hex_text[2] < "8":
        return hex_text[2:]
    return _encode_string_head_hex(byte_count) + hex_text[2:]


# The result is cached because the same sizes recur often.
@lru_cache(maxsize=16_384)
def _encode_list_head_hex(size: int) -> str:
    return encode_list_head(size).hex()


@lru_cache(maxsize=16_384)
def _encode_string_head_hex(size: int) -> str:
    return encode_string_head(size).hex()


def encode_receipt_leaf(
    receipt_type: int, outcome: str, cumulative_gas: int, bloom_hex: str, logs: Sequence[str]
) -> bytes:
    """Encode a receipt as in the receipts trie.

    `outcome` and `logs` are RLP, and `bloom_hex` the raw bloom; all are hex without `0x`.

    Raises:
        ValueError: the receipt type is unknown, or an argument is not hex.
    """
    if receipt_type not in KNOWN_TYPES:
        raise ValueError(f"unknown receipt type {receipt_type}")
    logs_hex = "".join(logs)
    gas_hex = encode_int(cumulative_gas).hex()
    logs_head = _encode_list_head_hex(len(logs_hex) >> 1)
    content_hex = f"{outcome}{gas_hex}{_BLOOM_HEAD}{bloom_hex}{logs_head}{logs_hex}"
    type_prefix = f"{receipt_type:02x}" if receipt_type else ""
    # `bytes.fromhex` is not used, because it ignores whitespace.
    return a2b_hex(f"{type_prefix}{_encode_list_head_hex(len(content_hex) >> 1)}{content_hex}")
