"""Interface of signing keys, for statements (role signer) and transactions (role transmitter)."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError, TransientError
from oracle.signing.typed_data import Domain, SignableStatement


class SignerRefusedError(TransientError):
    """The signer refused the request by policy, or because it does not know the key or caller.

    A retry helps only after an operator has changed the signer's configuration.
    """


class WrongSignatureError(FatalError):
    """The signer returned a wrong signature, which is discarded; the signer is not trusted."""


class Fees(NamedTuple):
    """The maximum fee per gas, and the priority fee included in it, both in wei."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A transaction to sign, with the value 0; `to` is None for a deployment."""

    chain_id: int
    nonce: int
    to: Address | None
    calldata: str
    gas_limit: int
    fees: Fees


@dataclass(frozen=True, slots=True)
class SignedBytes:
    """The bytes of a signed transaction for `eth_sendRawTransaction`, and its hash."""

    raw: bytes
    hash: Hash


class Signer(Protocol):
    """Signer of one account; the key may be in a file, in a KMS or on another host.

    An implementation verifies each result before it returns the result: it recovers the address
    from the locally computed digest, requires a low s, and compares every field of a transaction
    (`signing.signature_checks`). An implementation never retries. If a response is lost, it raises
    a `TransientError`, although the signer may have signed. Call a signer outside database
    transactions, because it may take seconds. See
    docs/explanation/reports.md#off-chain-signatures.
    """

    @property
    def address(self) -> Address:
        """Return the key's address, in lower case."""

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        """Sign a report or an answer (EIP-712), and return 65 bytes: r, s and v (27 or 28).

        Raises:
            TransientError: the signer did not respond; the statement may have been signed.
            SignerRefusedError: the signer responded and refused.
            WrongSignatureError: the result is not this account's signature of this statement.
        """

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign a type 2 transaction.

        Raises:
            TransientError: the signer did not respond; the transaction may have been signed.
            SignerRefusedError: the signer responded and refused.
            WrongSignatureError: the result is another transaction, or is signed by another
                account.
        """
