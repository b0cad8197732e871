"""`kickout accuse`, `execute` and `clear` as commands, and the calls that the vetoer sends."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.domain.reports.contract_state import ContractChanges
from oracle.store.outbox.records import ACCUSE, EXECUTE_KICK, Stamp
from oracle.txmgr.confirmer import confirm_transactions
from tests.integration.cli.publishing.stopped_harness import (
    chain,
    config,
    endpoint,
    fallen,
    fresh_chain,
    fresh_testbed,
    harness,
    send_vetoer_call,
    sqlite_harness,
    sqlite_url,
    testbed,
)
from tests.integration.evm.test_kickout_on_chain import (
    empty_bucket,
    get_stated_due_since,
    kick,
    node_two,
    pass_veto_delay,
    push_without_kickouts,
    recover,
    standing,
)
from tests.support.evm.network import Standing
from tests.support.harness import FINALITY, LIMITS

__all__ = [
    "chain",
    "config",
    "endpoint",
    "fallen",
    "fresh_chain",
    "fresh_testbed",
    "harness",
    "sqlite_harness",
    "sqlite_url",
    "testbed",
]


def test_dry_run_writes_and_sends_nothing(harness, config, endpoint, capsys, tmp_path):
    command = ["kickout", "accuse", node_two(harness), "--config", config, "--dry-run"]
    assert run([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["dry_run"], answer["obstacle"]) == (True, None)
    assert answer["steps"] == ["the call would be planned and sent"]
    assert not (tmp_path / "by-hand").exists()
    assert run(command) == 0
    assert "None" not in capsys.readouterr().out
    assert "eth_sendRawTransaction" not in endpoint.seen


def test_evidence_is_printed_and_exported_under_its_hash(harness, config, tmp_path, capsys):
    assert run(["kickout", "evidence", node_two(harness), "--config", config]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["node"] == node_two(harness)
    command = ["kickout", "evidence", node_two(harness), "--config", config]
    assert run([*command, "--to", str(tmp_path / "out")]) == 0
    (written,) = (tmp_path / "out").iterdir()
    assert written.read_text() == text


def test_manual_accusation_is_sent_and_waits_for_veto(harness, config, capsys):
    accuse = ["kickout", "accuse", node_two(harness), "--config", config]
    assert run([*accuse, "--yes"]) == 0
    assert "accuse signed" in capsys.readouterr().out
    harness.mine()
    assert kick(harness)["live"]

    harness.index()
    command = ["kickout", "execute", node_two(harness), "--config", config]
    assert run([*command, "--dry-run"]) == 2
    dry_run_error = capsys.readouterr().err
    assert run([*command, "--yes"]) == 2
    assert capsys.readouterr().err == dry_run_error
    assert "the kickout cannot be executed yet: the vetoer has until 2" in dry_run_error
    assert f"round {harness.testbed.round + LIMITS.kick_rounds} must be accepted first" in (
        dry_run_error
    )
    assert run([*accuse, "--dry-run"]) == 2
    assert "the node is accused already" in capsys.readouterr().err


def test_manual_execution_expels_node_after_veto_period(harness, config, capsys):
    assert run(["kickout", "accuse", node_two(harness), "--config", config, "--yes"]) == 0
    harness.mine()
    with harness.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    harness.restart(epoch=epoch)
    harness.index()
    harness.repeat(confirm_transactions)
    pass_veto_delay(harness)
    with harness.store.transaction() as uow:
        uow.lease.release(harness.epoch)
    assert run(["kickout", "execute", node_two(harness), "--config", config, "--yes"]) == 0
    assert "execute_kick signed" in capsys.readouterr().out
    harness.mine()
    assert standing(harness) is Standing.KICKED_OUT


# Without an option, obstacles are reported before the prompt for confirmation.
@pytest.mark.parametrize("options", [["--yes"], ["--dry-run"], []])
def test_pending_accusation_is_reported_with_its_intent(harness, config, capsys, options):
    accuse = ["kickout", "accuse", node_two(harness), "--config", config]
    assert run([*accuse, "--yes"]) == 0
    with harness.store.read_transaction() as uow:
        (intent,) = uow.outbox.intents.list_unfinished(harness.context.account)
    capsys.readouterr()
    assert run([*accuse, *options]) == 2
    stderr = capsys.readouterr().err
    assert f"another call for it (accuse {intent.id}) is live" in stderr
    assert f"`qos-oracle outbox show {intent.id}`" in stderr


@pytest.mark.parametrize("options", [["--yes"], ["--dry-run"], []])
def test_no_node_is_accused_while_database_lags(harness, config, endpoint, capsys, options):
    harness.mine(FINALITY)
    assert run(["kickout", "accuse", node_two(harness), "--config", config, *options]) == 2
    assert "run `qos-oracle run --once` first" in capsys.readouterr().err
    assert "eth_sendRawTransaction" not in endpoint.seen


@pytest.mark.parametrize("options", [["--yes"], ["--dry-run"], []])
def test_manual_accusation_is_rejected_while_a_report_is_held(
    harness, config, endpoint, capsys, options
):
    with harness.store.transaction() as uow:
        newest = uow.reports.find_newest_period() or 0
        uow.holds.hold(newest + 1, "everybody falls at once", {}, Stamp(0, harness.epoch))
    assert run(["kickout", "accuse", node_two(harness), "--config", config, *options]) == 2
    assert "a report is held, and kickouts wait" in capsys.readouterr().err
    assert "eth_sendRawTransaction" not in endpoint.seen


def test_accusation_is_not_sent_without_confirmation(harness, config, endpoint, capsys):
    def load_lease() -> tuple[int, str | None]:
        with harness.store.read_transaction() as uow:
            lease_state = uow.lease.get_state()
        return lease_state.epoch, lease_state.holder

    lease = load_lease()
    assert run(["kickout", "accuse", node_two(harness), "--config", config]) == 2
    assert "not confirmed, nothing was done" in capsys.readouterr().err
    assert load_lease() == lease
    assert "eth_sendRawTransaction" not in endpoint.seen
    assert harness.intents(ACCUSE) == []


def test_accusation_for_another_interval_is_not_executed_manually(
    harness, config, endpoint, capsys
):
    assert run(["kickout", "accuse", node_two(harness), "--config", config, "--yes"]) == 0
    harness.mine()
    harness.index()
    # The accused interval is over, and another one has begun since.
    with harness.store.transaction() as uow:
        (accused,) = (found for found in uow.rounds.list_kicks() if found.is_accused)
        assert accused.accusation is not None
        earlier = replace(accused.accusation, due_since=accused.accusation.due_since - 1)
        changed = replace(accused, accusation=earlier)
        uow.rounds.save_changes(ContractChanges(kicks={accused.node: changed}))
    before = endpoint.seen.count("eth_sendRawTransaction")
    assert run(["kickout", "execute", node_two(harness), "--config", config, "--yes"]) == 2
    assert "no longer states the accused interval" in capsys.readouterr().err
    assert endpoint.seen.count("eth_sendRawTransaction") == before


@pytest.mark.parametrize("options", [["--yes"], []])
def test_manual_accusation_is_refused_while_daemon_holds_lease(harness, config, capsys, options):
    with harness.store.transaction() as uow:
        assert uow.lease.acquire("the daemon", 60) is not None
    assert run(["kickout", "accuse", node_two(harness), "--config", config, *options]) == 1
    assert "another process works on this database: the daemon" in capsys.readouterr().err


def test_kickout_list_shows_interval_and_remaining_kickouts(harness, config, capsys):
    assert run(["kickout", "list", "--config", config, "--ask-chain", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (entry,) = answer["kickouts"]
    assert (entry["node"], entry["stated_since"], entry["on_chain"], entry["obstacle"]) == (
        node_two(harness),
        get_stated_due_since(harness),
        None,
        None,
    )
    assert (answer["bucket"]["left"], answer["bucket"]["most"]) == (3, 3)

    assert run(["kickout", "list", "--config", config, "--ask-chain"]) == 0
    stdout = capsys.readouterr().out
    assert f"due since block {entry['due_since']['block']}, can be accused" in stdout
    assert "bucket: 3 of 3 kickouts left" in stdout


def test_node_can_be_accused_even_if_the_kickout_bucket_is_empty(harness, config, capsys):
    empty_bucket(harness)
    harness.index()
    assert run(["kickout", "list", "--config", config, "--ask-chain"]) == 0
    assert "bucket: 0 of 1 kickouts left, 1 more every 3600 s" in capsys.readouterr().out

    assert run(["kickout", "accuse", node_two(harness), "--config", config, "--yes"]) == 0
    harness.mine()
    assert kick(harness)["live"]


def test_manual_execution_waits_until_the_kickout_bucket_is_refilled(
    harness, config, endpoint, capsys
):
    assert run(["kickout", "accuse", node_two(harness), "--config", config, "--yes"]) == 0
    harness.mine()
    with harness.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    harness.restart(epoch=epoch)
    harness.index()
    harness.repeat(confirm_transactions)
    refill_time = empty_bucket(harness)
    pass_veto_delay(harness)
    with harness.store.transaction() as uow:
        uow.lease.release(harness.epoch)
    before = endpoint.seen.count("eth_sendRawTransaction")
    capsys.readouterr()

    assert run(["kickout", "execute", node_two(harness), "--config", config, "--yes"]) == 0
    stdout = capsys.readouterr().out
    assert "execute_kick planned" in stdout
    assert "signed" not in stdout
    assert endpoint.seen.count("eth_sendRawTransaction") == before
    (execution,) = harness.intents(EXECUTE_KICK)
    assert (execution.state.value, execution.request.not_before) == ("planned", refill_time)
    assert standing(harness) is Standing.ACTIVE


def test_accusation_can_be_cleared_after_a_round_shows_the_recovery(harness, config, capsys):
    clear = ["kickout", "clear", node_two(harness), "--config", config]
    assert run([*clear, "--dry-run"]) == 2
    assert "the node is not accused" in capsys.readouterr().err
    assert run(["kickout", "accuse", node_two(harness), "--config", config, "--yes"]) == 0
    harness.mine()
    harness.index()
    capsys.readouterr()
    assert run([*clear, "--dry-run"]) == 2
    assert "only the vetoer can end the accusation" in capsys.readouterr().err

    recover(harness)
    with harness.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    harness.restart(epoch=epoch)
    push_without_kickouts(harness)
    with harness.store.transaction() as uow:
        uow.lease.release(harness.epoch)
    listed = ["kickout", "list", "--config", config]
    assert run(listed) == 0
    assert f"{node_two(harness)}  not due, but accused" in capsys.readouterr().out
    assert run([*listed, "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["kickouts"]
    assert (entry["on_chain"]["state"], entry["due_since"]) == ("accused", None)
    assert run([*clear, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dry_run"]
    assert run([*clear, "--yes"]) == 0
    harness.mine()
    assert not kick(harness)["live"]


def test_printed_veto_calldata_permanently_ends_the_accusation(harness, config, capsys):
    veto = ["kickout", "veto", node_two(harness), "--why", "wrong scores", "--config", config]
    assert run(veto) == 2
    assert "the node is not accused" in capsys.readouterr().err
    accuse = ["kickout", "accuse", node_two(harness), "--config", config, "--yes"]
    assert run(accuse) == 0
    harness.mine()
    harness.index()
    capsys.readouterr()
    send_vetoer_call(harness, capsys, veto)
    assert not kick(harness)["live"]
    assert run(accuse) == 2
    assert "this interval was vetoed" in capsys.readouterr().err


def test_printed_allow_calldata_contains_the_interval_of_the_last_round(harness, config, capsys):
    send_vetoer_call(harness, capsys, ["kickout", "allow", node_two(harness), "--config", config])
    assert kick(harness)["allowed"] == get_stated_due_since(harness)


def test_selftest_reports_nonces_missing_from_database(
    harness, config, sqlite_template, tmp_path, capsys
):
    assert run(["selftest", "--config", config, "--json"]) == 0
    knows = {row["check"]: row["detail"] for row in json.loads(capsys.readouterr().out)}
    assert knows["transmitter's nonces"] == "the database matches the nonces on-chain"

    # The database is lost, and the key has sent transactions.
    lost = tmp_path / "lost.sqlite"
    shutil.copyfile(sqlite_template, lost)
    path = tmp_path / "lost.toml"
    path.write_text(Path(config).read_text().replace(str(tmp_path / "oracle.sqlite"), str(lost)))
    assert run(["selftest", "--config", str(path), "--json"]) == 1
    failed = [row for row in json.loads(capsys.readouterr().out) if not row["passed"]]
    assert [row["check"] for row in failed] == ["transmitter's nonces"]
    assert "`qos-oracle outbox rebuild --from-chain`" in failed[0]["detail"]


def test_evidence_location_is_reported_after_execution(harness, config, capsys):
    with harness.store.transaction() as uow:
        epoch = uow.lease.acquire("the daemon", 60)
    harness.restart(epoch=epoch)
    harness.tick()
    harness.mine()
    harness.until_final()
    pass_veto_delay(harness)
    harness.tick()
    harness.mine()
    harness.until_final()
    with harness.store.transaction() as uow:
        uow.lease.release(harness.epoch)
    assert run(["kickout", "evidence", node_two(harness), "--config", config]) == 2
    stderr = capsys.readouterr().err
    assert "already kicked out; the evidence file is in " in stderr
    assert "by-hand" in stderr
