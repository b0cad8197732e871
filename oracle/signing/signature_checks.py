"""What a signature must be before anybody else sees it, whoever made it.

Nothing that a key's place says is believed: the address is recovered from our own digest, and a
transaction's bytes are rebuilt from what was asked for, so that no field can differ.
See docs/decisions/0092-remote-signer-verification.md.
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
# The signature has 67 bytes. What differs by more is not taken apart to name the field: it may
# take seconds, and of numbers of thousands of digits the library cannot even complain.
_MOST_MORE = 1024
# EIP-1559's, before the three of the signature.
_NAMES = (
    *("chain id", "nonce", "tip", "max fee", "gas limit", "to", "value", "calldata"),
    "access list",
)


@dataclass(frozen=True, slots=True)
class EcdsaSignature:
    """A signature on secp256k1; `parity` 0 or 1 is that of the point's y."""

    r: int
    s: int
    parity: int

    @classmethod
    def of(cls, raw: bytes) -> "EcdsaSignature":
        """Read r, s and v (27 or 28).

        Raises:
            WrongSignatureError: it is not 65 bytes of that form.
        """
        if len(raw) != _SIGNATURE_BYTES or raw[-1] not in {_V, _V + 1}:
            raise WrongSignatureError("a signature is not 65 bytes that end in 27 or 28")
        r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:64], "big")
        return cls(r, s, raw[-1] - _V)

    @property
    def raw(self) -> bytes:
        """r, s, v: 65 bytes as the contract takes them."""
        return self.r.to_bytes(32, "big") + self.s.to_bytes(32, "big") + bytes([self.parity + _V])

    @property
    def is_low(self) -> bool:
        """Tell whether s lies in the lower half: the other half is a second form of the same."""
        return 0 < self.s <= _ORDER // 2

    def lowered(self) -> "EcdsaSignature":
        """Return the form of this signature with the low s."""
        return self if self.is_low else EcdsaSignature(self.r, _ORDER - self.s, 1 - self.parity)

    def account(self, digest: bytes) -> Address | None:
        """Return whose signature of this digest it is; None: it is no signature."""
        try:
            key = Point(vrs=(self.parity, self.r, self.s)).recover_public_key_from_msg_hash(digest)
        except (BadSignature, ValidationError):
            return None
        return Address(key.to_address())


def is_signed_by(address: Address, digest: Hash, signatures: bytes) -> bool:
    """Tell whether one of these signatures of 65 bytes each is this account's of this digest."""
    for at in range(0, len(signatures), _SIGNATURE_BYTES):
        try:
            signature = EcdsaSignature.of(signatures[at : at + _SIGNATURE_BYTES])
        except WrongSignatureError:
            continue
        if signature.account(bytes.fromhex(digest[2:])) == address:
            return True
    return False


def checked(signature: EcdsaSignature, digest: bytes, address: Address) -> EcdsaSignature:
    """Return the signature if it is this account's of this digest, with a low s.

    Raises:
        WrongSignatureError: it is not.
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
        WrongSignatureError: they are not.
    """
    return checked(EcdsaSignature.of(raw), bytes.fromhex(digest[2:]), address).raw


def unsigned(transaction: TransactionRequest) -> bytes:
    """Return what the signature of a transaction of type 2 is over; its keccak256 is signed."""
    return _TYPE + encoded_list(_fields(transaction))


def assembled(
    transaction: TransactionRequest, signature: EcdsaSignature, address: Address
) -> SignedBytes:
    """Put a signature to a transaction.

    Raises:
        WrongSignatureError: it is not this account's, or has a high s.
    """
    checked(signature, keccak(unsigned(transaction)), address)
    ends = [encoded_int(part) for part in (signature.parity, signature.r, signature.s)]
    raw = _TYPE + encoded_list([*_fields(transaction), *ends])
    return SignedBytes(raw, Hash("0x" + keccak(raw).hex()))


def compared(raw: bytes, asked: TransactionRequest, address: Address) -> SignedBytes:
    """Return the bytes if they are exactly what was asked for, signed by this account.

    Raises:
        WrongSignatureError: they are not; it says which field differs.
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
    """Take a transaction of type 2 apart; an empty list reads as nothing; None: it is none."""
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
    """In EIP-1559's order; value 0 and no access list."""
    numbers = (
        *(transaction.chain_id, transaction.nonce),
        *(transaction.fees.tip, transaction.fees.max_fee, transaction.gas_limit),
    )
    to = b"" if transaction.to is None else bytes.fromhex(transaction.to[2:])
    calldata = bytes.fromhex(transaction.calldata.removeprefix("0x"))
    return [*map(_whole, numbers), to, _whole(0), calldata, b""]


def _whole(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
