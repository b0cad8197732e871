"""What somebody does who has the transmitter's key: a second wallet that signs with it."""

from oracle.domain.ids import Address
from oracle.signing.signer import Fees, Signer, TransactionRequest
from oracle.txmgr.client.fee_quote import PLAIN_GAS
from tests.support.office import CHAIN_ID, Office
from tests.support.sending.in_flight import GWEI


def stolen_payment(signer: Signer, nonce: int, to: Address, fee: int) -> str:
    """A payment of nothing that this key signed; its bytes, 0x-prefixed."""
    fees = Fees(fee, fee // 2)
    signed = signer.sign_transaction(
        TransactionRequest(CHAIN_ID, nonce, to, "0x", PLAIN_GAS, fees)
    )
    return "0x" + signed.raw.hex()


def foreign_transaction(office: Office, fee: int) -> str:
    """The second wallet uses the transmitter's next nonce; the hash."""
    premises = office.premises
    assert premises.keys.transmitter is not None
    raw = stolen_payment(premises.keys.transmitter, premises.nonce, target(office), fee)
    return str(premises.chain.rpc("eth_sendRawTransaction", raw))


def target(office: Office) -> Address:
    """Whom the second wallet pays."""
    return Address(office.premises.network.admin.lower())


def used_elsewhere(office: Office) -> None:
    """Somebody else sends from the transmitter's account, and a block has it."""
    foreign_transaction(office, 50 * GWEI)
    office.mine()
