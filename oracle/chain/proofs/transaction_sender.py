"""Recovers who signed a transaction: types 0 to 4, legacy ones also without a chain id.

By libsecp256k1 where coincurve is installed, else in pure Python, about a hundred times slower.
"""

from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY, encoded_int, encoded_list
from oracle.chain.proofs.transactions_root import KNOWN_TYPES, SignedTransaction, encoded_fields

# Where `v` of a legacy transaction begins: without the chain id, and with it (EIP-155).
_UNPROTECTED, _PROTECTED = 27, 35


def signer(one: SignedTransaction) -> str | None:
    """Return the address, lower case, whose key signed it; None: nobody can tell.

    So it is with types that are not known, as of what a chain itself puts into its blocks, and
    where there is no signature, or one of zeros.

    Raises:
        ValueError: its fields do not make its hash, or its signature is none.
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
    """Return what was signed, and which of two keys it was: 0 or 1."""
    kind, fields = int(one.type, 16), encoded_fields(one)[:-3]
    if kind:
        return bytes([kind]) + encoded_list(fields), _number(one.y_parity or one.v)
    said = _number(one.v)
    if said < _PROTECTED:
        return encoded_list(fields), said - _UNPROTECTED
    chain_id, parity = divmod(said - _PROTECTED, 2)
    return encoded_list([*fields, encoded_int(chain_id), EMPTY, EMPTY]), parity
