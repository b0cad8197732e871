"""Opens the signing key of a role, and checks that its address is the expected one.

See tests/faults/sending/cases.toml#f69.
"""

import os
import re
from urllib.parse import urlsplit

from oracle.domain.ids import ZERO_HASH, Address
from oracle.errors import InputError
from oracle.signing.key_locations import (
    EnvironmentKey,
    KeyFiles,
    KeyLocation,
    KmsKey,
    RemoteKey,
    find_environment_key_obstacle,
)
from oracle.signing.kms import KmsSigner
from oracle.signing.local import KeySigner
from oracle.signing.remote import RemoteSigner
from oracle.signing.signer import Fees, SignedBytes, Signer, TransactionRequest
from oracle.signing.typed_data import Domain, ReportStatement

_KEY_PATTERN = re.compile(r"(0x)?[0-9a-fA-F]{64}")


def open_signer(
    location: KeyLocation, *, role: str, chain_id: int, expected_address: Address | None = None
) -> Signer:
    """Open the signer of a role, for example `transmitter`.

    If `expected_address` is given, the key must belong to that address.

    Raises:
        InputError: the key cannot be opened, belongs to another account, or is stored in a place
            that this chain does not allow.
        TransientError: the KMS does not respond.
    """
    signer = _open_key(location, role, chain_id)
    if expected_address is not None and signer.address != expected_address.lower():
        raise InputError(
            f"keys.{role}_address: the setting is {expected_address}, but the opened key belongs "
            f"to {signer.address}; correct the one that is wrong; nothing was signed"
        )
    return signer


def describe_key_location(location: KeyLocation) -> str:
    """Describe where a key is stored, showing only the host of a URL."""
    match location:
        case KeyFiles():
            return f"keystore {location.keystore}"
        case KmsKey():
            return f"KMS key {location.key_id}"
        case RemoteKey():
            return f"remote signer at {urlsplit(location.url).hostname}"
        case EnvironmentKey():
            return f"environment variable {location.variable}"


def _open_key(location: KeyLocation, role: str, chain_id: int) -> Signer:
    match location:
        case KeyFiles():
            return KeySigner.open(*location)
        case KmsKey():
            return KmsSigner.open(location)
        case RemoteKey():
            return RemoteSigner(location)
        case EnvironmentKey():
            return _open_environment_key(location.variable, role, chain_id)


def _open_environment_key(variable: str, role: str, chain_id: int) -> KeySigner:
    mismatch = find_environment_key_obstacle(role, chain_id)
    if mismatch is not None:
        raise InputError(f"{mismatch}; use a keystore, a KMS or a remote signer")
    key_text = os.environ.get(variable)
    if key_text is None:
        raise InputError(f"keys.{role}_env: the environment variable {variable} is not set")
    # The value is not shown, because it may be a key with an extra digit.
    if _KEY_PATTERN.fullmatch(key_text) is None:
        raise InputError(f"keys.{role}_env: the value of {variable} is not 64 hex digits")
    try:
        return KeySigner(bytes.fromhex(key_text.removeprefix("0x")))
    except ValueError:
        raise InputError(f"keys.{role}_env: the value of {variable} is not a valid key") from None


# No contract accepts this statement. Rounds start at 1, and the deadline is in 1970.
VOID_STATEMENT = ReportStatement(ZERO_HASH, 0, ZERO_HASH, 0, ZERO_HASH, 0, ZERO_HASH)
# The highest valid nonce (EIP-2681). No account will ever reach it.
_VOID_NONCE = 2**64 - 2
# The gas of a plain transfer. It is too little for any contract call.
_VOID_GAS_LIMIT = 21_000
_VOID_FEES = Fees(1, 0)


def sign_void_statement(signer: Signer, domain: Domain) -> bytes:
    """Test a signer with a statement that no contract accepts, and return its signature.

    The errors of `Signer.sign_statement` are raised.
    """
    return signer.sign_statement(VOID_STATEMENT, domain)


def sign_void_transaction(
    signer: Signer, chain_id: int, to: Address, calldata: str
) -> SignedBytes:
    """Test a signer with a transaction that is never mined, and return the signed bytes.

    The errors of `Signer.sign_transaction` are raised.
    """
    return signer.sign_transaction(
        TransactionRequest(chain_id, _VOID_NONCE, to, calldata, _VOID_GAS_LIMIT, _VOID_FEES)
    )
