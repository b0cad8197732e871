"""Recovers the signer of a transaction of the types 0 to 4, with or without a chain id.

If coincurve is installed, libsecp256k1 is used. Otherwise pure Python is used, which is a hundred
times slower.
"""

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY_STRING, encode_int, encode_rlp_list
from oracle.chain.proofs.transactions_root import (
    KNOWN_TYPES,
    SignedTransaction,
    encode_transaction_fields,
)

# The lowest `v` of a legacy transaction: without the chain id, and with it (EIP-155).
_MIN_V_UNPROTECTED, _MIN_V_PROTECTED = 27, 35


def recover_signer(transaction: SignedTransaction) -> str | None:
    """Return the lower-case address of the signer, or None if it cannot be recovered.

    The signer cannot be recovered if the type is unknown, such as the type of a chain's system
    transactions, or if the signature is missing or consists of zeros.

    Raises:
        ValueError: the fields do not match the hash, or the signature is invalid.
    """
    if int(transaction.type, 16) not in KNOWN_TYPES or not _is_signed(transaction):
        return None
    if transaction.compute_hash() != transaction.hash.lower():
        raise ValueError("the fields of the transaction do not match its hash")
    # These libraries are slow to import, and needed only for verification.
    from eth_keys.datatypes import Signature  # noqa: PLC0415
    from eth_keys.exceptions import BadSignature  # noqa: PLC0415
    from eth_utils.exceptions import ValidationError  # noqa: PLC0415

    signed_payload, parity = _build_signed_payload(transaction)
    try:
        signature = Signature(
            vrs=(parity, _parse_quantity(transaction.r), _parse_quantity(transaction.s))
        )
        public_key = signature.recover_public_key_from_msg_hash(keccak(signed_payload))
    except (BadSignature, ValidationError) as error:
        raise ValueError("the signature of the transaction is invalid") from error
    return str(public_key.to_address())


def _is_signed(transaction: SignedTransaction) -> bool:
    has_parity = transaction.v is not None or transaction.y_parity is not None
    return has_parity and _parse_quantity(transaction.r) > 0 and _parse_quantity(transaction.s) > 0


def _parse_quantity(quantity: str | None) -> int:
    return 0 if quantity is None else int(quantity, 16)


def _build_signed_payload(transaction: SignedTransaction) -> tuple[bytes, int]:
    """Return the payload that was signed, and the parity (0 or 1) of the signature."""
    transaction_type = int(transaction.type, 16)
    fields = encode_transaction_fields(transaction)[:-3]
    if transaction_type:
        return bytes([transaction_type]) + encode_rlp_list(fields), _parse_quantity(
            transaction.y_parity or transaction.v
        )
    v = _parse_quantity(transaction.v)
    if v < _MIN_V_PROTECTED:
        return encode_rlp_list(fields), v - _MIN_V_UNPROTECTED
    chain_id, parity = divmod(v - _MIN_V_PROTECTED, 2)
    return encode_rlp_list([*fields, encode_int(chain_id), EMPTY_STRING, EMPTY_STRING]), parity
