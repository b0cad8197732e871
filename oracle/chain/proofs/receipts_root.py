"""Receipts as the receipts root is made of them: EIP-2718, types 0 to 4.

They are written in hex, as endpoints give them, and made bytes once for a whole receipt.
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

# Legacy, access list, dynamic fee, blob, set code; of others the fields are not known.
KNOWN_TYPES = range(5)
# Between the address and the topics of a log: the head of a list of so many.
_TOPIC_HEADS = [list_head(33 * count).hex() for count in range(5)]
_BLOOM_HEAD = "b90100"
_NO_BLOOM = written(0)
_NO_BLOOMS = {_NO_BLOOM, "0x", "0x0", "0x00"}
_OUTCOMES = {"0x0": "80", "0x1": "01"}
_KINDS = {hex(kind): kind for kind in KNOWN_TYPES}


class ProvenReceipt(msgspec.Struct, gc=False, rename="camel"):
    """What a receipts root needs of an entry of `eth_getBlockReceipts`, and its place."""

    transaction_hash: Hex32
    transaction_index: Quantity
    cumulative_gas_used: Quantity
    logs: list[LogResponse]
    type: Quantity = "0x0"
    # The one or the other: before Byzantium the state's root stood in place of the status.
    status: Quantity | None = None
    root: Hex32 | None = None
    logs_bloom: str | None = None
    contract_address: Hex20 | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the transaction did; False where only the old kind of receipt is known."""
        return self.status is not None and int(self.status, 16) == 1

    def leaf(self) -> bytes:
        """Return the receipt as it stands in the trie.

        A bloom that is missing, or zero although there are logs, is made from the logs: some
        endpoints do not fill it in, and the root tells what is true.

        Raises:
            ValueError: a type that is not known, or something in it is no hex.
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
        ValueError: one of them cannot be written; the chain's root is then not ours to prove.
    """
    # The native code knows the ordinary spelling only, and says nothing of any other.
    found = native.receipts_root(receipts) if native is not None else None
    return "0x" + (found or root([receipt.leaf() for receipt in receipts])).hex()


def log_hex(address: str, topics: Sequence[str], content: str) -> str:
    """Return the RLP of a log as hex without `0x`; all given as `0x` hex.

    Raises:
        ValueError: half a byte, or more than four topics.
    """
    if len(content) & 1 or len(topics) >= len(_TOPIC_HEADS):
        raise ValueError("a log that no chain can hold")
    named = "".join(["a0" + topic[2:] for topic in topics])
    body = f"94{address[2:]}{_TOPIC_HEADS[len(topics)]}{named}{string_hex(content)}"
    return _list_hex(len(body) >> 1) + body


def string_hex(content: str) -> str:
    """Return the RLP of a string of bytes given as `0x` hex, as hex without `0x`."""
    size = len(content) // 2 - 1
    if size == 1 and content[2] < "8":
        return content[2:]
    return _string_hex(size) + content[2:]


# The same sizes come again and again.
@lru_cache(maxsize=16_384)
def _list_hex(size: int) -> str:
    return list_head(size).hex()


@lru_cache(maxsize=16_384)
def _string_hex(size: int) -> str:
    return string_head(size).hex()


def leaf(kind: int, outcome: str, gas: int, blooms: str, logs: Sequence[str]) -> bytes:
    """Put a receipt together; `outcome`, `blooms` and `logs` are hex without `0x`, RLP made.

    Raises:
        ValueError: a type that is not known, or no hex.
    """
    if kind not in KNOWN_TYPES:
        raise ValueError(f"a receipt of the unknown type {kind}")
    said = "".join(logs)
    used = encoded_int(gas).hex()
    body = f"{outcome}{used}{_BLOOM_HEAD}{blooms}{_list_hex(len(said) >> 1)}{said}"
    before = f"{kind:02x}" if kind else ""
    # binascii, not bytes.fromhex, which overlooks blanks.
    return a2b_hex(f"{before}{_list_hex(len(body) >> 1)}{body}")


def masks(addresses: Sequence[str]) -> list[int]:
    """Return the bloom masks of these addresses or topics, for `bloom.may_log`."""
    return [mask(address) for address in addresses]
