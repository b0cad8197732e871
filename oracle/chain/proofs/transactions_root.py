"""Signed transactions, as encoded for their hashes and the transactions root.

Types 0 to 4: legacy (EIP-155), access list (2930), dynamic fee (1559), blob (4844), set code
(7702). The side-car of a blob transaction is not in the block, and not part of the hash.
"""

from collections.abc import Callable, Sequence

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.merkle_trie import root
from oracle.chain.proofs.rlp import encoded_bytes, encoded_int, encoded_list
from oracle.rpc.responses import Hex20, Hex32, Quantity


class AccessEntry(msgspec.Struct, rename="camel"):
    """An account and the storage keys that a transaction declares to access."""

    address: Hex20
    storage_keys: list[Hex32]


class Authorization(msgspec.Struct, rename="camel"):
    """An account's authorization to run the code of another (EIP-7702)."""

    chain_id: Quantity
    address: Hex20
    nonce: Quantity
    r: Quantity
    s: Quantity
    y_parity: Quantity | None = None
    v: Quantity | None = None


class SignedTransaction(msgspec.Struct, rename="camel"):
    """An entry of a full block, or of `eth_getTransactionByHash`; `to` is None for a creation."""

    hash: Hex32
    nonce: Quantity
    gas: Quantity
    value: Quantity
    input: str
    sender: Hex20 = msgspec.field(name="from")
    # System transactions of a chain have no signature.
    r: Quantity | None = None
    s: Quantity | None = None
    to: Hex20 | None = None
    # None while the transaction is pending.
    block_hash: Hex32 | None = None
    block_number: Quantity | None = None
    transaction_index: Quantity | None = None
    type: Quantity = "0x0"
    v: Quantity | None = None
    y_parity: Quantity | None = None
    chain_id: Quantity | None = None
    gas_price: Quantity | None = None
    max_priority_fee_per_gas: Quantity | None = None
    max_fee_per_gas: Quantity | None = None
    max_fee_per_blob_gas: Quantity | None = None
    access_list: list[AccessEntry] | None = None
    blob_versioned_hashes: list[Hex32] | None = None
    authorization_list: list[Authorization] | None = None

    def leaf(self) -> bytes:
        """Return the transaction as encoded in the trie; the hash of this encoding is its hash.

        Raises:
            ValueError: unknown type, a field that the type needs is missing, or a field is not
                hex.
        """
        kind, content = int(self.type, 16), encoded_list(encoded_fields(self))
        return bytes([kind]) + content if kind else content

    def true_hash(self) -> str:
        """Return the hash, `0x` hex, computed from the transaction's fields.

        Raises:
            ValueError: as `encode_leaf`.
        """
        return "0x" + keccak(self.leaf()).hex()


def encoded_fields(one: SignedTransaction) -> list[bytes]:
    """Return the RLP of each field of a transaction; the last three are its signature.

    Raises:
        ValueError: as `SignedTransaction.encode_leaf`.
    """
    kind = int(one.type, 16)
    if kind not in _FIELDS:
        raise ValueError(f"a transaction of the unknown type {kind}")
    return _FIELDS[kind](one)


def transactions_root(transactions: Sequence[SignedTransaction]) -> str:
    """Return the transactions root, `0x` hex, of a whole block's transactions in order.

    Raises:
        ValueError: a transaction cannot be encoded.
    """
    return "0x" + root([one.leaf() for one in transactions]).hex()


def _whole(said: str | None) -> bytes:
    if said is None:
        raise ValueError("a transaction without a field that its type needs")
    return encoded_int(int(said, 16))


def _string(said: str | None) -> bytes:
    return encoded_bytes(bytes.fromhex(said[2:]) if said else b"")


def _parity(said: SignedTransaction | Authorization) -> bytes:
    """Encode the signature parity; older endpoints return it as v instead of yParity."""
    return _whole(said.v if said.y_parity is None else said.y_parity)


def _legacy(one: SignedTransaction) -> list[bytes]:
    head = [_whole(one.nonce), _whole(one.gas_price), _whole(one.gas), _string(one.to)]
    return [*head, _whole(one.value), _string(one.input), *map(_whole, (one.v, one.r, one.s))]


def _access_list(one: SignedTransaction) -> list[bytes]:
    head = [_whole(one.chain_id), _whole(one.nonce), _whole(one.gas_price)]
    return [*head, *_called(one), *_signed(one)]


def _dynamic(one: SignedTransaction) -> list[bytes]:
    return [*_priced(one), *_called(one), *_signed(one)]


def _blob(one: SignedTransaction) -> list[bytes]:
    blobs = encoded_list(map(_string, one.blob_versioned_hashes or ()))
    return [*_priced(one), *_called(one), _whole(one.max_fee_per_blob_gas), blobs, *_signed(one)]


def _set_code(one: SignedTransaction) -> list[bytes]:
    leaves = encoded_list(map(_authorized, one.authorization_list or ()))
    return [*_priced(one), *_called(one), leaves, *_signed(one)]


def _priced(one: SignedTransaction) -> list[bytes]:
    fees = (one.max_priority_fee_per_gas, one.max_fee_per_gas)
    return [_whole(one.chain_id), _whole(one.nonce), *map(_whole, fees)]


def _called(one: SignedTransaction) -> list[bytes]:
    entries = [
        encoded_list((_string(entry.address), encoded_list(map(_string, entry.storage_keys))))
        for entry in one.access_list or ()
    ]
    called = [_whole(one.gas), _string(one.to), _whole(one.value), _string(one.input)]
    return [*called, encoded_list(entries)]


def _signed(one: SignedTransaction) -> list[bytes]:
    return [_parity(one), _whole(one.r), _whole(one.s)]


def _authorized(one: Authorization) -> bytes:
    named = [_whole(one.chain_id), _string(one.address), _whole(one.nonce)]
    return encoded_list([*named, _parity(one), _whole(one.r), _whole(one.s)])


_FIELDS: dict[int, Callable[[SignedTransaction], list[bytes]]] = {
    0: _legacy,
    1: _access_list,
    2: _dynamic,
    3: _blob,
    4: _set_code,
}
KNOWN_TYPES = frozenset(_FIELDS)
