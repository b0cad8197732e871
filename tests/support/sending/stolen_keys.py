"""What a thief with the transmitter's key can do: a second wallet signs with the same key."""

from oracle.domain.ids import Address
from oracle.signing.signer import Fees, Signer, TransactionRequest
from oracle.txmgr.client.fee_quote import PLAIN_GAS
from tests.support.office import CHAIN_ID, Office
from tests.support.sending.in_flight import GWEI


def sign_stolen_payment(signer: Signer, nonce: int, to: Address, fee: int) -> str:
    """Return a payment of nothing that this key signed, as 0x-prefixed bytes."""
    fees = Fees(fee, fee // 2)
    signed = signer.sign_transaction(
        TransactionRequest(CHAIN_ID, nonce, to, "0x", PLAIN_GAS, fees)
    )
    return "0x" + signed.raw.hex()


def send_foreign_transaction(office: Office, fee: int) -> str:
    """Use the transmitter's next nonce from the second wallet; return the hash."""
    premises = office.premises
    assert premises.keys.transmitter is not None
    raw = sign_stolen_payment(premises.keys.transmitter, premises.nonce, get_payee(office), fee)
    return str(premises.chain.rpc("eth_sendRawTransaction", raw))


def get_payee(office: Office) -> Address:
    """Return the address that the second wallet pays."""
    return Address(office.premises.network.admin.lower())


def use_nonce_elsewhere(office: Office) -> None:
    """Send from the transmitter's account elsewhere, and mine the transaction."""
    send_foreign_transaction(office, 50 * GWEI)
    office.mine()
