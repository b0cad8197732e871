"""Signer for a key in AWS KMS.

Only 32-byte digests are sent, and every signature is verified.

boto3 is installed by the extra `kms`, and imported only if a key in KMS is configured.
"""

from importlib import import_module
from typing import Any, Protocol

from typing_extensions import override

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.resources import format_install_command
from oracle.signing.key_locations import KmsKey
from oracle.signing.signature_checks import (
    EcdsaSignature,
    assemble_signed_transaction,
    encode_unsigned_transaction,
    verify_statement_signature,
)
from oracle.signing.signer import (
    SignedBytes,
    SignerRefusedError,
    TransactionRequest,
    WrongSignatureError,
)
from oracle.signing.typed_data import Domain, SignableStatement

_ALGORITHM = "ECDSA_SHA_256"
_REQUIRED_SPEC_AND_USAGE = ("ECC_SECG_P256K1", "SIGN_VERIFY")
# Start of the SubjectPublicKeyInfo (RFC 5480) of an uncompressed secp256k1 point. The coordinates
# x and y follow it.
_PUBLIC_KEY_PREFIX = bytes.fromhex("3056301006072a8648ce3d020106052b8104000a03420004")
_POINT_BYTES = 64
_INTEGER_BYTES = 32
_SEQUENCE_TAG, _INTEGER_TAG = 0x30, 0x02
# Errors that boto3's parser and this module raise if a response with status 200 does not come from
# a KMS. It may, for example, come from a proxy.
_MALFORMED_RESPONSE_ERRORS = (AttributeError, KeyError, RecursionError, TypeError)
# Advice for the operator, by AWS error code or exception class name.
_ADVICE_BY_ERROR_CODE = {
    "NoRegionError": "no region is configured; set keys.kms_region, or AWS_REGION",
    "NoCredentialsError": "no credentials were found; configure credentials as for the AWS CLI",
    "ValueError": "keys.kms_endpoint is not a valid URL",
    "NotFoundException": "there is no such key in this region and account",
    "AccessDeniedException": (
        "access was denied; see ops/signer/kms-key-policy.json for the required permissions"
    ),
}


class _KmsClient(Protocol):
    """The used part of the boto3 KMS client, which has no types of its own."""

    def get_public_key(self, **parameters: str) -> dict[str, Any]: ...

    def sign(self, **parameters: str | bytes) -> dict[str, Any]: ...


class KmsSigner:
    """Signer of an account with a key in AWS KMS; `repr` shows only the address."""

    __slots__ = ("_address", "_client", "_key_id")

    def __init__(self, client: _KmsClient, key_id: str, address: Address) -> None:
        self._client = client
        self._key_id = key_id
        self._address = address

    @classmethod
    def open(cls, location: KmsKey) -> "KmsSigner":
        """Fetch the public key from the KMS, and return a signer for its address.

        Raises:
            InputError: boto3 is not installed, no region or credentials are configured, or the KMS
                has no such key for signing on secp256k1.
            TransientError: the KMS does not respond.
        """
        client = _create_client(location)
        try:
            response = client.get_public_key(KeyId=location.key_id)
            public_key = bytes(response["PublicKey"])
        except _list_boto_error_types() as error:
            raise _build_open_error(location, error) from None
        # The field was called CustomerMasterKeySpec before 2021.
        key_spec = response.get("KeySpec") or response.get("CustomerMasterKeySpec")
        if (key_spec, response.get("KeyUsage")) != _REQUIRED_SPEC_AND_USAGE:
            raise InputError(
                f"KMS key {location.key_id}: the key has spec {key_spec} and usage "
                f"{response.get('KeyUsage')}; expected {_REQUIRED_SPEC_AND_USAGE[0]} and "
                f"{_REQUIRED_SPEC_AND_USAGE[1]}"
            )
        return cls(
            client, location.key_id, _derive_address_from_public_key(public_key, location.key_id)
        )

    @override
    def __repr__(self) -> str:
        return f"KmsSigner({self.address})"

    @property
    def address(self) -> Address:
        return self._address

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        """Sign a report or an answer.

        The signature differs with every call. See `Signer`.
        """
        digest = statement.compute_digest(domain)
        signature_bytes = self._sign_digest(bytes.fromhex(digest[2:])).raw_bytes
        return verify_statement_signature(signature_bytes, digest, self.address)

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign a type 2 transaction.

        The bytes differ with every call. See `Signer`.
        """
        signature = self._sign_digest(keccak(encode_unsigned_transaction(transaction)))
        return assemble_signed_transaction(transaction, signature, self.address)

    def _sign_digest(self, digest: bytes) -> EcdsaSignature:
        try:
            response = self._client.sign(
                KeyId=self._key_id,
                Message=digest,
                MessageType="DIGEST",
                SigningAlgorithm=_ALGORITHM,
            )
            der_signature = bytes(response["Signature"])
        except _list_boto_error_types() as error:
            raise _build_signing_error(self.address, error) from None
        r, s = decode_der_signature(der_signature)
        # KMS does not return the parity of y. Try both values, of which one recovers the account.
        for parity in (0, 1):
            signature = EcdsaSignature(r, s, parity).to_low_s()
            if signature.recover_address(digest) == self.address:
                return signature
        raise WrongSignatureError(
            f"the KMS signed another digest, or signed with another key than {self.address}"
        )


def decode_der_signature(der_signature: bytes) -> tuple[int, int]:
    """Decode r and s from a DER-encoded ECDSA signature, as a KMS returns it.

    Raises:
        WrongSignatureError: the bytes are not exactly one such sequence.
    """
    sequence_content, after_sequence = _split_der_element(der_signature, _SEQUENCE_TAG)
    r_content, after_r = _split_der_element(sequence_content, _INTEGER_TAG)
    s_content, after_s = _split_der_element(after_r, _INTEGER_TAG)
    if after_sequence or after_s:
        raise WrongSignatureError("the KMS returned extra bytes after the signature")
    return _decode_der_integer(r_content), _decode_der_integer(s_content)


def _split_der_element(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the first DER element, and the bytes after it."""
    if len(der) < 2 or der[0] != tag or der[1] >= 128:  # noqa: PLR2004  DER's heads
        raise WrongSignatureError("the KMS returned a signature that is not DER-encoded")
    element_end = 2 + der[1]
    if len(der) < element_end:
        raise WrongSignatureError("the KMS returned a truncated signature")
    return der[2:element_end], der[element_end:]


def _decode_der_integer(content: bytes) -> int:
    if not 0 < len(content) <= _INTEGER_BYTES + 1:
        raise WrongSignatureError("the KMS returned a signature with an integer of invalid length")
    return int.from_bytes(content, "big", signed=True)


def _derive_address_from_public_key(public_key_info: bytes, key_id: str) -> Address:
    # Imported here, because these modules load slowly and only a KMS key needs them.
    from eth_keys.datatypes import PublicKey  # noqa: PLC0415
    from eth_utils.exceptions import ValidationError  # noqa: PLC0415

    if (
        not public_key_info.startswith(_PUBLIC_KEY_PREFIX)
        or len(public_key_info) != len(_PUBLIC_KEY_PREFIX) + _POINT_BYTES
    ):
        raise InputError(f"KMS key {key_id}: the key is not a secp256k1 key")
    try:
        return Address(PublicKey(public_key_info[-_POINT_BYTES:]).to_address())
    except ValidationError:
        raise InputError(f"KMS key {key_id}: its public key is not a point on the curve") from None


def _create_client(location: KmsKey) -> _KmsClient:
    try:
        boto3 = import_module("boto3")
        config = import_module("botocore.config")
    except ImportError:
        raise InputError(
            f"keys in AWS KMS: boto3 is not installed; run {format_install_command('kms')}"
        ) from None
    client_config = config.Config(
        connect_timeout=location.timeout_seconds,
        read_timeout=location.timeout_seconds,
        # boto3 must not retry. A lost response is reported as an error, and the job's next run
        # requests a new signature.
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    try:
        client: _KmsClient = boto3.client(
            "kms",
            region_name=location.region,
            endpoint_url=location.endpoint,
            config=client_config,
        )
    except _list_boto_error_types() as error:
        raise _build_open_error(location, error) from None
    return client


def _list_boto_error_types() -> tuple[type[Exception], ...]:
    """Return the exception types that boto3 raises.

    The types can be imported only if boto3 is installed.
    """
    exceptions = import_module("botocore.exceptions")
    # botocore raises ValueError if an endpoint URL is invalid.
    return (
        exceptions.BotoCoreError,
        exceptions.ClientError,
        ValueError,
        *_MALFORMED_RESPONSE_ERRORS,
    )


def _get_aws_error_code(error: Exception) -> str:
    """Return AWS's error code, or the exception's class name if there is none.

    The message of the error is never returned.
    """
    response = getattr(error, "response", None)
    error_code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return str(error_code) if error_code else type(error).__name__


def _is_rejected_by_kms(error: Exception) -> bool:
    """Return whether the KMS rejected the request, other than by a 5xx error or throttling."""
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    is_client_error = 400 <= metadata.get("HTTPStatusCode", 0) < 500  # noqa: PLR2004  HTTP
    return is_client_error and _get_aws_error_code(error) != "ThrottlingException"


def _build_open_error(location: KmsKey, error: Exception) -> InputError | TransientError:
    code = _get_aws_error_code(error)
    if _is_rejected_by_kms(error) or code in _ADVICE_BY_ERROR_CODE:
        advice = _ADVICE_BY_ERROR_CODE.get(code, "the KMS rejected the request")
        return InputError(f"KMS key {location.key_id}: cannot be used: {advice} ({code})")
    return TransientError(f"KMS key {location.key_id}: the KMS did not answer ({code})")


def _build_signing_error(address: Address, error: Exception) -> TransientError:
    code = _get_aws_error_code(error)
    if _is_rejected_by_kms(error):
        return SignerRefusedError(f"the KMS refused to sign for {address} ({code})")
    return TransientError(f"the KMS did not sign for {address} ({code}); the outcome is unknown")
