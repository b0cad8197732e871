"""Our key signs what we did not: somebody is told, and nothing is signed beside it for a while."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from oracle.entrypoints.steps import Work
from oracle.entrypoints.watch import Watch
from oracle.publisher.publisher import Keys
from oracle.publisher.signers.local import KeySigner
from oracle.scheduler import Beats
from oracle.services.signing_elsewhere import watch_key
from oracle.store.store import Store
from oracle.telemetry.metrics import REGISTRY
from tests.office import ETHER, SETTINGS, Office, Premises, key_files


@pytest.fixture
def thief(premises: Premises, tmp_path: Path) -> Iterator[Office]:
    """Somebody who has the key of our statements, and pays from his own account."""
    payer = KeySigner.open(*key_files(tmp_path, "payer"))
    premises.chain.rpc("anvil_setBalance", payer.address, hex(ETHER))
    his = replace(premises, keys=Keys(premises.keys.signer, payer))
    with Store.open(f"sqlite:///{tmp_path}/elsewhere.sqlite", create=True) as store:
        opened = Office(his, store, tmp_path / "elsewhere")
        yield opened
        opened.close()


def watched(office: Office) -> list[dict[str, object]]:
    """What the log says of a look at the head."""
    office.index()
    with capture_logs() as logs:
        office.repeat(watch_key)
    return [dict(line) for line in logs if line["event"] == "signed_elsewhere"]


def counted() -> float:
    return REGISTRY.get_sample_value("oracle_publisher_signed_elsewhere_total") or 0


def statements(office: Office) -> int:
    """How many statements this database's signer has put its name to."""
    contract = office.premises.address
    with office.store.reading() as unit:
        rounds = range(office.premises.round + 2)
        return sum(len(unit.outbox.signatures.of_round(contract, "report", n)) for n in rounds)


def test_a_round_that_our_key_signed_elsewhere_is_told_once_and_we_sign_nothing_beside_it(
    office: Office, thief: Office
):
    assert watched(office) == []
    before = counted()
    thief.pushed()
    (line,) = watched(office)
    assert (line["round"], line["signer"]) == (1, office.desk.publisher.signer.address)
    assert "setSigners" in str(line["act"])
    assert counted() == before + 1

    # Across a restart too, until what was signed elsewhere can land no more.
    office.restart()
    quiet_until = int(str(line["quiet_until"]))
    for _ in range(30):
        office.period()
        office.tick()
        if statements(office):
            break
        assert watched(office) == []
    assert statements(office) == 1
    assert office.premises.chain.time > quiet_until


def test_the_daemon_looks_before_it_signs(sqlite_office: Office, thief: Office):
    office = sqlite_office
    no_app: Any = None
    watch = Watch(Beats(time.monotonic))
    office.index()
    work = Work(no_app, office.epoch, watch, office.desk, pace=office.pace)
    assert work.publish() is None
    thief.pushed()
    office.period()
    office.index()
    told = work.publish()
    assert told is not None
    assert told["did"] == "signs nothing"
    work.publish()
    assert statements(office) == 0


def test_what_we_signed_is_ours_and_not_told_also_after_a_restart(sqlite_office: Office):
    office = sqlite_office
    assert watched(office) == []
    for _ in range(2):
        office.pushed()
        assert watched(office) == []
    office.restart()
    office.pushed()
    assert watched(office) == []


def test_what_was_signed_before_this_database_came_to_the_head_is_not_told(
    sqlite_office: Office, thief: Office
):
    thief.pushed()
    assert watched(sqlite_office) == []
    thief.pushed()
    assert [line["round"] for line in watched(sqlite_office)] == [2]


def test_whoever_adopted_a_key_is_quiet_already_and_hears_nothing(
    sqlite_office: Office, thief: Office
):
    office = sqlite_office
    assert watched(office) == []
    domain, signer = office.desk.publisher.domain, office.desk.publisher.signer.address
    until = office.premises.chain.time + SETTINGS.ttl_seconds
    with office.desk.writing() as unit:
        unit.outbox.signatures.keep_quiet(
            domain.chain_id, domain.contract, signer, until, office.desk.stamp
        )
    thief.pushed()
    assert watched(office) == []
    with office.store.reading() as unit:
        quiet = unit.outbox.signatures.quiet_until(domain.chain_id, domain.contract, signer)
    assert quiet is not None
    assert quiet > until
