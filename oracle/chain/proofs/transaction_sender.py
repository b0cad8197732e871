"""Recovers the signer of a transaction: types 0 to 4, also legacy ones without a chain id.

libsecp256k1 is used if coincurve is installed, else pure Python, about a hundred times slower.
"""

from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY, encoded_int, encoded_list
from oracle.chain.proofs.transactions_root import KNOWN_TYPES, SignedTransaction, encoded_fields

# The lowest `v` of a legacy transaction: without the chain id, and with it (EIP-155).
_UNPROTECTED, _PROTECTED = 27, 35


def signer(one: SignedTransaction) -> str | None:
    """Return the lower-case address of the signer, or None if it cannot be recovered.

    Recovery is not possible for unknown types, such as system transactions of a chain, and
    without a signature, or with one of zeros.

    Raises:
        ValueError: the fields do not match the hash, or the signature is invalid.
    """
    if int(one.type, 16) not in KNOWN_TYPES or not _is_signed(one):
        return None
    if one.true_hash() != one.hash.lower():
        raise ValueError("its fields do not make its hash")
    unsigned, parity = _signed_part(one)
    try:
        signature = Signature(vrs=(parity, _number(one.r), _number(one.s)))
        key = signature.recover_public_key_from_msg_hash(keccak(unsigned))
    except (BadSignature, ValidationError) as error:
        raise ValueError("its signature is nobody's") from error
    return str(key.to_address())


def _is_signed(one: SignedTransaction) -> bool:
    is_there = one.v is not None or one.y_parity is not None
    return is_there and _number(one.r) > 0 and _number(one.s) > 0


def _number(written: str | None) -> int:
    return 0 if written is None else int(written, 16)


def _signed_part(one: SignedTransaction) -> tuple[bytes, int]:
    """Return the signed payload and the parity, 0 or 1, of the signature."""
    kind, fields = int(one.type, 16), encoded_fields(one)[:-3]
    if kind:
        return bytes([kind]) + encoded_list(fields), _number(one.y_parity or one.v)
    said = _number(one.v)
    if said < _PROTECTED:
        return encoded_list(fields), said - _UNPROTECTED
    chain_id, parity = divmod(said - _PROTECTED, 2)
    return encoded_list([*fields, encoded_int(chain_id), EMPTY, EMPTY]), parity
