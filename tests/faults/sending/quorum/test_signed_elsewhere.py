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
from tests.support.office import ETHER, SETTINGS, Office, Premises, key_files, sending_jobs_of


@pytest.fixture
def thief(premises: Premises, tmp_path: Path) -> Iterator[Office]:
    """Yield an office with our signer's key and its own payer."""
    payer = KeySigner.open(*key_files(tmp_path, "payer"))
    premises.chain.rpc("anvil_setBalance", payer.address, hex(ETHER))
    his = replace(premises, keys=ReporterKeys(premises.keys.signer, payer))
    with Store.open(f"sqlite:///{tmp_path}/elsewhere.sqlite", create=True) as store:
        opened = Office(his, store, tmp_path / "elsewhere")
        yield opened
        opened.close()


def log_foreign_signatures(office: Office) -> list[dict[str, object]]:
    """Run the check for foreign signatures at the head, and return its log lines."""
    office.index()
    with capture_logs() as logs:
        office.repeat(check_for_foreign_signatures)
    return [dict(line) for line in logs if line["event"] == "unknown_signature_on_chain"]


def read_unknown_signatures() -> float:
    return REGISTRY.get_sample_value("oracle_quorum_unknown_signatures_total") or 0


def statements(office: Office) -> int:
    """Return the number of report statements in this database."""
    contract = office.premises.address
    with office.store.read_transaction() as uow:
        rounds = range(office.premises.round + 2)
        return sum(len(uow.statements.list_for_round(contract, n)) for n in rounds)


def test_report_signed_elsewhere_with_own_key_is_logged_once_and_starts_embargo(
    office: Office, thief: Office
):
    assert log_foreign_signatures(office) == []
    before = read_unknown_signatures()
    thief.pushed()
    (line,) = log_foreign_signatures(office)
    assert (line["round"], line["signer"]) == (1, office.context.sender_account.signer.address)
    assert "setSigners" in str(line["act"])
    assert read_unknown_signatures() == before + 1

    # Across a restart too, until the foreign statement can no longer land.
    office.restart()
    embargoed_until = int(str(line["embargoed_until"]))
    for _ in range(30):
        office.period()
        office.tick()
        if statements(office):
            break
        assert log_foreign_signatures(office) == []
    assert statements(office) == 1
    assert office.premises.chain.time > embargoed_until


def test_daemon_checks_for_foreign_signatures_before_signing(sqlite_office: Office, thief: Office):
    office = sqlite_office
    office.index()
    jobs = sending_jobs_of(office)
    assert jobs.advance_reports() is None
    thief.pushed()
    office.period()
    office.index()
    step = jobs.advance_reports()
    assert step is not None
    assert step["did"] == "signs nothing"
    jobs.advance_reports()
    assert statements(office) == 0


def test_own_reports_are_recognised_after_restart(sqlite_office: Office):
    office = sqlite_office
    assert log_foreign_signatures(office) == []
    for _ in range(2):
        office.pushed()
        assert log_foreign_signatures(office) == []
    office.restart()
    office.pushed()
    assert log_foreign_signatures(office) == []


def test_reports_signed_before_initial_sync_are_not_logged(sqlite_office: Office, thief: Office):
    thief.pushed()
    assert log_foreign_signatures(sqlite_office) == []
    thief.pushed()
    assert [line["round"] for line in log_foreign_signatures(sqlite_office)] == [2]


def test_reports_signed_elsewhere_are_not_logged_while_rebuilt_key_is_under_embargo(
    sqlite_office: Office, thief: Office
):
    office = sqlite_office
    assert log_foreign_signatures(office) == []
    domain, signer = (
        office.context.sender_account.domain,
        office.context.sender_account.signer.address,
    )
    until = office.premises.chain.time + SETTINGS.ttl_seconds
    with office.context.write_transaction() as uow:
        uow.statements.set_embargo(
            domain.chain_id, domain.contract, signer, until, office.context.stamp
        )
    thief.pushed()
    assert log_foreign_signatures(office) == []
    with office.store.read_transaction() as uow:
        quiet = uow.statements.get_embargo_end(domain.chain_id, domain.contract, signer)
    assert quiet is not None
    assert quiet > until
