"""Signer for a key in process memory.

The key comes from a keystore or, on development chains, from an environment variable.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from typing_extensions import override

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.signing.keystore import import_eth_account, unlock_keystore
from oracle.signing.signature_checks import (
    EcdsaSignature,
    assemble_signed_transaction,
    encode_unsigned_transaction,
    verify_statement_signature,
)
from oracle.signing.signer import SignedBytes, TransactionRequest
from oracle.signing.typed_data import (
    Domain,
    ObjectionStatement,
    ReportStatement,
    SignableStatement,
)
from oracle.telemetry.safe_text import register_secret

if TYPE_CHECKING:
    from eth_typing import Hash32


class KeySigner:
    """Signer of an account with a key in memory; `repr` shows only the address."""

    __slots__ = ("__account", "_address")

    def __init__(self, key: bytes) -> None:
        # Register the key as a secret, in case a bug ever logs it.
        register_secret(key.hex())
        self.__account = import_eth_account().from_key(key)
        self._address = Address(self.__account.address.lower())

    @classmethod
    def open(
        cls, keystore: Path, password_file: Path, expected_address: Address | None = None
    ) -> "KeySigner":
        """Unlock a keystore, and return its signer.

        Raises:
            InputError: the keystore cannot be unlocked (see `unlock_keystore`), or the address of
                its key is not `expected_address`.
        """
        private_key = unlock_keystore(keystore, password_file)
        try:
            signer = cls(private_key)
        except ValueError:
            raise InputError(f"{keystore}: does not contain a valid secp256k1 key") from None
        if expected_address is not None and signer.address != expected_address.lower():
            raise InputError(
                f"{keystore}: contains the key of {signer.address}; "
                f"expected the key of {expected_address}"
            )
        return signer

    @override
    def __repr__(self) -> str:
        return f"KeySigner({self.address})"

    @property
    def address(self) -> Address:
        return self._address

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        """Sign a report or an answer.

        The same statement always gives the same bytes.
        """
        digest = statement.compute_digest(domain)
        signature = self._sign_digest(bytes.fromhex(digest[2:]))
        return verify_statement_signature(signature, digest, self.address)

    def sign_objection(self, statement: ObjectionStatement, domain: Domain) -> bytes:
        """Sign an objection by this account's node."""
        digest = statement.compute_digest(domain)
        signature = self._sign_digest(bytes.fromhex(digest[2:]))
        return verify_statement_signature(signature, digest, self.address)

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign a type 2 transaction.

        The same transaction always gives the same bytes.
        """
        signature = EcdsaSignature.from_bytes(
            self._sign_digest(keccak(encode_unsigned_transaction(transaction)))
        )
        return assemble_signed_transaction(transaction, signature, self.address)

    def _sign_digest(self, digest: bytes) -> bytes:
        return bytes(self.__account.unsafe_sign_hash(cast("Hash32", digest)).signature)


class DryRunSignatureError(Exception):
    """A dry run reached a step that needs a signature; the message states what it would sign."""


@dataclass(frozen=True, slots=True)
class ReadOnlySigner:
    """Signer for dry runs, which has an account's address but no key and never signs."""

    address: Address

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> NoReturn:
        """Raise DryRunSignatureError."""
        statement_text = "an answer"
        if isinstance(statement, ReportStatement):
            statement_text = f"the report in round {statement.round}"
        raise DryRunSignatureError(f"{statement_text} would be signed for {domain.contract}")

    def sign_transaction(self, transaction: TransactionRequest) -> NoReturn:
        """Raise DryRunSignatureError."""
        raise DryRunSignatureError(
            f"a transaction with nonce {transaction.nonce} and a maximum fee of "
            f"{transaction.fees.max_fee} wei per gas would be signed"
        )
