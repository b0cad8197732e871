"""`kickout propose` and `execute` by hand, on a chain where a node deserves it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import RoundsChanges
from oracle.store.database import Store
from oracle.store.outbox.records import Stamp
from oracle.txmgr.confirmer import confirm_transactions
from tests.integration.evm.test_kicking import (
    ROUNDS,
    bad_pool,
    group,
    kick,
    pushed_without_kickouts,
    shown_low,
)
from tests.support.cli.local_network import write
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import faulty_endpoint
from tests.support.office import CHAIN_ID, FINALITY, RULES, SETTINGS, Office
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises", "sqlite_office"]


@pytest.fixture(scope="module")
def fallen(fresh_premises, sqlite_template, tmp_path_factory):
    """A database, and a chain, on which node 2 is due and reported; nobody proposed anything."""
    folder = tmp_path_factory.mktemp("fallen")
    database = folder / "oracle.sqlite"
    shutil.copyfile(sqlite_template, database)
    with Store.open(f"sqlite:///{database}") as store:
        played = Office(fresh_premises, store, folder / "evidence")
        bad_pool(played)
        shown_low(played)
        played.repeat(confirm_transactions)
        with store.transaction() as uow:
            uow.lease.release(played.epoch)
        played.close()
    return database


@pytest.fixture
def sqlite_url(fallen, tmp_path):
    """A copy of it for every test; the chain is undone."""
    return f"sqlite:///{shutil.copyfile(fallen, tmp_path / 'oracle.sqlite')}"


@pytest.fixture
def office(sqlite_office):
    """The daemon has gone home."""
    with sqlite_office.store.transaction() as uow:
        uow.lease.release(sqlite_office.epoch)
    return sqlite_office


@pytest.fixture
def endpoint(office):
    with faulty_endpoint(office.premises.chain.url) as watched:
        yield watched


@pytest.fixture
def config(office, endpoint, sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr("oracle.daemon.records.build_rules", lambda *_: RULES)
    keys = office.premises.key_folder
    settings = {
        "database": {"url": sqlite_url},
        "chain": {"id": CHAIN_ID, "endpoints": [endpoint.url], "finality_depth": FINALITY},
        "network": {"contracts": {"TaskNetwork": office.premises.network.contract.address}},
        "oracle": {
            "address": office.premises.address,
            "heartbeat_seconds": SETTINGS.heartbeat_seconds,
            "evidence_folder": str(tmp_path / "by-hand"),
        },
        "keys": {
            f"{role}_{part}": str(keys / f"{role}.{ending}")
            for role in ("signer", "transmitter")
            for part, ending in (("keystore", "json"), ("password_file", "password"))
        },
    }
    return str(write(settings, tmp_path / "config.toml"))


def node_of(office):
    return office.premises.network.nodes[2].lower()


def test_dry_run_reports_verdict_of_contract(office, config, endpoint, capsys, tmp_path):
    propose = ["kickout", "propose", node_of(office), "--config", config, "--dry-run"]
    assert run([*propose, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["contract_says"], answer["dry_run"], answer["obstacle"]) == (
        "accepted",
        True,
        None,
    )
    (step,) = answer["steps"]
    assert step.startswith(f"the kickout proposal in round {office.premises.round} would be")
    # Its evidence is laid down by whoever means it.
    assert not (tmp_path / "by-hand").exists()
    assert run(propose) == 0
    text = capsys.readouterr().out
    assert "\ncontract_says  accepted\n" in text
    assert "None" not in text
    assert "eth_sendRawTransaction" not in endpoint.seen


def test_evidence_is_printed_and_exported_under_its_hash(office, config, tmp_path, capsys):
    assert run(["kickout", "evidence", node_of(office), "--config", config]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["node"] == node_of(office)
    command = ["kickout", "evidence", node_of(office), "--config", config]
    assert run([*command, "--to", str(tmp_path / "out")]) == 0
    (written,) = (tmp_path / "out").iterdir()
    assert written.read_text() == text


def test_manual_proposal_is_sent_and_waits_for_veto(office, config, capsys):
    assert run(["kickout", "propose", node_of(office), "--config", config, "--yes"]) == 0
    assert "propose_kick signed" in capsys.readouterr().out
    office.mine()
    assert kick(office)["live"]

    office.index()
    command = ["kickout", "execute", node_of(office), "--config", config]
    assert run([*command, "--dry-run", "--json"]) == 2
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["contract_says"].startswith("KickNotReady")
    # That it is proposed is what an execution needs.
    assert answer["obstacle"] is None
    assert run([*command, "--yes"]) == 2
    assert captured.err == capsys.readouterr().err
    assert "the kickout cannot be executed yet: the vetoer has until 2" in captured.err
    assert f"round {office.premises.round + 2} must be accepted first" in captured.err
    assert run(["kickout", "propose", node_of(office), "--config", config]) == 2
    assert "its kickout is already proposed" in capsys.readouterr().err


@pytest.mark.parametrize("manner", ["--yes", "--dry-run"])
def test_database_behind_head_proposes_no_kickout(office, config, endpoint, capsys, manner):
    office.mine(FINALITY)
    assert run(["kickout", "propose", node_of(office), "--config", config, manner]) == 2
    assert "run `qos-oracle run --once` first" in capsys.readouterr().err
    assert "eth_sendRawTransaction" not in endpoint.seen


@pytest.mark.parametrize("manner", ["--yes", "--dry-run"])
def test_kickout_is_not_proposed_manually_while_report_is_held(
    office, config, endpoint, capsys, manner
):
    with office.store.transaction() as uow:
        newest = uow.reports.get_newest_period() or 0
        uow.holds.hold(newest + 1, "everybody falls at once", {}, Stamp(0, office.epoch))
    assert run(["kickout", "propose", node_of(office), "--config", config, manner]) == 2
    assert "a report is held, and kickouts wait" in capsys.readouterr().err
    assert "eth_sendRawTransaction" not in endpoint.seen


def test_kickout_on_different_evidence_is_not_executed_manually(office, config, endpoint, capsys):
    assert run(["kickout", "propose", node_of(office), "--config", config, "--yes"]) == 0
    office.mine()
    office.index()
    # Another interval has begun since: the one that it was proposed on is over.
    with office.store.transaction() as uow:
        (live,) = uow.rounds.list_live_kicks()
        changed_kick = replace(live, evidence=Hash("0x" + 64 * "e"))
        uow.rounds.save_changes(RoundsChanges(kicks={live.node: changed_kick}))
    before = endpoint.seen.count("eth_sendRawTransaction")
    assert run(["kickout", "execute", node_of(office), "--config", config, "--yes"]) == 2
    assert "the node is due on different evidence" in capsys.readouterr().err
    assert endpoint.seen.count("eth_sendRawTransaction") == before


def test_manual_proposal_is_refused_while_daemon_holds_lease(office, config, capsys):
    with office.store.transaction() as uow:
        assert uow.lease.acquire("the daemon", 60) is not None
    assert run(["kickout", "propose", node_of(office), "--config", config, "--yes"]) == 1
    assert "another process works on this database: the daemon" in capsys.readouterr().err


def test_kickout_list_shows_progress_and_number_of_kickouts_left(office, config, capsys):
    assert run(["kickout", "list", "--config", config, "--ask-chain", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (kickout,) = answer["kickouts"]
    assert (kickout["node"], kickout["rounds_low"], kickout["obstacle"]) == (
        node_of(office),
        ROUNDS,
        None,
    )
    assert kickout["evidence"].startswith("0x")
    assert (answer["bucket"]["left"], answer["bucket"]["most"]) == (3, 3)

    assert run(["kickout", "list", "--config", config, "--ask-chain"]) == 0
    stdout = capsys.readouterr().out
    assert f"below the threshold in {ROUNDS} of {ROUNDS} consecutive rounds" in stdout
    assert "bucket: 3 of 3 kickouts left" in stdout


def test_proposal_is_cancelled_manually_only_when_contract_permits(office, config, capsys):
    cancel = ["kickout", "cancel", node_of(office), "--config", config]
    assert run(cancel) == 2
    assert (
        "this daemon has nothing to cancel: no kickout of this node is proposed"
        in capsys.readouterr().err
    )
    assert run(["kickout", "propose", node_of(office), "--config", config, "--yes"]) == 0
    office.mine()
    office.index()
    capsys.readouterr()
    assert run(cancel) == 2
    assert (
        f"only the vetoer can cancel the kickout ({office.premises.network.admin.lower()})"
        in capsys.readouterr().err
    )

    # It recovers on chain: now anybody may.
    group(office, 99, (2, 0, 1))
    with office.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    office.restart(epoch=epoch)
    pushed_without_kickouts(office)
    with office.store.transaction() as uow:
        uow.lease.release(office.epoch)
    listed = ["kickout", "list", "--config", config]
    assert run(listed) == 0
    stdout = capsys.readouterr().out
    assert f"{node_of(office)}  not due, but proposed in round " in stdout
    assert run([*listed, "--json"]) == 0
    (kickout,) = json.loads(capsys.readouterr().out)["kickouts"]
    assert (kickout["proposal"]["state"], kickout["obstacle"]) == ("live", "not due")
    assert run([*cancel, "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["contract_says"], answer["dry_run"]) == ("accepted", True)
    assert run([*cancel, "--yes"]) == 0
    office.mine()
    assert not kick(office)["live"]


def test_selftest_reports_nonces_missing_from_the_database(
    office, config, sqlite_template, tmp_path, capsys
):
    assert run(["selftest", "--config", config, "--json"]) == 0
    knows = {row["check"]: row["detail"] for row in json.loads(capsys.readouterr().out)}
    assert knows["transmitter's nonces"] == "the database matches the nonces on-chain"

    # The database is lost, and the key has sent.
    lost = tmp_path / "lost.sqlite"
    shutil.copyfile(sqlite_template, lost)
    path = tmp_path / "lost.toml"
    path.write_text(Path(config).read_text().replace(str(tmp_path / "oracle.sqlite"), str(lost)))
    assert run(["selftest", "--config", str(path), "--json"]) == 1
    failed = [row for row in json.loads(capsys.readouterr().out) if not row["passed"]]
    assert [row["check"] for row in failed] == ["transmitter's nonces"]
    assert "`qos-oracle outbox rebuild --from-chain`" in failed[0]["detail"]


def test_evidence_location_is_reported_after_execution(office, config, capsys):
    with office.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    office.restart(epoch=epoch)
    office.tick()
    office.mine()
    office.until_final()
    while int(str(kick(office)["readyAt"])) > office.premises.chain.time:
        office.pushed()
    office.tick()
    office.mine()
    office.until_final()
    with office.store.transaction() as uow:
        uow.lease.release(office.epoch)
    assert run(["kickout", "evidence", node_of(office), "--config", config]) == 2
    stderr = capsys.readouterr().err
    assert "already kicked out; the evidence file is in " in stderr
    assert "by-hand" in stderr
