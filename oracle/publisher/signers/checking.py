"""What a signature must be before anybody else sees it, whoever made it (publishing.md 5).

Nothing that a key's place says is believed: the address is recovered from our own digest, and a
transaction's bytes are rebuilt from what was asked for, so that no field can differ.
"""

from dataclasses import dataclass

from eth_keys.datatypes import Signature as Point
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from oracle.chain.proof.rlp import encoded_bytes, encoded_int, encoded_list
from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError
from oracle.publisher.signer import SignedBytes, Transaction

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_SIGNATURE_BYTES = 65
_V = 27
_TYPE = b"\x02"


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature on secp256k1; `parity` 0 or 1 is that of the point's y."""

    r: int
    s: int
    parity: int

    @classmethod
    def of(cls, raw: bytes) -> "Signature":
        """Read r, s and v (27 or 28).

        Raises:
            FatalError: it is not 65 bytes of that form.
        """
        if len(raw) != _SIGNATURE_BYTES or raw[-1] not in {_V, _V + 1}:
            raise FatalError("a signature is not 65 bytes that end in 27 or 28")
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

    def lowered(self) -> "Signature":
        """Return the form of this signature with the low s."""
        return self if self.is_low else Signature(self.r, _ORDER - self.s, 1 - self.parity)

    def account(self, digest: bytes) -> Address | None:
        """Return whose signature of this digest it is; None: it is no signature."""
        try:
            key = Point(vrs=(self.parity, self.r, self.s)).recover_public_key_from_msg_hash(digest)
        except (BadSignature, ValidationError):
            return None
        return Address(key.to_address())


def checked(signature: Signature, digest: bytes, address: Address) -> Signature:
    """Return the signature if it is this account's of this digest, with a low s.

    Raises:
        FatalError: it is not.
    """
    if not signature.is_low:
        raise FatalError(f"a signature for {address} has a high s: the signer is not to be used")
    found = signature.account(digest)
    if found != address:
        whose = "no signature" if found is None else f"a signature of {found}"
        raise FatalError(f"asked {address} to sign and got {whose} of what was asked")
    return signature


def checked_statement(raw: bytes, digest: Hash, address: Address) -> bytes:
    """Return the 65 bytes if they are this account's signature of this digest.

    Raises:
        FatalError: they are not.
    """
    return checked(Signature.of(raw), bytes.fromhex(digest[2:]), address).raw


def unsigned(transaction: Transaction) -> bytes:
    """Return what the signature of a transaction of type 2 is over; its keccak256 is signed."""
    return _TYPE + encoded_list(_fields(transaction))


def assembled(transaction: Transaction, signature: Signature, address: Address) -> SignedBytes:
    """Put a signature to a transaction.

    Raises:
        FatalError: it is not this account's, or has a high s.
    """
    checked(signature, keccak(unsigned(transaction)), address)
    ends = [encoded_int(part) for part in (signature.parity, signature.r, signature.s)]
    raw = _TYPE + encoded_list([*_fields(transaction), *ends])
    return SignedBytes(raw, Hash("0x" + keccak(raw).hex()))


def _fields(transaction: Transaction) -> list[bytes]:
    """In EIP-1559's order; value 0 and no access list."""
    to = b"" if transaction.to is None else bytes.fromhex(transaction.to[2:])
    numbers = (
        *(transaction.chain_id, transaction.nonce),
        *(transaction.fees.tip, transaction.fees.max_fee, transaction.gas_limit),
    )
    calldata = bytes.fromhex(transaction.calldata.removeprefix("0x"))
    return [
        *(encoded_int(number) for number in numbers),
        *(encoded_bytes(to), encoded_int(0), encoded_bytes(calldata), encoded_list([])),
    ]
