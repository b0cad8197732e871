"""What somebody does who has the transmitter's key."""

from tests.office import Office
from tests.sending.at_sea import GWEI


def foreign_transaction(office: Office, fee: int) -> str:
    """Somebody else has the transmitter's key, and uses its next nonce; the hash."""
    chain, sender = office.premises.chain, office.premises.transmitter
    chain.rpc("anvil_impersonateAccount", sender)
    call = {
        "from": sender,
        "to": office.premises.network.admin,
        "nonce": hex(office.premises.nonce),
        "gas": hex(21_000),
        "maxFeePerGas": hex(fee),
        "maxPriorityFeePerGas": hex(fee // 2),
    }
    return str(chain.rpc("eth_sendTransaction", call))


def used_elsewhere(office: Office) -> None:
    """Somebody else sends from the transmitter's account, and a block has it."""
    foreign_transaction(office, 50 * GWEI)
    office.mine()
