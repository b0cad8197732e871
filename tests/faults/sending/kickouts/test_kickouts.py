"""Kickouts that must wait, be cleared, or not begin; they are the same at every reporter."""

import hashlib
import json

import pytest

from oracle.cli.kickout_plans import plan_manual_clearing
from oracle.errors import InputError, TransientError
from oracle.kickouts.kickout_context import ACCUSE, CLEAR_KICK, EXECUTE_KICK
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.store.outbox.records import Intent, IntentState, PauseKind
from tests.integration.evm.test_kicking import (
    accuse_node_two,
    empty_bucket,
    fill_bad_pool,
    kick,
    kinds,
    node_two,
    pass_veto_delay,
    push_without_kickouts,
    recover,
    run_until_due_is_stated,
    standing,
)
from tests.support.evm.network import Standing
from tests.support.office import CHAIN_ID, RULES, Office
from tests.support.sending.proxy import Proxy
from tests.support.sending.rounds import get_contract_error


def only(office: Office, kind: str) -> Intent:
    (intent,) = office.intents(kind)
    return intent


def test_kickout_execution_held_by_operator_is_not_planned_again(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    pass_veto_delay(office)
    office.repeat(plan_kickout_call)
    execution, context = only(office, EXECUTE_KICK), office.context
    with context.write_transaction() as uow:
        uow.outbox.intents.hold(execution, PauseKind.OPERATOR, "not tonight", context.stamp)
    office.tick()
    assert only(office, EXECUTE_KICK).state is IntentState.HELD

    with context.write_transaction() as uow:
        held = uow.outbox.intents.get(execution.id)
        assert held is not None
        uow.outbox.intents.release(held, context.stamp)
    office.tick()
    assert only(office, EXECUTE_KICK).state is IntentState.LIVE


def test_unsent_execution_is_planned_anew_with_a_proof_of_the_next_round(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    pass_veto_delay(office)
    office.repeat(plan_kickout_call)
    old = only(office, EXECUTE_KICK)
    push_without_kickouts(office)
    assert get_contract_error(office, old.request.calldata) == "NotProven"
    office.tick()
    ended, new = office.intents(EXECUTE_KICK)
    assert (ended.id, ended.state, ended.nonce) == (old.id, IntentState.SUPERSEDED, None)
    assert (new.state, new.request.round) == (IntentState.LIVE, office.premises.round)
    office.mine()
    assert standing(office) is Standing.KICKED_OUT


def test_evidence_file_contains_chain_rules_and_entries(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    (file,) = office.folder_for_evidence.iterdir()
    evidence = json.loads(file.read_text())

    assert (evidence["chain_id"], evidence["contract"]) == (CHAIN_ID, office.premises.address)
    assert evidence["node"] == node_two(office)
    oracle = office.premises.oracle.address
    assert evidence["oracle_account_id"] == f"eip155:{CHAIN_ID}:{oracle}"
    assert (evidence["rules"], evidence["rules_version"]) == (RULES.name, RULES.version)
    assert (len(evidence["rules_sha256"]), evidence["formula_version"]) == (64, 2)
    assert {*evidence["entries"][0]} >= {"at", "task", "score", "rank", "time"}


def test_case_f56_waiting_kickout_is_dropped_and_cleared_after_node_recovers(
    sqlite_office: Office,
):
    office = sqlite_office
    accuse_node_two(office)
    empty_bucket(office)
    pass_veto_delay(office)
    office.tick()
    execution = only(office, EXECUTE_KICK)
    assert execution.state.value == "planned"

    recover(office)
    push_without_kickouts(office)
    assert get_contract_error(office, execution.request.calldata) == "NotProven"
    office.tick()
    office.mine()
    office.until_final()

    execution = only(office, EXECUTE_KICK)
    assert (execution.state.value, execution.nonce) == ("superseded", None)
    assert only(office, CLEAR_KICK).state.value == "final"
    assert not kick(office)["live"]
    assert standing(office) is Standing.ACTIVE


def test_case_f58_empty_kickout_bucket_defers_execution_without_polling_every_block(
    sqlite_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = sqlite_office
    accuse_node_two(office)
    refilled = empty_bucket(office)
    pass_veto_delay(office)
    office.restart(urls=[proxy.url for proxy in proxies])
    office.tick()
    waiting = only(office, EXECUTE_KICK)
    assert (waiting.state.value, waiting.request.not_before) == ("planned", refilled)

    for proxy in proxies:
        proxy.forget()
    for _ in range(5):
        office.mine()
        assert not [step for step in office.tick() if "kick" in step.action]
    assert [proxy.count("eth_estimateGas") for proxy in proxies] == [0, 0]
    assert [proxy.sent for proxy in proxies] == [[], []]

    # The bucket is refilled, and the scores are fresh again.
    office.premises.chain.at(refilled + 1)
    office.premises.chain.mine()
    office.pushed()
    office.tick()
    office.mine()
    office.until_final()
    assert standing(office) is Standing.KICKED_OUT
    assert [state for state in office.states(EXECUTE_KICK) if state != "superseded"] == ["final"]


def test_case_f67_node_is_not_accused_while_evidence_cannot_be_written(sqlite_office: Office):
    office = sqlite_office
    fill_bad_pool(office)
    run_until_due_is_stated(office)
    # A file where the folder should be: nothing can be written there.
    office.folder_for_evidence.write_text("in the way")
    for _ in range(2):
        with pytest.raises(TransientError, match="cannot write the evidence file"):
            office.repeat(plan_kickout_call)
    assert kinds(office).count(ACCUSE) == 0
    # Reports continue meanwhile.
    push_without_kickouts(office)

    office.folder_for_evidence.unlink()
    office.repeat(plan_kickout_call)
    assert kinds(office).count(ACCUSE) == 1


def test_truncated_evidence_file_is_written_again(sqlite_office: Office):
    office = sqlite_office
    fill_bad_pool(office)
    run_until_due_is_stated(office)
    office.repeat(plan_kickout_call)
    (file,) = office.folder_for_evidence.iterdir()
    digest = hashlib.sha256(file.read_bytes()).digest()
    file.write_text("{")
    # The accusation is not sent in this round, and is planned again in the next one.
    push_without_kickouts(office)
    office.tick()
    assert hashlib.sha256(file.read_bytes()).digest() == digest


def test_accusation_that_the_last_round_states_is_not_cleared_by_hand(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    heads = office.source.fetch_heads()
    with pytest.raises(InputError, match="still states the accused interval"):
        plan_manual_clearing(office.kickouts, node_two(office), heads)
    assert CLEAR_KICK not in kinds(office)


def test_kickouts_wait_while_report_is_held(sqlite_office: Office):
    office = sqlite_office
    fill_bad_pool(office)
    run_until_due_is_stated(office)
    with office.context.write_transaction() as uow:
        newest = uow.reports.get_newest_period()
        assert newest is not None
        uow.holds.hold(newest + 1, "for a test", {}, office.context.stamp)
    assert office.repeat(plan_kickout_call) == []
    with office.context.write_transaction() as uow:
        uow.holds.release(newest + 1, office.context.stamp)
    assert [step.action for step in office.repeat(plan_kickout_call)] == [f"{ACCUSE} planned"]


def test_kickout_planned_while_a_push_is_in_flight_is_not_sent_in_vain(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    pass_veto_delay(office)
    # A push is sent in the same tick in which the execution becomes due.
    office.period()
    office.tick()
    office.mine()
    office.tick()
    office.mine()
    office.until_final()
    assert "reverted" not in office.states()
    assert standing(office) is Standing.KICKED_OUT
