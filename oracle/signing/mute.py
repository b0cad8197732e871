"""A key that is asked for nothing: it says whose it is, and stops whoever wants a signature."""

from dataclasses import dataclass
from typing import NoReturn

from oracle.domain.ids import Address
from oracle.signing.signer import Statement, TransactionRequest
from oracle.signing.typed_data import Domain, ReportStatement


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
