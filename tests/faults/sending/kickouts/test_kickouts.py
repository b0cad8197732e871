"""Kickouts that must wait, be cancelled, or not begin; they are the same at every reporter."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.domain.coverage import VerificationLevel
from oracle.errors import TransientError
from oracle.kickouts.kickout_context import CANCEL_KICK, EXECUTE_KICK, PROPOSE_KICK
from oracle.kickouts.kickout_eligibility import KickoutRules, load_kickout_cases
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.kickouts.manual_cancel import cancel_kickout_manually
from oracle.kickouts.proposer import build_kick_statement
from oracle.store.database import Store
from oracle.store.outbox.records import Intent, IntentState, PauseKind
from tests.integration.evm.test_kicking import (
    POOL,
    ROUNDS,
    bad_pool,
    group,
    kick,
    kinds,
    node_two,
    proposed,
    pushed_until,
    pushed_without_kickouts,
    shown_low,
    standing,
)
from tests.support.evm.chain import RevertedError
from tests.support.evm.network import Standing
from tests.support.office import CHAIN_ID, LIMITS, RULES, SETTINGS, Office, Premises, next_step
from tests.support.sending.proxy import Proxy

KICKOUT_RULES = KickoutRules(RULES, SETTINGS)
REFILL_SECONDS = 3600


def only(office: Office, kind: str) -> Intent:
    (intent,) = office.intents(kind)
    return intent


def empty_bucket(office: Office) -> int:
    """Block kickouts for an hour; return the time at which they are possible again."""
    premises = office.premises
    gas, cooldown, *_ = premises.oracle.functions.kickLimits().call()
    for bucket in ((0, 1, REFILL_SECONDS), (1, 1, REFILL_SECONDS)):
        call = premises.oracle.functions.setKickLimits((gas, cooldown, *bucket))
        premises.chain.send(call, sender=premises.network.admin)
    _, since = premises.oracle.functions.bucket().call()
    return int(since) + REFILL_SECONDS


def veto_over(office: Office) -> None:
    """Let the rounds and seconds of the veto pass, without planning a kickout."""
    while int(str(kick(office)["readyAt"])) > office.premises.chain.time:
        pushed_without_kickouts(office)


def test_kickout_execution_held_by_operator_is_not_planned_again(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    veto_over(office)
    for _ in range(LIMITS.kick_rounds):
        pushed_without_kickouts(office)
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


def test_kickout_is_proposed_after_configured_number_of_consecutive_low_rounds(
    sqlite_office: Office,
):
    office = sqlite_office
    bad_pool(office)
    pushed_until(office, ROUNDS - 1)
    office.until_final()
    assert "propose_kick" not in kinds(office)

    # The row is broken, and begins anew.
    group(office, 98, (2, 0, 1))
    office.pushed()
    for number in range(50, 50 + POOL):
        group(office, number, (0, 1, 2))
    pushed_until(office, ROUNDS - 1)
    office.until_final()
    assert "propose_kick" not in kinds(office)
    office.pushed()
    office.until_final()
    assert kinds(office).count("propose_kick") == 1


def test_evidence_file_contains_chain_rules_rounds_and_entries(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    (file,) = office.folder_for_evidence.iterdir()
    evidence = json.loads(file.read_text())

    assert (evidence["chain_id"], evidence["contract"]) == (CHAIN_ID, office.premises.address)
    assert (evidence["node"], evidence["index"]) == (office.premises.network.nodes[2].lower(), 2)
    assert (evidence["rules"], evidence["rules_version"]) == (RULES.name, RULES.version)
    assert (len(evidence["rules_sha256"]), evidence["formula_version"]) == (64, 2)
    assert [evidence_round["lane"] for evidence_round in evidence["rounds"]] == ROUNDS * [2002]
    first = evidence["rounds"][0]["round"]
    assert [evidence_round["round"] for evidence_round in evidence["rounds"]] == [
        *range(first, first + ROUNDS)
    ]
    assert all(
        evidence_round["as_of"] >= evidence["due_since"]["block"]
        for evidence_round in evidence["rounds"]
    )
    assert {*evidence["entries"][0]} >= {"at", "task", "score", "rank", "time"}


@pytest.fixture
def other_office(premises: Premises, tmp_path: Path) -> Iterator[Office]:
    """Yield another reporter with its own database."""
    with Store.open(f"sqlite:///{tmp_path}/other.sqlite", create=True) as store:
        opened = Office(premises, store, tmp_path / "other-evidence")
        yield opened
        opened.close()


def test_two_reporters_sign_identical_kickout_statement(
    sqlite_office: Office, other_office: Office
):
    office, second_office = sqlite_office, other_office
    bad_pool(office)
    shown_low(office)
    # The other one was away, and reads it all at once.
    second_office.index()

    statements = []
    for signing_office in (office, second_office):
        with signing_office.store.read_transaction() as uow:
            (kickout_case,) = load_kickout_cases(uow, KICKOUT_RULES, VerificationLevel.NOTHING)
        assert kickout_case.evidence is not None
        standing = signing_office.contract.get_status()
        statements.append(
            (
                kickout_case.evidence.text,
                build_kick_statement(signing_office.kickouts, kickout_case, standing),
            )
        )
        office.mine()
    assert statements[0] == statements[1]
    assert statements[0][1] is not None


def test_case_f56_waiting_kickout_is_dropped_and_cancelled_after_node_recovers(
    sqlite_office: Office,
):
    office = sqlite_office
    proposed(office)
    empty_bucket(office)
    veto_over(office)
    office.tick()
    assert only(office, EXECUTE_KICK).state.value == "planned"

    group(office, 99, (2, 0, 1))
    pushed_without_kickouts(office)
    premises = office.premises
    with pytest.raises(RevertedError, match="NotBelowThreshold"):
        premises.chain.send(premises.oracle.functions.executeKick(premises.network.nodes[2]))
    office.tick()
    office.mine()
    office.until_final()

    execution = only(office, EXECUTE_KICK)
    assert (execution.state.value, execution.nonce) == ("superseded", None)
    assert execution.error_text == "the kickout is no longer due"
    assert only(office, CANCEL_KICK).state.value == "final"
    assert not kick(office)["live"]
    assert standing(office) is Standing.ACTIVE


def test_case_f58_empty_kickout_bucket_defers_execution_without_polling_every_block(
    sqlite_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = sqlite_office
    proposed(office)
    refilled = empty_bucket(office)
    veto_over(office)
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

    # It is refilled; the scores are fresh again, and it goes by itself.
    office.premises.chain.at(refilled + 1)
    office.premises.chain.mine()
    office.pushed()
    office.tick()
    office.mine()
    office.until_final()
    assert standing(office) is Standing.KICKED_OUT
    assert kinds(office).count("execute_kick") == 1


def test_case_f67_no_proposal_is_signed_while_evidence_cannot_be_written(sqlite_office: Office):
    office = sqlite_office
    bad_pool(office)
    shown_low(office)
    # A file where the folder should be: nothing can be written there.
    office.folder_for_evidence.write_text("in the way")
    for _ in range(2):
        with pytest.raises(TransientError, match="cannot write the evidence file"):
            office.repeat(plan_kickout_call)
    with office.store.read_transaction() as uow:
        signed = uow.statements.list_for_round(
            office.premises.address, "kick", office.premises.round, node_two(office)
        )
    assert (signed, kinds(office).count("propose_kick")) == ([], 0)
    # Reports go on meanwhile.
    pushed_without_kickouts(office)

    office.folder_for_evidence.unlink()
    office.repeat(plan_kickout_call)
    assert kinds(office).count("propose_kick") == 1


def test_case_f67_proposal_with_missing_evidence_file_is_not_sent(sqlite_office: Office):
    office = sqlite_office
    bad_pool(office)
    shown_low(office)
    office.repeat(plan_kickout_call)
    (file,) = office.folder_for_evidence.iterdir()
    text = file.read_text()
    file.unlink()
    nonce = office.premises.nonce
    office.repeat(next_step)
    office.mine()

    ended = only(office, PROPOSE_KICK)
    assert (ended.state.value, ended.error_text) == ("superseded", "its evidence file is missing")
    assert (office.premises.nonce, kick(office)["live"]) == (nonce, False)
    # The next round asks again, and lays the same file down.
    office.pushed()
    office.tick()
    assert file.read_text() == text


def test_unsent_proposal_is_cancelled_by_operator(sqlite_office: Office):
    office = sqlite_office
    bad_pool(office)
    shown_low(office)
    office.repeat(plan_kickout_call)
    step = cancel_kickout_manually(office.kickouts, node_two(office))
    assert step is not None
    assert only(office, PROPOSE_KICK).state.value == "cancelled"
    # Not again in this round.
    assert office.repeat(plan_kickout_call) == []
    # Only the vetoer may cancel what is on chain while the node is low.
    assert cancel_kickout_manually(office.kickouts, node_two(office)) is None


def test_kickouts_wait_while_report_is_held(sqlite_office: Office):
    office = sqlite_office
    bad_pool(office)
    shown_low(office)
    with office.context.write_transaction() as uow:
        newest = uow.reports.get_newest_period()
        assert newest is not None
        uow.holds.hold(newest + 1, "for a test", {}, office.context.stamp)
    assert office.repeat(plan_kickout_call) == []
    with office.context.write_transaction() as uow:
        uow.holds.release(newest + 1, office.context.stamp)
    assert [step.action for step in office.repeat(plan_kickout_call)] == [
        "kickout signed",
        "kickout proposal planned",
    ]
