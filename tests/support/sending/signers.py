"""Other signers of the contract: their keys, their place in it, and what they tell us."""

from collections.abc import Sequence
from typing import Any

from eth_utils.address import to_checksum_address

from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from tests.support.office import Office, key_files


def strangers(office: Office, count: int) -> list[Signer]:
    """Keys of other reporters."""
    folder = office.premises.key_folder / "strangers"
    folder.mkdir(exist_ok=True)
    existing_count = len(list(folder.iterdir()))
    return [
        KeySigner.open(*key_files(folder, f"{existing_count + place}")) for place in range(count)
    ]


def set_signers(office: Office, *signers: Signer, needed: int) -> None:
    """The admin names these, in a block of its own."""
    premises = office.premises
    # Whatever blocks cost before.
    premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
    premises.chain.send(replacing(office, signers, needed), sender=premises.network.admin)


def replacing(office: Office, signers: Sequence[Signer], needed: int) -> Any:
    """The call that names these."""
    named = [to_checksum_address(signer.address) for signer in signers]
    return office.premises.oracle.functions.setSigners(named, needed)
