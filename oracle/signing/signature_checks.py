"""Verifies signatures from any signer before they are used or sent.

No data that a signer returns is trusted. The address is recovered from the locally computed
digest, and a transaction is rebuilt from the request, so that no field can differ. See
docs/decisions/0092-remote-signer-verification.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import encode_int, encode_rlp_bytes, encode_rlp_list
from oracle.domain.ids import Address, Hash
from oracle.signing.signer import SignedBytes, TransactionRequest, WrongSignatureError

_CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_SIGNATURE_BYTES = 65
_V_OFFSET = 27
_TRANSACTION_TYPE = b"\x02"
# A signature adds 67 bytes to an unsigned transaction. If a response is longer by more than this,
# it is not decoded to name the fields that differ. Decoding could take seconds, and numbers with
# thousands of digits cannot be formatted.
_MAX_EXTRA_BYTES = 1024
# Fields of an EIP-1559 transaction. The three fields of its signature come after them.
_FIELD_NAMES = (
    *("chain id", "nonce", "tip", "max fee", "gas limit", "to", "value", "calldata"),
    "access list",
)


@dataclass(frozen=True, slots=True)
class EcdsaSignature:
    """A signature on secp256k1; `parity` (0 or 1) is the parity of the point's y coordinate."""

    r: int
    s: int
    parity: int

    @classmethod
    def from_bytes(cls, raw_signature: bytes) -> "EcdsaSignature":
        """Parse a signature of 65 bytes: r, s and v (27 or 28).

        Raises:
            WrongSignatureError: the bytes do not have that form.
        """
        if len(raw_signature) != _SIGNATURE_BYTES or raw_signature[-1] not in {
            _V_OFFSET,
            _V_OFFSET + 1,
        }:
            raise WrongSignatureError(
                "malformed signature; expected 65 bytes that end in 27 or 28"
            )
        r = int.from_bytes(raw_signature[:32], "big")
        s = int.from_bytes(raw_signature[32:64], "big")
        return cls(r, s, raw_signature[-1] - _V_OFFSET)

    @property
    def raw_bytes(self) -> bytes:
        """Return r, s and v as the 65 bytes that the contract expects."""
        return (
            self.r.to_bytes(32, "big")
            + self.s.to_bytes(32, "big")
            + bytes([self.parity + _V_OFFSET])
        )

    @property
    def has_low_s(self) -> bool:
        """Return whether s is in the lower half of its range, as in a non-malleable signature."""
        return 0 < self.s <= _CURVE_ORDER // 2

    def to_low_s(self) -> "EcdsaSignature":
        """Return the equivalent signature with s in the lower half of its range."""
        if self.has_low_s:
            return self
        return EcdsaSignature(self.r, _CURVE_ORDER - self.s, 1 - self.parity)

    def recover_address(self, digest: bytes) -> Address | None:
        """Recover the address that signed a digest, or return None if the signature is invalid."""
        # Imported here, because these modules load slowly and commands that only read verify no
        # signatures.
        from eth_keys.datatypes import Signature  # noqa: PLC0415
        from eth_keys.exceptions import BadSignature  # noqa: PLC0415
        from eth_utils.exceptions import ValidationError  # noqa: PLC0415

        try:
            signature = Signature(vrs=(self.parity, self.r, self.s))
            public_key = signature.recover_public_key_from_msg_hash(digest)
        except (BadSignature, ValidationError):
            return None
        return Address(public_key.to_address())


def verify_signature(signature: EcdsaSignature, digest: bytes, address: Address) -> EcdsaSignature:
    """Verify that this account signed this digest with a low s, and return the signature.

    Raises:
        WrongSignatureError: the signature is by another account or of another digest, or its s is
            high.
    """
    if not signature.has_low_s:
        raise WrongSignatureError(
            f"the signature of {address} has a high s value; do not use this signer"
        )
    recovered_address = signature.recover_address(digest)
    if recovered_address != address:
        signer_description = (
            "an invalid signature"
            if recovered_address is None
            else f"a signature by {recovered_address}"
        )
        raise WrongSignatureError(
            f"the signer of {address} returned {signer_description} for the requested digest"
        )
    return signature


def verify_statement_signature(raw_signature: bytes, digest: Hash, address: Address) -> bytes:
    """Verify that this account signed this digest, and return the 65-byte signature.

    Raises:
        WrongSignatureError: the signature is malformed, has a high s, or is by another account.
    """
    return verify_signature(
        EcdsaSignature.from_bytes(raw_signature), bytes.fromhex(digest[2:]), address
    ).raw_bytes


def normalize_statement_signature(
    raw_signature: bytes, digest: Hash, address: Address
) -> bytes | None:
    """Normalise the signature if this account signed this digest, else return None.

    Some wallets return the parity of the point instead of 27 or 28.
    """
    if raw_signature[_SIGNATURE_BYTES - 1 :] in {b"\0", b"\1"}:
        raw_signature = raw_signature[:-1] + bytes([raw_signature[-1] + _V_OFFSET])
    try:
        return verify_statement_signature(raw_signature, digest, address)
    except WrongSignatureError:
        return None


def encode_unsigned_transaction(transaction: TransactionRequest) -> bytes:
    """Return a type 2 transaction's payload, whose Keccak-256 hash is signed."""
    return _TRANSACTION_TYPE + encode_rlp_list(_encode_transaction_fields(transaction))


def assemble_signed_transaction(
    transaction: TransactionRequest, signature: EcdsaSignature, address: Address
) -> SignedBytes:
    """Combine a transaction and its signature into signed bytes.

    Raises:
        WrongSignatureError: the signature is by another account, or has a high s.
    """
    verify_signature(signature, keccak(encode_unsigned_transaction(transaction)), address)
    signature_fields = [
        encode_int(number) for number in (signature.parity, signature.r, signature.s)
    ]
    raw_transaction = _TRANSACTION_TYPE + encode_rlp_list(
        [*_encode_transaction_fields(transaction), *signature_fields]
    )
    return SignedBytes(raw_transaction, Hash("0x" + keccak(raw_transaction).hex()))


def verify_signed_transaction(
    raw_transaction: bytes, request: TransactionRequest, address: Address
) -> SignedBytes:
    """Verify that this account signed exactly the requested transaction.

    The signed bytes are returned.

    Raises:
        WrongSignatureError: the bytes differ from the request; the message names the fields.
    """
    if len(raw_transaction) > len(encode_unsigned_transaction(request)) + _MAX_EXTRA_BYTES:
        raise WrongSignatureError(
            f"the signer of {address} returned more bytes than a signed transaction can have"
        )
    fields = _decode_transaction_fields(raw_transaction)
    if fields is None:
        raise WrongSignatureError(f"the signer of {address} did not return a type 2 transaction")
    mismatched_names = [
        name
        for name, expected_content, actual_content in zip(
            _FIELD_NAMES, _get_field_contents(request), fields, strict=False
        )
        if expected_content != actual_content
    ]
    if mismatched_names:
        raise WrongSignatureError(
            f"{address} signed a transaction that differs from the request; differing fields: "
            f"{', '.join(mismatched_names)}"
        )
    parity, r, s = (int.from_bytes(field, "big") for field in fields[len(_FIELD_NAMES) :])
    reassembled_transaction = assemble_signed_transaction(
        request, EcdsaSignature(r, s, parity), address
    )
    if reassembled_transaction.raw != raw_transaction:
        raise WrongSignatureError(
            f"the signer of {address} returned a transaction that is not encoded canonically"
        )
    return reassembled_transaction


def _decode_transaction_fields(raw_transaction: bytes) -> list[bytes] | None:
    """Return the fields of a type 2 transaction, or None if it is malformed.

    A field that is an empty list is returned as empty bytes.
    """
    if raw_transaction[:1] != _TRANSACTION_TYPE:
        return None
    import rlp  # noqa: PLC0415  as in `recover_address`

    try:
        rlp_items = rlp.decode(raw_transaction[1:], strict=True)
    except (rlp.DecodingError, RecursionError):
        return None
    if not isinstance(rlp_items, list) or len(rlp_items) != len(_FIELD_NAMES) + 3:
        return None
    return [
        item if isinstance(item, bytes) else b"".join(_flatten_items(item)) for item in rlp_items
    ]


def _flatten_items(items: list[Any]) -> Iterator[bytes]:
    for item in items:
        if isinstance(item, bytes):
            yield item
        else:
            yield from _flatten_items(item)


def _encode_transaction_fields(transaction: TransactionRequest) -> list[bytes]:
    return [*map(encode_rlp_bytes, _get_field_contents(transaction)[:-1]), encode_rlp_list([])]


def _get_field_contents(transaction: TransactionRequest) -> list[bytes]:
    """Return the bytes of each transaction field, in the order of EIP-1559."""
    field_numbers = (
        *(transaction.chain_id, transaction.nonce),
        *(transaction.fees.tip, transaction.fees.max_fee, transaction.gas_limit),
    )
    to = b"" if transaction.to is None else bytes.fromhex(transaction.to[2:])
    calldata = bytes.fromhex(transaction.calldata.removeprefix("0x"))
    return [
        *map(_encode_minimal_integer, field_numbers),
        to,
        _encode_minimal_integer(0),
        calldata,
        b"",
    ]


def _encode_minimal_integer(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
