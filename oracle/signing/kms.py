"""Signer for a key in AWS KMS: only 32-byte digests are sent, and every signature is verified.

boto3 comes with the extra `kms` and is imported when such a key is configured.
"""

from importlib import import_module
from typing import Any, Protocol

from eth_keys.datatypes import PublicKey
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError
from typing_extensions import override

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.resources import extra_command
from oracle.signing.key_locations import KmsKey
from oracle.signing.signature_checks import EcdsaSignature, assembled, checked_statement, unsigned
from oracle.signing.signer import (
    SignedBytes,
    SignerRefusedError,
    Statement,
    TransactionRequest,
    WrongSignatureError,
)
from oracle.signing.typed_data import Domain

_ALGORITHM = "ECDSA_SHA_256"
_USAGE = ("ECC_SECG_P256K1", "SIGN_VERIFY")
# SubjectPublicKeyInfo of an uncompressed secp256k1 point (RFC 5480): this prefix, then x and y.
_KEY_INFO = bytes.fromhex("3056301006072a8648ce3d020106052b8104000a03420004")
_POINT_BYTES = 64
_WORD_BYTES = 32
_SEQUENCE, _INTEGER = 0x30, 0x02
# Raised by boto3's parser, or by this module, for a 200 response that no KMS wrote (a proxy's
# page).
_ODD = (AttributeError, KeyError, RecursionError, TypeError)
# Advice for the operator, by AWS error code.
_ADVICE = {
    "NoRegionError": "no region is known; set keys.kms_region, or AWS_REGION",
    "NoCredentialsError": "no credentials are found where AWS's own tools look for them",
    "ValueError": "keys.kms_endpoint is no address",
    "NotFoundException": "there is no such key in this region and account",
    "AccessDeniedException": "these credentials may not use it (ops/signer/kms-key-policy.json)",
}


class _Client(Protocol):
    """The part of the untyped boto3 KMS client that is used here."""

    def get_public_key(self, **asked: str) -> dict[str, Any]: ...

    def sign(self, **asked: str | bytes) -> dict[str, Any]: ...


class KmsSigner:
    """Signer of one account in AWS KMS. `repr` shows only its address."""

    __slots__ = ("_address", "_client", "_key_id")

    def __init__(self, client: _Client, key_id: str, address: Address) -> None:
        self._client = client
        self._key_id = key_id
        self._address = address

    @classmethod
    def open(cls, place: KmsKey) -> "KmsSigner":
        """Fetch the public key from the KMS and return a signer for its address.

        Raises:
            InputError: boto3 is not installed, no region or credentials are configured, or there
                is
                no such key for signing on secp256k1.
            TransientError: the KMS does not respond.
        """
        client = _client(place)
        try:
            told = client.get_public_key(KeyId=place.key_id)
            public_key = bytes(told["PublicKey"])
        except _failures() as error:
            raise _unopened(place, error) from None
        # The second field name was used before 2021.
        spec = told.get("KeySpec") or told.get("CustomerMasterKeySpec")
        if (spec, told.get("KeyUsage")) != _USAGE:
            raise InputError(
                f"KMS key {place.key_id}: is {spec} for {told.get('KeyUsage')}, "
                f"not {_USAGE[0]} for {_USAGE[1]}"
            )
        return cls(client, place.key_id, _address_of(public_key, place.key_id))

    @override
    def __repr__(self) -> str:
        return f"KmsSigner({self.address})"

    @property
    def address(self) -> Address:
        return self._address

    def sign_statement(self, statement: Statement, domain: Domain) -> bytes:
        """Sign a report or a kickout; the signature differs on every call. See `Signer`."""
        digest = statement.digest(domain)
        raw = self._sign(bytes.fromhex(digest[2:])).raw
        return checked_statement(raw, digest, self.address)

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign a type 2 transaction; the bytes differ on every call. See `Signer`."""
        signature = self._sign(keccak(unsigned(transaction)))
        return assembled(transaction, signature, self.address)

    def _sign(self, digest: bytes) -> EcdsaSignature:
        try:
            told = self._client.sign(
                KeyId=self._key_id,
                Message=digest,
                MessageType="DIGEST",
                SigningAlgorithm=_ALGORITHM,
            )
            written = bytes(told["Signature"])
        except _failures() as error:
            raise _unsigned(self.address, error) from None
        r, s = read_der(written)
        # KMS does not return the parity: try both and take the one that recovers the account.
        for parity in (0, 1):
            signature = EcdsaSignature(r, s, parity).lowered()
            if signature.account(digest) == self.address:
                return signature
        raise WrongSignatureError(
            f"the KMS signed something else, or with another key than {self.address}"
        )


def read_der(written: bytes) -> tuple[int, int]:
    """Return r and s of an ECDSA signature in the DER encoding of KMS (RFC 3279: one sequence).

    Raises:
        WrongSignatureError: the bytes are not exactly one such sequence.
    """
    body, rest = _element(written, _SEQUENCE)
    first, after = _element(body, _INTEGER)
    second, end = _element(after, _INTEGER)
    if rest or end:
        raise WrongSignatureError("the KMS answered with more than a signature")
    return _number(first), _number(second)


def _element(written: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the contents of the first element (under 128 bytes) and the bytes after it."""
    if len(written) < 2 or written[0] != tag or written[1] >= 128:  # noqa: PLR2004  DER's heads
        raise WrongSignatureError("the KMS answered with no signature")
    end = 2 + written[1]
    if len(written) < end:
        raise WrongSignatureError("the KMS answered with half a signature")
    return written[2:end], written[end:]


def _number(content: bytes) -> int:
    if not 0 < len(content) <= _WORD_BYTES + 1:
        raise WrongSignatureError("the KMS answered with a number of the wrong length")
    return int.from_bytes(content, "big", signed=True)


def _address_of(info: bytes, key_id: str) -> Address:
    if not info.startswith(_KEY_INFO) or len(info) != len(_KEY_INFO) + _POINT_BYTES:
        raise InputError(f"KMS key {key_id}: its public key is none of secp256k1")
    try:
        return Address(PublicKey(info[-_POINT_BYTES:]).to_address())
    except ValidationError:
        raise InputError(f"KMS key {key_id}: its public key is no point") from None


def _client(place: KmsKey) -> _Client:
    try:
        boto, config = import_module("boto3"), import_module("botocore.config")
    except ImportError:
        raise InputError(
            f"keys in AWS KMS: boto3 is not installed; run {extra_command('kms')}"
        ) from None
    settings = config.Config(
        connect_timeout=place.timeout_seconds,
        read_timeout=place.timeout_seconds,
        # No retry: a lost response is reported, and the next run requests a new signature.
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    try:
        client: _Client = boto.client(
            "kms", region_name=place.region, endpoint_url=place.endpoint, config=settings
        )
    except _failures() as error:
        raise _unopened(place, error) from None
    return client


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that boto3 raises; importable only once boto3 is installed."""
    errors = import_module("botocore.exceptions")
    # ValueError is raised for an invalid endpoint URL.
    return errors.BotoCoreError, errors.ClientError, ValueError, *_ODD


def _code(error: Exception) -> str:
    """Return AWS's error code, or the exception's class name; never a message."""
    response = getattr(error, "response", None)
    told = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return str(told) if told else type(error).__name__


def _is_refusal(error: Exception) -> bool:
    """Return whether the KMS rejected the request; 5xx and throttling do not count."""
    response = getattr(error, "response", None)
    told = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    return 400 <= told.get("HTTPStatusCode", 0) < 500 and _code(error) != "ThrottlingException"  # noqa: PLR2004  HTTP


def _unopened(place: KmsKey, error: Exception) -> InputError | TransientError:
    code = _code(error)
    if _is_refusal(error) or code in _ADVICE:
        advice = _ADVICE.get(code, "the KMS refused it")
        return InputError(f"KMS key {place.key_id}: cannot be used: {advice} ({code})")
    return TransientError(f"KMS key {place.key_id}: the KMS did not answer ({code})")


def _unsigned(address: Address, error: Exception) -> TransientError:
    code = _code(error)
    if _is_refusal(error):
        return SignerRefusedError(f"the KMS refused to sign for {address} ({code})")
    return TransientError(f"the KMS did not sign for {address} ({code}): what it did is not known")
