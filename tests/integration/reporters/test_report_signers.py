"""`report signers` beside real reporters: one that is silent, and one that signs another root."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import Settings, write_config
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.harness import OracleTestbed
from tests.support.sending.reporters import Reporter, ReporterGroup, run_reporter_group
from tests.support.txmgr.harness_fixtures import fresh_testbed, testbed
from tests.support.txmgr.stores import NewStore, new_sqlite_store

__all__ = ["chain", "fresh_chain", "fresh_testbed", "new_sqlite_store", "testbed"]


@pytest.fixture
def three(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[ReporterGroup]:
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        new_sqlite_store() as third_store,
        run_reporter_group(testbed, [first_store, second_store, third_store], tmp_path) as opened,
    ):
        yield opened


def compare_signers(
    reporter_group: ReporterGroup,
    reporter: Reporter,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *peers: str,
) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the answer of the command at this reporter, for round 1."""
    settings: Settings = {
        "database": {"url": f"sqlite:///{reporter.harness.store._url.database}"},
        "chain": {
            "id": reporter_group.chain.web3.eth.chain_id,
            "endpoints": [reporter_group.chain.url],
        },
        "network": {"contracts": {"TaskNetwork": reporter_group.testbed.network.contract.address}},
        "oracle": {"address": reporter_group.testbed.address},
        "reporters": {"peers": list(peers)},
    }
    config = write_config(settings, folder / "config.toml")
    capsys.readouterr()
    code = run(["report", "signers", "--round", "1", "--config", str(config), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_silent_reporter_and_missing_signature_are_reported(
    three: ReporterGroup, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    second, third = three.others
    third.is_down = True
    three.period()
    three.tick()
    code, answer = compare_signers(
        three, three.first, tmp_path, capsys, second.url, third.url, "http://127.0.0.1:9"
    )
    assert code == 0
    assert (answer["round"], answer["agreeing"], answer["quorum"]) == (1, 2, 2)
    state_by_reporter = {entry["reporter"]: entry["state"] for entry in answer["signatures"]}
    assert state_by_reporter == {
        "this reporter": "agrees",
        second.url.rstrip("/"): "agrees",
        third.url.rstrip("/"): "not signed",
        "http://127.0.0.1:9": "no response",
        "": "not signed",
    }
    (missing_signer,) = (
        entry["signer"] for entry in answer["signatures"] if entry["reporter"] == ""
    )
    assert missing_signer == third.signer


def test_report_signers_command_fails_if_a_reporter_has_another_root(
    three: ReporterGroup, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    second, third = three.others
    three.period()
    third.lie()
    three.tick()
    code, answer = compare_signers(three, second, tmp_path, capsys, three.first.url, third.url)
    assert code == 1
    differing = [entry for entry in answer["signatures"] if entry["state"] == "differs"]
    assert [entry["signer"] for entry in differing] == [third.signer]
    agreed_roots = {e["root"] for e in answer["signatures"] if e["state"] == "agrees"}
    assert len(agreed_roots) == 1
    assert differing[0]["root"] not in agreed_roots
    assert answer["agreeing"] == 2
