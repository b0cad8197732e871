"""Encodes signed transactions for their hashes and the transactions root.

The types 0 to 4 are supported: legacy (EIP-155), access list (EIP-2930), dynamic fee (EIP-1559),
blob (EIP-4844) and set code (EIP-7702). The side-car of a blob transaction is neither in the block
nor part of the hash.
"""

from collections.abc import Callable, Sequence

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.merkle_trie import compute_trie_root
from oracle.chain.proofs.rlp import encode_int, encode_rlp_bytes, encode_rlp_list
from oracle.rpc.responses import Hex20, Hex32, Quantity


class AccessEntry(msgspec.Struct, rename="camel"):
    """An account and its storage keys that a transaction declares to access."""

    address: Hex20
    storage_keys: list[Hex32]


class Authorization(msgspec.Struct, rename="camel"):
    """An account's authorization to run another account's code (EIP-7702)."""

    chain_id: Quantity
    address: Hex20
    nonce: Quantity
    r: Quantity
    s: Quantity
    y_parity: Quantity | None = None
    v: Quantity | None = None


class SignedTransaction(msgspec.Struct, rename="camel"):
    """A transaction of a full block or from `eth_getTransactionByHash`.

    `to` is None for a contract creation.
    """

    hash: Hex32
    nonce: Quantity
    gas: Quantity
    value: Quantity
    input: str
    sender: Hex20 = msgspec.field(name="from")
    # These fields are None for the system transactions of some chains, which have no signature.
    r: Quantity | None = None
    s: Quantity | None = None
    to: Hex20 | None = None
    # These fields are None while the transaction is pending.
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

    def encode_leaf(self) -> bytes:
        """Encode the transaction as in the trie.

        The Keccak-256 hash of the result is the transaction hash.

        Raises:
            ValueError: the type is unknown, a field that the type needs is missing, or a field is
                not hex.
        """
        transaction_type = int(self.type, 16)
        encoded_fields = encode_rlp_list(encode_transaction_fields(self))
        return bytes([transaction_type]) + encoded_fields if transaction_type else encoded_fields

    def compute_hash(self) -> str:
        """Compute the hash from the transaction's fields, as `0x` hex.

        Raises:
            ValueError: for the same reasons as in `encode_leaf`.
        """
        return "0x" + keccak(self.encode_leaf()).hex()


def encode_transaction_fields(transaction: SignedTransaction) -> list[bytes]:
    """Encode each field of a transaction as RLP.

    The last three fields are the signature.

    Raises:
        ValueError: for the same reasons as in `SignedTransaction.encode_leaf`.
    """
    transaction_type = int(transaction.type, 16)
    if transaction_type not in _ENCODER_BY_TYPE:
        raise ValueError(f"unknown transaction type {transaction_type}")
    return _ENCODER_BY_TYPE[transaction_type](transaction)


def compute_transactions_root(transactions: Sequence[SignedTransaction]) -> str:
    """Compute the transactions root of a block, as `0x` hex.

    The transactions are in the order of the block.

    Raises:
        ValueError: a transaction cannot be encoded.
    """
    return (
        "0x" + compute_trie_root([transaction.encode_leaf() for transaction in transactions]).hex()
    )


def _encode_quantity(quantity: str | None) -> bytes:
    if quantity is None:
        raise ValueError("the transaction lacks a field that its type requires")
    return encode_int(int(quantity, 16))


def _encode_hex(hex_text: str | None) -> bytes:
    return encode_rlp_bytes(bytes.fromhex(hex_text[2:]) if hex_text else b"")


def _encode_parity(signed_object: SignedTransaction | Authorization) -> bytes:
    """Encode the signature parity.

    Older endpoints return the parity as v instead of yParity.
    """
    return _encode_quantity(
        signed_object.v if signed_object.y_parity is None else signed_object.y_parity
    )


def _encode_legacy_fields(transaction: SignedTransaction) -> list[bytes]:
    leading_fields = [
        _encode_quantity(transaction.nonce),
        _encode_quantity(transaction.gas_price),
        _encode_quantity(transaction.gas),
        _encode_hex(transaction.to),
    ]
    return [
        *leading_fields,
        _encode_quantity(transaction.value),
        _encode_hex(transaction.input),
        *map(_encode_quantity, (transaction.v, transaction.r, transaction.s)),
    ]


def _encode_access_list_fields(transaction: SignedTransaction) -> list[bytes]:
    leading_fields = [
        _encode_quantity(transaction.chain_id),
        _encode_quantity(transaction.nonce),
        _encode_quantity(transaction.gas_price),
    ]
    return [
        *leading_fields,
        *_encode_call_fields(transaction),
        *_encode_signature_fields(transaction),
    ]


def _encode_dynamic_fee_fields(transaction: SignedTransaction) -> list[bytes]:
    return [
        *_encode_fee_fields(transaction),
        *_encode_call_fields(transaction),
        *_encode_signature_fields(transaction),
    ]


def _encode_blob_fields(transaction: SignedTransaction) -> list[bytes]:
    blob_hashes = encode_rlp_list(map(_encode_hex, transaction.blob_versioned_hashes or ()))
    return [
        *_encode_fee_fields(transaction),
        *_encode_call_fields(transaction),
        _encode_quantity(transaction.max_fee_per_blob_gas),
        blob_hashes,
        *_encode_signature_fields(transaction),
    ]


def _encode_set_code_fields(transaction: SignedTransaction) -> list[bytes]:
    authorizations = encode_rlp_list(
        map(_encode_authorization, transaction.authorization_list or ())
    )
    return [
        *_encode_fee_fields(transaction),
        *_encode_call_fields(transaction),
        authorizations,
        *_encode_signature_fields(transaction),
    ]


def _encode_fee_fields(transaction: SignedTransaction) -> list[bytes]:
    fees = (transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas)
    return [
        _encode_quantity(transaction.chain_id),
        _encode_quantity(transaction.nonce),
        *map(_encode_quantity, fees),
    ]


def _encode_call_fields(transaction: SignedTransaction) -> list[bytes]:
    encoded_entries = [
        encode_rlp_list(
            (_encode_hex(entry.address), encode_rlp_list(map(_encode_hex, entry.storage_keys)))
        )
        for entry in transaction.access_list or ()
    ]
    encoded_fields = [
        _encode_quantity(transaction.gas),
        _encode_hex(transaction.to),
        _encode_quantity(transaction.value),
        _encode_hex(transaction.input),
    ]
    return [*encoded_fields, encode_rlp_list(encoded_entries)]


def _encode_signature_fields(transaction: SignedTransaction) -> list[bytes]:
    return [
        _encode_parity(transaction),
        _encode_quantity(transaction.r),
        _encode_quantity(transaction.s),
    ]


def _encode_authorization(authorization: Authorization) -> bytes:
    encoded_fields = [
        _encode_quantity(authorization.chain_id),
        _encode_hex(authorization.address),
        _encode_quantity(authorization.nonce),
    ]
    return encode_rlp_list(
        [
            *encoded_fields,
            _encode_parity(authorization),
            _encode_quantity(authorization.r),
            _encode_quantity(authorization.s),
        ]
    )


_ENCODER_BY_TYPE: dict[int, Callable[[SignedTransaction], list[bytes]]] = {
    0: _encode_legacy_fields,
    1: _encode_access_list_fields,
    2: _encode_dynamic_fee_fields,
    3: _encode_blob_fields,
    4: _encode_set_code_fields,
}
KNOWN_TYPES = frozenset(_ENCODER_BY_TYPE)
