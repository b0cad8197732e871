"""Kickouts that must wait, be cleared, or not begin; they are the same at every reporter."""

import hashlib
import json

import pytest

from oracle.cli.kickout_plans import plan_manual_accusation_clearing
from oracle.errors import InputError, TransientError
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.store.outbox.records import (
    ACCUSE,
    CLEAR_KICK,
    EXECUTE_KICK,
    Intent,
    IntentState,
    PauseKind,
)
from tests.integration.evm.test_kickout_on_chain import (
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
from tests.support.harness import CHAIN_ID, RULES, Harness
from tests.support.sending.proxy import Proxy
from tests.support.sending.rounds import get_contract_error


def get_only_intent(harness: Harness, kind: str) -> Intent:
    (intent,) = harness.intents(kind)
    return intent


def test_execution_held_by_the_operator_is_not_planned_again(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    pass_veto_delay(harness)
    harness.repeat(plan_kickout_call)
    execution = get_only_intent(harness, EXECUTE_KICK)
    context = harness.context
    with context.write_transaction() as uow:
        uow.outbox.intents.hold(execution, PauseKind.OPERATOR, "not tonight", context.stamp)
    harness.tick()
    assert get_only_intent(harness, EXECUTE_KICK).state is IntentState.HELD

    with context.write_transaction() as uow:
        held = uow.outbox.intents.get(execution.id)
        assert held is not None
        uow.outbox.intents.release(held, context.stamp)
    harness.tick()
    assert get_only_intent(harness, EXECUTE_KICK).state is IntentState.LIVE


def test_unsent_execution_is_replanned_with_the_next_rounds_proof(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    pass_veto_delay(harness)
    harness.repeat(plan_kickout_call)
    old = get_only_intent(harness, EXECUTE_KICK)
    push_without_kickouts(harness)
    assert get_contract_error(harness, old.request.calldata) == "NotProven"
    harness.tick()
    ended, new = harness.intents(EXECUTE_KICK)
    assert (ended.id, ended.state, ended.nonce) == (old.id, IntentState.SUPERSEDED, None)
    assert (new.state, new.request.round) == (IntentState.LIVE, harness.testbed.round)
    harness.mine()
    assert standing(harness) is Standing.KICKED_OUT


def test_evidence_file_contains_chain_rules_and_entries(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    (file,) = harness.folder_for_evidence.iterdir()
    evidence = json.loads(file.read_text())

    assert (evidence["chain_id"], evidence["contract"]) == (CHAIN_ID, harness.testbed.address)
    assert evidence["node"] == node_two(harness)
    oracle = harness.testbed.oracle.address
    assert evidence["oracle_account_id"] == f"eip155:{CHAIN_ID}:{oracle}"
    assert (evidence["rules"], evidence["rules_version"]) == (RULES.name, RULES.version)
    assert (len(evidence["rules_sha256"]), evidence["formula_version"]) == (64, 2)
    assert {*evidence["entries"][0]} >= {"at", "task", "score", "rank", "time"}


def test_case_f56_accusation_is_cleared_after_the_node_recovers(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    accuse_node_two(harness)
    empty_bucket(harness)
    pass_veto_delay(harness)
    harness.tick()
    execution = get_only_intent(harness, EXECUTE_KICK)
    assert execution.state.value == "planned"

    recover(harness)
    push_without_kickouts(harness)
    assert get_contract_error(harness, execution.request.calldata) == "NotProven"
    harness.tick()
    harness.mine()
    harness.until_final()

    execution = get_only_intent(harness, EXECUTE_KICK)
    assert (execution.state.value, execution.nonce) == ("superseded", None)
    assert get_only_intent(harness, CLEAR_KICK).state.value == "final"
    assert not kick(harness)["live"]
    assert standing(harness) is Standing.ACTIVE


def test_case_f58_empty_kickout_bucket_defers_the_execution(
    sqlite_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = sqlite_harness
    accuse_node_two(harness)
    refilled = empty_bucket(harness)
    pass_veto_delay(harness)
    harness.restart(urls=[proxy.url for proxy in proxies])
    harness.tick()
    waiting = get_only_intent(harness, EXECUTE_KICK)
    assert (waiting.state.value, waiting.request.not_before) == ("planned", refilled)

    for proxy in proxies:
        proxy.forget()
    for _ in range(5):
        harness.mine()
        assert not [step for step in harness.tick() if "kick" in step.action]
    assert [proxy.count("eth_estimateGas") for proxy in proxies] == [0, 0]
    assert [proxy.sent for proxy in proxies] == [[], []]

    # The bucket is refilled, and the scores are fresh again.
    harness.testbed.chain.at(refilled + 1)
    harness.testbed.chain.mine()
    harness.pushed()
    harness.tick()
    harness.mine()
    harness.until_final()
    assert standing(harness) is Standing.KICKED_OUT
    assert [state for state in harness.states(EXECUTE_KICK) if state != "superseded"] == ["final"]


def test_case_f67_node_is_not_accused_while_evidence_cannot_be_written(sqlite_harness: Harness):
    harness = sqlite_harness
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)
    # A file where the folder should be: nothing can be written there.
    harness.folder_for_evidence.write_text("in the way")
    for _ in range(2):
        with pytest.raises(TransientError, match="cannot write the evidence file"):
            harness.repeat(plan_kickout_call)
    assert kinds(harness).count(ACCUSE) == 0
    # Reports continue meanwhile.
    push_without_kickouts(harness)

    harness.folder_for_evidence.unlink()
    harness.repeat(plan_kickout_call)
    assert kinds(harness).count(ACCUSE) == 1


def test_truncated_evidence_file_is_written_again(sqlite_harness: Harness):
    harness = sqlite_harness
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)
    harness.repeat(plan_kickout_call)
    (file,) = harness.folder_for_evidence.iterdir()
    digest = hashlib.sha256(file.read_bytes()).digest()
    file.write_text("{")
    # The accusation is not sent in this round, and is planned again in the next one.
    push_without_kickouts(harness)
    harness.tick()
    assert hashlib.sha256(file.read_bytes()).digest() == digest


def test_accusation_confirmed_by_the_last_round_cannot_be_cleared(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    heads = harness.source.fetch_heads()
    with pytest.raises(InputError, match="still states the accused interval"):
        plan_manual_accusation_clearing(harness.kickouts, node_two(harness), heads)
    assert CLEAR_KICK not in kinds(harness)


def test_kickouts_wait_while_a_report_is_held(sqlite_harness: Harness):
    harness = sqlite_harness
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)
    with harness.context.write_transaction() as uow:
        newest = uow.reports.find_newest_period()
        assert newest is not None
        uow.holds.hold(newest + 1, "for a test", {}, harness.context.stamp)
    assert harness.repeat(plan_kickout_call) == []
    with harness.context.write_transaction() as uow:
        uow.holds.release(newest + 1, harness.context.stamp)
    assert [step.action for step in harness.repeat(plan_kickout_call)] == [f"{ACCUSE} planned"]


def test_kickout_planned_during_a_push_is_not_sent_if_it_reverts(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    pass_veto_delay(harness)
    # A push is sent in the same tick in which the execution becomes due.
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    harness.mine()
    harness.until_final()
    assert "reverted" not in harness.states()
    assert standing(harness) is Standing.KICKED_OUT
