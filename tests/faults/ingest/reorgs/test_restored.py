"""A database that is older than the transactions sent from it, on a real chain."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.domain.ids import Address
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.signing.local import KeySigner
from oracle.store.database import Store
from tests.integration.evm.test_kicking import accuse_node_two, kinds, pass_veto_delay, standing
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Standing
from tests.support.office import ETHER, Office, Premises, key_files
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises", "sqlite_office"]

pytestmark = pytest.mark.evm


def test_case_62_restored_backup_recognises_sent_kickout_and_does_not_repeat_it(
    sqlite_office: Office, premises: Premises, tmp_path: Path
):
    office, backup = sqlite_office, tmp_path / "backup.sqlite"
    accuse_node_two(office)
    with (
        closing(sqlite3.connect(tmp_path / "oracle.sqlite")) as database,
        closing(sqlite3.connect(backup)) as copy,
    ):
        database.backup(copy)
    pass_veto_delay(office)
    office.tick()
    office.mine()
    office.until_final()
    assert standing(office) is Standing.KICKED_OUT
    sent = premises.nonce

    with Store.open(f"sqlite:///{backup}") as yesterdays:
        with pytest.raises(InputError, match="it is an old copy"):
            office.restart(store=yesterdays)
        assert premises.nonce == sent
        # As the message advises: with another key, no transaction on chain can be mistaken for
        # unsent.
        office.restart(premises=with_another_transmitter(premises, tmp_path))
        before = kinds(office)
        office.until_final()
        office.pushed()
        office.until_final()

        node = Address(premises.network.nodes[2].lower())
        with yesterdays.read_transaction() as uow:
            assert uow.nodes.get_many([node])[node].membership is Membership.KICKED_OUT
            assert uow.rounds.list_accused() == []
        assert set(kinds(office)[len(before) :]) == {"push"}
        office.close()


def with_another_transmitter(premises: Premises, folder: Path) -> Premises:
    transmitter = KeySigner.open(*key_files(folder, "other"))
    premises.chain.rpc("anvil_setBalance", transmitter.address, hex(ETHER))
    return replace(premises, keys=replace(premises.keys, transmitter=transmitter))
