"""A daemon that has stopped: its database, its chain, and the configuration of its commands."""

import json
import shutil

import pytest

from oracle.cli.main import run
from oracle.store.database import Store
from oracle.txmgr.confirmer import confirm_transactions
from tests.integration.evm.test_kickout_on_chain import (
    fill_bad_pool,
    node_two,
    run_until_due_is_stated,
)
from tests.support import harness as harness_support
from tests.support.cli.local_network import write_config
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import run_faulty_endpoint
from tests.support.harness import CHAIN_ID, FINALITY, SETTINGS, Harness
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = [
    "chain",
    "config",
    "endpoint",
    "fallen",
    "fresh_chain",
    "fresh_testbed",
    "harness",
    "send_vetoer_call",
    "sqlite_harness",
    "sqlite_url",
    "testbed",
]


@pytest.fixture(scope="module")
def fallen(fresh_testbed, sqlite_template, tmp_path_factory):
    """A database, and a chain, whose last round states that node 2 is due; nobody accused it."""
    folder = tmp_path_factory.mktemp("fallen")
    database = folder / "oracle.sqlite"
    shutil.copyfile(sqlite_template, database)
    with Store.open(f"sqlite:///{database}") as store:
        played = Harness(fresh_testbed, store, folder / "evidence")
        fill_bad_pool(played)
        run_until_due_is_stated(played)
        played.repeat(confirm_transactions)
        with store.transaction() as uow:
            uow.lease.release(played.epoch)
        played.close()
    return database


@pytest.fixture
def sqlite_url(fallen, tmp_path):
    """Return a copy of the database for each test; the test's changes of the chain are undone."""
    return f"sqlite:///{shutil.copyfile(fallen, tmp_path / 'oracle.sqlite')}"


@pytest.fixture
def harness(sqlite_harness):
    """Return the harness of a daemon that has stopped."""
    with sqlite_harness.store.transaction() as uow:
        uow.lease.release(sqlite_harness.epoch)
    return sqlite_harness


@pytest.fixture
def endpoint(harness):
    with run_faulty_endpoint(harness.testbed.chain.url) as watched:
        yield watched


@pytest.fixture
def config(harness, endpoint, sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "oracle.daemon.config.loader.build_rules", lambda *_: harness_support.RULES
    )
    keys = harness.testbed.key_folder
    settings = {
        "database": {"url": sqlite_url},
        "chain": {"id": CHAIN_ID, "endpoints": [endpoint.url], "finality_depth": FINALITY},
        "network": {"contracts": {"TaskNetwork": harness.testbed.network.contract.address}},
        "oracle": {
            "address": harness.testbed.address,
            "heartbeat_seconds": SETTINGS.heartbeat_seconds,
            "evidence_folder": str(tmp_path / "by-hand"),
        },
        "keys": {
            f"{role}_{part}": str(keys / f"{role}.{ending}")
            for role in ("signer", "transmitter")
            for part, ending in (("keystore", "json"), ("password_file", "password"))
        },
    }
    return str(write_config(settings, tmp_path / "config.toml"))


def send_vetoer_call(harness, capsys, command):
    """Send the call that a command prints for the vetoer."""
    assert run([*command, "--json"]) == 0
    call = json.loads(capsys.readouterr().out)
    assert (call["node"], call["to"]) == (node_two(harness), harness.testbed.address)
    harness.testbed.chain.transact(to=call["to"], data=call["calldata"], sender=call["vetoer"])
    harness.index()
