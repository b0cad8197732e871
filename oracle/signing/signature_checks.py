"""Verification of signatures from any signer, before they are used or sent.

No data of a signer is trusted: the address is recovered from the locally computed digest, and a
transaction is rebuilt from the request, so that no field can differ. See
docs/decisions/0092-remote-signer-verification.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import rlp
from eth_keys.datatypes import Signature as Point
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from oracle.chain.proofs.rlp import encoded_bytes, encoded_int, encoded_list
from oracle.domain.ids import Address, Hash
from oracle.signing.signer import SignedBytes, TransactionRequest, WrongSignatureError

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_SIGNATURE_BYTES = 65
_V = 27
_TYPE = b"\x02"
# A signature adds 67 bytes. Far larger responses are not decoded to name the differing field:
# decoding may take seconds, and numbers of thousands of digits cannot be formatted.
_MOST_MORE = 1024
# Fields of EIP-1559, before the three of the signature.
_NAMES = (
    *("chain id", "nonce", "tip", "max fee", "gas limit", "to", "value", "calldata"),
    "access list",
)


@dataclass(frozen=True, slots=True)
class EcdsaSignature:
    """A signature on secp256k1; `parity` (0 or 1) is that of the point's y coordinate."""

    r: int
    s: int
    parity: int

    @classmethod
    def of(cls, raw: bytes) -> "EcdsaSignature":
        """Parse 65 bytes of r, s and v (27 or 28).

        Raises:
            WrongSignatureError: the bytes do not have that form.
        """
        if len(raw) != _SIGNATURE_BYTES or raw[-1] not in {_V, _V + 1}:
            raise WrongSignatureError("a signature is not 65 bytes that end in 27 or 28")
        r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:64], "big")
        return cls(r, s, raw[-1] - _V)

    @property
    def raw(self) -> bytes:
        """Return r, s and v as the 65 bytes that the contract expects."""
        return self.r.to_bytes(32, "big") + self.s.to_bytes(32, "big") + bytes([self.parity + _V])

    @property
    def is_low(self) -> bool:
        """Return whether s is in the lower half; a high s would allow a second, malleated form."""
        return 0 < self.s <= _ORDER // 2

    def lowered(self) -> "EcdsaSignature":
        """Return the equivalent signature with low s."""
        return self if self.is_low else EcdsaSignature(self.r, _ORDER - self.s, 1 - self.parity)

    def account(self, digest: bytes) -> Address | None:
        """Recover the address that signed a digest, or None if the signature is invalid."""
        try:
            key = Point(vrs=(self.parity, self.r, self.s)).recover_public_key_from_msg_hash(digest)
        except (BadSignature, ValidationError):
            return None
        return Address(key.to_address())


def is_signed_by(address: Address, digest: Hash, signatures: bytes) -> bool:
    """Return whether one of the concatenated 65-byte signatures is by `address`, over `digest`."""
    for at in range(0, len(signatures), _SIGNATURE_BYTES):
        try:
            signature = EcdsaSignature.of(signatures[at : at + _SIGNATURE_BYTES])
        except WrongSignatureError:
            continue
        if signature.account(bytes.fromhex(digest[2:])) == address:
            return True
    return False


def checked(signature: EcdsaSignature, digest: bytes, address: Address) -> EcdsaSignature:
    """Return the signature if it is by this account, over this digest, with low s.

    Raises:
        WrongSignatureError: one of these conditions does not hold.
    """
    if not signature.is_low:
        raise WrongSignatureError(
            f"a signature for {address} has a high s: the signer is not to be used"
        )
    found = signature.account(digest)
    if found != address:
        whose = "no signature" if found is None else f"a signature of {found}"
        raise WrongSignatureError(f"asked {address} to sign and got {whose} of what was asked")
    return signature


def checked_statement(raw: bytes, digest: Hash, address: Address) -> bytes:
    """Return the 65 bytes if they are this account's signature of this digest.

    Raises:
        WrongSignatureError: the signature is malformed, not low-s or by another account.
    """
    return checked(EcdsaSignature.of(raw), bytes.fromhex(digest[2:]), address).raw


def unsigned(transaction: TransactionRequest) -> bytes:
    """Return the signing payload of a type 2 transaction; its keccak256 is signed."""
    return _TYPE + encoded_list(_fields(transaction))


def assembled(
    transaction: TransactionRequest, signature: EcdsaSignature, address: Address
) -> SignedBytes:
    """Combine a transaction and its signature into signed bytes.

    Raises:
        WrongSignatureError: the signature is by another account, or has a high s.
    """
    checked(signature, keccak(unsigned(transaction)), address)
    ends = [encoded_int(part) for part in (signature.parity, signature.r, signature.s)]
    raw = _TYPE + encoded_list([*_fields(transaction), *ends])
    return SignedBytes(raw, Hash("0x" + keccak(raw).hex()))


def compared(raw: bytes, asked: TransactionRequest, address: Address) -> SignedBytes:
    """Return the signed bytes if they are exactly the requested transaction by this account.

    Raises:
        WrongSignatureError: the bytes differ from the request; the message names the fields.
    """
    if len(raw) > len(unsigned(asked)) + _MOST_MORE:
        raise WrongSignatureError(f"{address} answered with far more than a transaction")
    parts = _parts(raw)
    if parts is None:
        raise WrongSignatureError(f"{address} answered with no transaction of type 2")
    different = [
        name
        for name, ours, theirs in zip(_NAMES, _contents(asked), parts, strict=False)
        if ours != theirs
    ]
    if different:
        raise WrongSignatureError(
            f"{address} signed another transaction than was asked for: {', '.join(different)}"
        )
    parity, r, s = (int.from_bytes(part, "big") for part in parts[len(_NAMES) :])
    rebuilt = assembled(asked, EcdsaSignature(r, s, parity), address)
    if rebuilt.raw != raw:
        raise WrongSignatureError(f"{address} answered with a transaction that is oddly written")
    return rebuilt


def _parts(raw: bytes) -> list[bytes] | None:
    """Decode the fields of a type 2 transaction, or return None; an empty list becomes b""."""
    if raw[:1] != _TYPE:
        return None
    try:
        read = rlp.decode(raw[1:], strict=True)
    except (rlp.DecodingError, RecursionError):
        return None
    if not isinstance(read, list) or len(read) != len(_NAMES) + 3:
        return None
    return [part if isinstance(part, bytes) else b"".join(_flat(part)) for part in read]


def _flat(parts: list[Any]) -> Iterator[bytes]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from _flat(part)


def _fields(transaction: TransactionRequest) -> list[bytes]:
    return [*map(encoded_bytes, _contents(transaction)[:-1]), encoded_list([])]


def _contents(transaction: TransactionRequest) -> list[bytes]:
    """Return the field contents in the order of EIP-1559; value 0 and no access list."""
    numbers = (
        *(transaction.chain_id, transaction.nonce),
        *(transaction.fees.tip, transaction.fees.max_fee, transaction.gas_limit),
    )
    to = b"" if transaction.to is None else bytes.fromhex(transaction.to[2:])
    calldata = bytes.fromhex(transaction.calldata.removeprefix("0x"))
    return [*map(_whole, numbers), to, _whole(0), calldata, b""]


def _whole(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
