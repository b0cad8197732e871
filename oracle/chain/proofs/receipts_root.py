"""Receipts as they are encoded for the receipts root: EIP-2718, types 0 to 4.

Receipts are encoded in hex, the format of endpoints, and converted to bytes once each.
See docs/explanation/verification.md#receipts-root.
"""

from binascii import a2b_hex
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from oracle.chain.proofs.bloom import bloom, mask, written
from oracle.chain.proofs.merkle_trie import root
from oracle.chain.proofs.rlp import encoded_int, list_head, string_head
from oracle.domain.native import native
from oracle.rpc.responses import Hex20, Hex32, LogResponse, Quantity

# Legacy, access list, dynamic fee, blob, set code; the fields of other types are unknown.
KNOWN_TYPES = range(5)
# The RLP list head before the topics of a log, by the number of topics.
_TOPIC_HEADS = [list_head(33 * count).hex() for count in range(5)]
_BLOOM_HEAD = "b90100"
_NO_BLOOM = written(0)
_NO_BLOOMS = {_NO_BLOOM, "0x", "0x0", "0x00"}
_OUTCOMES = {"0x0": "80", "0x1": "01"}
_KINDS = {hex(kind): kind for kind in KNOWN_TYPES}


class ProvenReceipt(msgspec.Struct, gc=False, rename="camel"):
    """The fields of an `eth_getBlockReceipts` entry that the receipts root needs, and its index."""

    transaction_hash: Hex32
    transaction_index: Quantity
    cumulative_gas_used: Quantity
    logs: list[LogResponse]
    type: Quantity = "0x0"
    # Exactly one of the two: before Byzantium, the state root took the place of the status.
    status: Quantity | None = None
    root: Hex32 | None = None
    logs_bloom: str | None = None
    contract_address: Hex20 | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the transaction succeeded; False if only the pre-Byzantium receipt is known."""
        return self.status is not None and int(self.status, 16) == 1

    def leaf(self) -> bytes:
        """Return the receipt as encoded in the trie.

        A bloom that is missing, or zero although there are logs, is computed from the logs: some
        endpoints do not fill it in, and the root shows whether it is correct.

        Raises:
            ValueError: unknown type, or a field is not hex.
        """
        said = self.logs_bloom
        if said is None or said in _NO_BLOOMS:
            said = written(bloom(self.logs)) if self.logs else _NO_BLOOM
        outcome = _OUTCOMES.get(self.status or "0x0") if self.root is None else None
        if outcome is None:
            outcome = self._outcome()
        kind = _KINDS.get(self.type)
        return leaf(
            int(self.type, 16) if kind is None else kind,
            outcome,
            int(self.cumulative_gas_used, 16),
            said[2:],
            [log_hex(log.address, log.topics, log.data) for log in self.logs],
        )

    def _outcome(self) -> str:
        if self.root:
            return "a0" + self.root[2:]
        return encoded_int(int(self.status or "0x0", 16)).hex()


def receipts_root(receipts: Sequence[ProvenReceipt]) -> str:
    """Return the receipts root, `0x` hex, of a whole block's receipts in order of execution.

    Raises:
        ValueError: a receipt cannot be encoded; the chain's root can then not be verified.
    """
    # The native code handles only the usual spelling, and returns None for any other.
    found = native.receipts_root(receipts) if native is not None else None
    return "0x" + (found or root([receipt.leaf() for receipt in receipts])).hex()


def log_hex(address: str, topics: Sequence[str], content: str) -> str:
    """Return the RLP of a log as hex without `0x`; all arguments are `0x` hex.

    Raises:
        ValueError: an odd number of digits, or more than four topics.
    """
    if len(content) & 1 or len(topics) >= len(_TOPIC_HEADS):
        raise ValueError("a log that no chain can hold")
    named = "".join(["a0" + topic[2:] for topic in topics])
    body = f"94{address[2:]}{_TOPIC_HEADS[len(topics)]}{named}{string_hex(content)}"
    return _list_hex(len(body) >> 1) + body


def string_hex(content: str) -> str:
    """Return the RLP of a byte string, given as `0x` hex, as hex without `0x`."""
    size = len(content) // 2 - 1
    if size == 1 and content[2] < "8":
        return content[2:]
    return _string_hex(size) + content[2:]


# The same sizes occur again and again.
@lru_cache(maxsize=16_384)
def _list_hex(size: int) -> str:
    return list_head(size).hex()


@lru_cache(maxsize=16_384)
def _string_hex(size: int) -> str:
    return string_head(size).hex()


def leaf(kind: int, outcome: str, gas: int, blooms: str, logs: Sequence[str]) -> bytes:
    """Encode a receipt; `outcome`, `bloom_hex` and `logs` are RLP or raw hex without `0x`.

    Raises:
        ValueError: unknown type, or not hex.
    """
    if kind not in KNOWN_TYPES:
        raise ValueError(f"a receipt of the unknown type {kind}")
    said = "".join(logs)
    used = encoded_int(gas).hex()
    body = f"{outcome}{used}{_BLOOM_HEAD}{blooms}{_list_hex(len(said) >> 1)}{said}"
    before = f"{kind:02x}" if kind else ""
    # binascii, not bytes.fromhex, which ignores whitespace.
    return a2b_hex(f"{before}{_list_hex(len(body) >> 1)}{body}")


def masks(addresses: Sequence[str]) -> list[int]:
    """Return the bloom masks of these addresses or topics, for `may_contain_log`."""
    return [mask(address) for address in addresses]
