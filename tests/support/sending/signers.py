"""Other signers of the contract: their keys, their place in it, and what they tell us."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eth_utils.address import to_checksum_address

from oracle.quorum.statements import statement_of
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from tests.support.office import Office, key_files


def strangers(office: Office, count: int) -> list[Signer]:
    """Keys of other reporters."""
    folder = office.premises.key_folder / "strangers"
    folder.mkdir(exist_ok=True)
    known = len(list(folder.iterdir()))
    return [KeySigner.open(*key_files(folder, f"{known + place}")) for place in range(count)]


def set_signers(office: Office, *signers: Signer, needed: int) -> None:
    """The admin names these, in a block of its own."""
    premises = office.premises
    # Whatever blocks cost before.
    premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
    premises.chain.send(replacing(office, signers, needed), sender=premises.network.admin)


def replacing(office: Office, signers: Sequence[Signer], needed: int) -> Any:
    """The call that names these."""
    named = [to_checksum_address(one.address) for one in signers]
    return office.premises.oracle.functions.setSigners(named, needed)


def told_by(office: Office, signer: Signer) -> None:
    """Another reporter signed the same statement, and we heard of it."""
    contract = office.premises.address
    with office.store.reading() as uow:
        (ours,) = uow.statements.of_round(contract, "report", 1)
        stored = next(one for one in uow.reports.latest(10) if one.digest == ours.digest)
    statement = statement_of(stored.report, office.contract.contract_status())
    signature = signer.sign_statement(statement, office.context.publisher.domain)
    said = replace(ours, signer=signer.address, signature=signature)
    with office.context.writing() as uow:
        uow.peer_statements.add(said, "a test", office.context.stamp)
