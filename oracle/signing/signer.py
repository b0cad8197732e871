"""What a key is asked for, wherever it lies: statements (signer) or transactions (transmitter)."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError, TransientError
from oracle.signing.typed_data import Domain, KickStatement, ReportStatement

Statement: TypeAlias = ReportStatement | KickStatement


class SignerRefusedError(TransientError):
    """The key's guard said no: by its policy, or because it does not know the key or us.

    Asking again helps only after a person has changed something there.
    """


class WrongSignatureError(FatalError):
    """What came back was not what was asked for: it is thrown away, and the signer not trusted."""


class Fees(NamedTuple):
    """The most we pay for a unit of gas, and what of it goes to whoever builds the block; wei."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A transaction to be signed; `to` None deploys. Value is always 0."""

    chain_id: int
    nonce: int
    to: Address | None
    calldata: str
    gas_limit: int
    fees: Fees


@dataclass(frozen=True, slots=True)
class SignedBytes:
    """What goes to `eth_sendRawTransaction`, and the hash it is known by."""

    raw: bytes
    hash: Hash


class Signer(Protocol):
    """One account. Its key may lie in a file, a KMS or another host.

    Whoever implements it checks what comes back before it hands it on: the address recovered from
    our own digest, low-s, and every field of a decoded transaction (`signers.checking`). It never
    asks twice: a lost answer is a `TransientError`, and never means that nothing was signed.
    Ask it outside of database transactions: it may take seconds.
    See docs/explanation/reports.md#off-chain-signatures.
    """

    @property
    def address(self) -> Address:
        """Whose key it is, in lower case."""

    def sign_statement(self, statement: Statement, domain: Domain) -> bytes:
        """Sign a report or a kickout (EIP-712): r, s, v (27 or 28), 65 bytes.

        Raises:
            TransientError: the key cannot be reached now; what was asked may have been signed.
            SignerRefusedError: it was, and said no.
            WrongSignatureError: what came back is not this account's signature of this statement.
        """

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Sign a transaction of type 2.

        Raises:
            TransientError: the key cannot be reached now; what was asked may have been signed.
            SignerRefusedError: it was, and said no.
            WrongSignatureError: what came back is another transaction or somebody else's.
        """
