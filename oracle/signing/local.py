"""A key in this process's memory: from a keystore file, or (development chains) a variable."""

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from eth_typing import Hash32
from eth_utils.crypto import keccak
from typing_extensions import override

from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.signing.keystore import accounts, unlock
from oracle.signing.signature_checks import EcdsaSignature, assembled, checked_statement, unsigned
from oracle.signing.signer import SignedBytes, Statement, TransactionRequest
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.telemetry.safe_text import hide


class KeySigner:
    """One account. `repr` shows its address alone."""

    __slots__ = ("__account", "_address")

    def __init__(self, key: bytes) -> None:
        # Should it ever come into a line of the log, it is blacked out there.
        hide(key.hex())
        self.__account = accounts().from_key(key)
        self._address = Address(self.__account.address.lower())

    @classmethod
    def open(
        cls, keystore: Path, password_file: Path, expected: Address | None = None
    ) -> "KeySigner":
        """Unlock a keystore.

        Raises:
            InputError: see `keys.unlock`; or the key's address is not the `expected` one.
        """
        key = unlock(keystore, password_file)
        try:
            signer = cls(key)
        except ValueError:
            raise InputError(f"{keystore}: what it holds is no key of secp256k1") from None
        if expected is not None and signer.address != expected.lower():
            raise InputError(f"{keystore}: holds the key of {signer.address}, not of {expected}")
        return signer

    @override
    def __repr__(self) -> str:
        return f"KeySigner({self.address})"

    @property
    def address(self) -> Address:
        return self._address

    def sign_statement(self, statement: Statement, domain: Domain) -> bytes:
        """Sign a report or a kickout; the same bytes every time."""
        digest = statement.digest(domain)
        raw = self._sign(bytes.fromhex(digest[2:]))
        return checked_statement(raw, digest, self.address)

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign a transaction of type 2; the same bytes every time."""
        signature = EcdsaSignature.of(self._sign(keccak(unsigned(transaction))))
        return assembled(transaction, signature, self.address)

    def _sign(self, digest: bytes) -> bytes:
        return bytes(self.__account.unsafe_sign_hash(Hash32(digest)).signature)


class SignatureWantedError(Exception):
    """A dry run has come to what the real one would sign; its text says what that is."""


@dataclass(frozen=True, slots=True)
class ReadOnlySigner:
    """Satisfies `Signer`: the account of another key, without the key."""

    address: Address

    def sign_statement(self, statement: Statement, domain: Domain) -> NoReturn:
        """Raise SignatureWantedError."""
        what = "report" if isinstance(statement, ReportStatement) else "proposal of a kickout"
        raise SignatureWantedError(
            f"the {what} in round {statement.round} would be signed for {domain.contract}"
        )

    def sign_transaction(self, transaction: TransactionRequest) -> NoReturn:
        """Raise SignatureWantedError."""
        raise SignatureWantedError(
            f"a transaction with nonce {transaction.nonce} would be signed, up to "
            f"{transaction.fees.max_fee} wei for each gas"
        )
