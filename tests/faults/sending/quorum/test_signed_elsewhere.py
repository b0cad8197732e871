"""Our key signed elsewhere: the daemon reports it, and signs nothing else for a while."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from oracle.quorum.key_watch import check_for_foreign_signatures
from oracle.signing.local import KeySigner
from oracle.store.database import Store
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.harness import (
    ETHER,
    SETTINGS,
    Harness,
    OracleTestbed,
    create_key_files,
    create_sending_jobs,
)


@pytest.fixture
def thief_harness(testbed: OracleTestbed, tmp_path: Path) -> Iterator[Harness]:
    """Yield a harness with our signer's key and its own payer."""
    payer = KeySigner.open(*create_key_files(tmp_path, "payer"))
    testbed.chain.rpc("anvil_setBalance", payer.address, hex(ETHER))
    his = replace(testbed, keys=ReporterKeys(testbed.keys.signer, payer))
    with Store.open(f"sqlite:///{tmp_path}/elsewhere.sqlite", create=True) as store:
        opened = Harness(his, store, tmp_path / "elsewhere")
        yield opened
        opened.close()


def log_foreign_signatures(harness: Harness) -> list[dict[str, object]]:
    """Run the check for foreign signatures at the head, and return its log lines."""
    harness.index()
    with capture_logs() as logs:
        harness.repeat(check_for_foreign_signatures)
    return [dict(line) for line in logs if line["event"] == "unknown_signature_on_chain"]


def read_unknown_signatures() -> float:
    return REGISTRY.get_sample_value("oracle_quorum_unknown_signatures_total") or 0


def count_statements(harness: Harness) -> int:
    """Return the number of report statements in this database."""
    contract = harness.testbed.address
    with harness.store.read_transaction() as uow:
        rounds = range(harness.testbed.round + 2)
        return sum(len(uow.statements.list_for_round(contract, n)) for n in rounds)


def test_report_signed_elsewhere_starts_a_signing_embargo(
    harness: Harness, thief_harness: Harness
):
    assert log_foreign_signatures(harness) == []
    before = read_unknown_signatures()
    thief_harness.pushed()
    (line,) = log_foreign_signatures(harness)
    assert (line["round"], line["signer"]) == (1, harness.context.sender_account.signer.address)
    assert "setSigners" in str(line["act"])
    assert read_unknown_signatures() == before + 1

    # Across a restart too, until the foreign statement can no longer land.
    harness.restart()
    embargoed_until = int(str(line["embargoed_until"]))
    for _ in range(30):
        harness.period()
        harness.tick()
        if count_statements(harness):
            break
        assert log_foreign_signatures(harness) == []
    assert count_statements(harness) == 1
    assert harness.testbed.chain.time > embargoed_until


def test_daemon_checks_for_foreign_signatures_before_signing(
    sqlite_harness: Harness, thief_harness: Harness
):
    harness = sqlite_harness
    harness.index()
    jobs = create_sending_jobs(harness)
    assert jobs.advance_reports() is None
    thief_harness.pushed()
    harness.period()
    harness.index()
    step = jobs.advance_reports()
    assert step is not None
    assert step["did"] == "signs nothing"
    jobs.advance_reports()
    assert count_statements(harness) == 0


def test_own_reports_are_recognised_after_a_restart(sqlite_harness: Harness):
    harness = sqlite_harness
    assert log_foreign_signatures(harness) == []
    for _ in range(2):
        harness.pushed()
        assert log_foreign_signatures(harness) == []
    harness.restart()
    harness.pushed()
    assert log_foreign_signatures(harness) == []


def test_reports_signed_before_the_initial_sync_are_not_logged(
    sqlite_harness: Harness, thief_harness: Harness
):
    thief_harness.pushed()
    assert log_foreign_signatures(sqlite_harness) == []
    thief_harness.pushed()
    assert [line["round"] for line in log_foreign_signatures(sqlite_harness)] == [2]


def test_reports_signed_elsewhere_are_not_logged_during_an_embargo(
    sqlite_harness: Harness, thief_harness: Harness
):
    harness = sqlite_harness
    assert log_foreign_signatures(harness) == []
    domain = harness.context.sender_account.domain
    signer = harness.context.sender_account.signer.address
    until = harness.testbed.chain.time + SETTINGS.ttl_seconds
    with harness.context.write_transaction() as uow:
        uow.statements.extend_embargo(
            domain.chain_id, domain.contract, signer, until, harness.context.stamp
        )
    thief_harness.pushed()
    assert log_foreign_signatures(harness) == []
    with harness.store.read_transaction() as uow:
        quiet = uow.statements.find_embargo_end(domain.chain_id, domain.contract, signer)
    assert quiet is not None
    assert quiet > until
