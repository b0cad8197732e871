"""`examples/object_to_kickout.py` signs an objection on a real chain, which then counts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from eth_account import Account

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.indexer.event_archive import EventArchive
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource
from tests.integration.evm.test_objections import Hearing, hearing
from tests.support.cli.local_network import Settings, write_config
from tests.support.evm.fixtures import chain
from tests.support.harness import CHAIN_ID, RULES
from tests.support.txmgr.harness_fixtures import fresh_chain, fresh_testbed, testbed
from tests.support.txmgr.stores import new_sqlite_store

__all__ = ["chain", "fresh_chain", "fresh_testbed", "hearing", "new_sqlite_store", "testbed"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
# The keys of Anvil's accounts are those of this mnemonic.
MNEMONIC = "test test test test test test test test test test test junk"
PASSWORD = "no secret"  # noqa: S105 - of a key that everybody knows


def test_contract_accepts_an_objection_signed_by_the_example(hearing: Hearing, tmp_path: Path):
    harness, testbed = hearing.harness, hearing.testbed
    archive = EventArchive(harness.store, harness._reader, RULES)
    rankings = NodeRankingCache(RULES)
    source = ApiSource(archive, rankings, lambda: None, lambda: 0, lambda _held: None, rules_id="")
    section = ApiSection()
    with serve_app(create_read_api(source, streams=section), section, 0) as url:
        refused = run_example(url, hearing, tmp_path)
        signed = run_example(url, hearing, tmp_path, "--reason", "outage", "--text", "no power")
    assert "incidents explain 0 of" in refused.stderr
    # This server does not accept objections.
    assert "not posted: 405" in signed.stderr
    call = json.loads(signed.stdout)
    testbed.chain.transact(to=hearing.contract.address, data=call["calldata"])
    (objection,) = hearing.listed()
    assert (objection.text, objection.due_since) == ("no power", hearing.due_since)


def run_example(
    url: str, hearing: Hearing, folder: Path, *options: str
) -> "subprocess.CompletedProcess[str]":
    testbed = hearing.testbed
    settings: Settings = {
        "database": {"url": f"sqlite:///{folder / 'unused.sqlite'}"},
        "chain": {"id": CHAIN_ID, "endpoints": [testbed.chain.url]},
        "network": {"contracts": {"TaskNetwork": testbed.network.contract.address}},
        "oracle": {"address": testbed.address},
        "objections": {"address": hearing.contract.address},
    }
    Account.enable_unaudited_hdwallet_features()
    index = testbed.chain.accounts.index(hearing.node)
    key = Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}").key
    files = {
        "node.json": json.dumps(Account.encrypt(key, PASSWORD, kdf="pbkdf2", iterations=1000)),
        "node.txt": PASSWORD,
    }
    for name, text in files.items():
        (folder / name).touch(0o600)
        (folder / name).write_text(text, "utf-8")
    key_options = ["--keystore", str(folder / "node.json")]
    key_options += ["--password-file", str(folder / "node.txt")]
    return subprocess.run(
        [
            *(sys.executable, str(ROOT / "examples" / "object_to_kickout.py"), url, hearing.node),
            *(
                "--config",
                str(write_config(settings, folder / "config.toml")),
                *key_options,
                *options,
            ),
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "clients" / "python"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
