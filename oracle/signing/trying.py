"""What a key is tried with: a statement and a transaction that no contract would ever take.

Both are well-formed, so that a signer's policy lets them pass: should they leak, they are void.
"""

from oracle.domain.ids import ZERO_HASH, Address
from oracle.signing.signer import SignedBytes, Signer, TransactionRequest
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.txmgr.client.fee_quote import Fees

# Round 0 never comes (the first is 1), and its deadline was over in 1970.
VOID_STATEMENT = ReportStatement(0, 0, ZERO_HASH, ZERO_HASH, 0, ZERO_HASH, 0, b"")
# The highest nonce but one: no account has ever sent so many, nor will (EIP-2681).
_VOID_NONCE = 2**64 - 2
# Far below the cost of any call.
_VOID_GAS = 21_000
_VOID_FEES = Fees(1, 0)


def try_statement(signer: Signer, domain: Domain) -> bytes:
    """Have the void statement signed; whose signature it is was checked. Raises as the signer."""
    return signer.sign_statement(VOID_STATEMENT, domain)


def try_transaction(signer: Signer, chain_id: int, to: Address, calldata: str) -> SignedBytes:
    """Have a void call signed, whose every field was compared. Raises as the signer."""
    return signer.sign_transaction(
        TransactionRequest(chain_id, _VOID_NONCE, to, calldata, _VOID_GAS, _VOID_FEES)
    )
