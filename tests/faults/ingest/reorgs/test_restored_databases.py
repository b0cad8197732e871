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
from tests.integration.evm.test_kickout_on_chain import (
    accuse_node_two,
    kinds,
    pass_veto_delay,
    standing,
)
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Standing
from tests.support.harness import ETHER, Harness, OracleTestbed, create_key_files
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "sqlite_harness", "testbed"]

pytestmark = pytest.mark.evm


def test_case_62_restored_backup_does_not_resend_a_kickout(
    sqlite_harness: Harness, testbed: OracleTestbed, tmp_path: Path
):
    harness = sqlite_harness
    backup = tmp_path / "backup.sqlite"
    accuse_node_two(harness)
    with (
        closing(sqlite3.connect(tmp_path / "oracle.sqlite")) as database,
        closing(sqlite3.connect(backup)) as copy,
    ):
        database.backup(copy)
    pass_veto_delay(harness)
    harness.tick()
    harness.mine()
    harness.until_final()
    assert standing(harness) is Standing.KICKED_OUT
    sent = testbed.nonce

    with Store.open(f"sqlite:///{backup}") as yesterdays:
        with pytest.raises(InputError, match="it is an old copy"):
            harness.restart(store=yesterdays)
        assert testbed.nonce == sent
        # As the message advises: with another key, no transaction on chain can be mistaken for
        # unsent.
        harness.restart(testbed=with_another_transmitter(testbed, tmp_path))
        before = kinds(harness)
        harness.until_final()
        harness.pushed()
        harness.until_final()

        node = Address(testbed.network.nodes[2].lower())
        with yesterdays.read_transaction() as uow:
            assert uow.nodes.get_many([node])[node].membership is Membership.KICKED_OUT
            assert uow.rounds.list_accusations() == []
        assert set(kinds(harness)[len(before) :]) == {"push"}
        harness.close()


def with_another_transmitter(testbed: OracleTestbed, folder: Path) -> OracleTestbed:
    transmitter = KeySigner.open(*create_key_files(folder, "other"))
    testbed.chain.rpc("anvil_setBalance", transmitter.address, hex(ETHER))
    return replace(testbed, keys=replace(testbed.keys, transmitter=transmitter))
