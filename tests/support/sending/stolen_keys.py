"""What a thief with the transmitter's key can do: a second wallet signs with the same key."""

from oracle.domain.ids import Address
from oracle.signing.signer import Fees, Signer, TransactionRequest
from oracle.txmgr.client.fee_quote import PLAIN_GAS
from tests.support.harness import CHAIN_ID, Harness
from tests.support.sending.in_flight import GWEI


def sign_stolen_payment(signer: Signer, nonce: int, to: Address, fee: int) -> str:
    """Return a payment of nothing that this key signed, as 0x-prefixed bytes."""
    fees = Fees(fee, fee // 2)
    signed = signer.sign_transaction(
        TransactionRequest(CHAIN_ID, nonce, to, "0x", PLAIN_GAS, fees)
    )
    return "0x" + signed.raw.hex()


def send_foreign_transaction(harness: Harness, fee: int) -> str:
    """Use the transmitter's next nonce from the second wallet; return the hash."""
    testbed = harness.testbed
    assert testbed.keys.transmitter is not None
    raw = sign_stolen_payment(testbed.keys.transmitter, testbed.nonce, get_payee(harness), fee)
    return str(testbed.chain.rpc("eth_sendRawTransaction", raw))


def get_payee(harness: Harness) -> Address:
    """Return the address that the second wallet pays."""
    return Address(harness.testbed.network.admin.lower())


def use_nonce_elsewhere(harness: Harness) -> None:
    """Send a transaction of the transmitter from the second wallet, and mine this transaction."""
    send_foreign_transaction(harness, 50 * GWEI)
    harness.mine()
