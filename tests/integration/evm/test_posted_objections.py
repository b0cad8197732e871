"""Objections that were posted to the read API, on a real chain: sent once, or withdrawn."""

from collections.abc import Callable

import pytest

from oracle.bindings.objections import CONTRACT
from oracle.domain.ids import Address
from oracle.domain.reports.objections import MAX_WORDS_BYTES
from oracle.kickouts.objection_intake import RESERVED_GAS, IntakeSettings, ObjectionIntake
from oracle.kickouts.objection_sender import plan_objection_call
from oracle.signing.typed_data import ObjectionStatement
from oracle.store.objection_inbox import PostedObjection
from oracle.store.outbox.records import SUBMIT_OBJECTION
from oracle.txmgr.confirmer import confirm_transactions
from tests.integration.evm.test_kickout_on_chain import node_two, recover
from tests.integration.evm.test_objections import (
    Hearing,
    chain,
    fresh_chain,
    fresh_testbed,
    hearing,
    new_sqlite_store,
    testbed,
)
from tests.support.harness import FINALITY, RULES, run_next_step
from tests.support.txmgr.operator_actions import cancel_intent

pytestmark = [pytest.mark.evm, pytest.mark.slow]

__all__ = ["chain", "fresh_chain", "fresh_testbed", "hearing", "new_sqlite_store", "testbed"]

WORDS = "w" * MAX_WORDS_BYTES


def post(hearing: Hearing, words: str = WORDS) -> None:
    """Let the node sign an objection, and post it to the read API."""
    statement = ObjectionStatement(
        node_two(hearing.harness), hearing.due_since, 2, words, 0, 2**40 - 1
    )
    settings = IntakeSettings(hearing.domain, RULES, posts_per_hour=9, daily_gas=10**6)
    intake = ObjectionIntake(hearing.harness.store, settings)
    intake.accept(statement, hearing.sign(statement), hearing.testbed.chain.time)


def get_only_posted(hearing: Hearing) -> PostedObjection:
    with hearing.harness.store.read_transaction() as uow:
        (only,) = uow.objection_inbox.list_for_node(node_two(hearing.harness))
    return only


def work(hearing: Hearing) -> None:
    """Run one turn of the daemon in which only posted objections are planned."""
    harness = hearing.harness
    harness.index()
    for step in (confirm_transactions, run_next_step, plan_objection_call, run_next_step):
        harness.repeat(step)


def send_posted_objections(hearing: Hearing) -> None:
    """Send the posted objections, up to finality."""
    work(hearing)
    hearing.harness.mine()
    work(hearing)
    hearing.harness.mine(FINALITY + 1)
    work(hearing)


def count_objected(hearing: Hearing) -> int:
    return len(hearing.contract.events.Objected().get_logs(from_block=0))


def test_posted_objection_is_sent_within_the_reserved_gas(hearing: Hearing):
    post(hearing)
    send_posted_objections(hearing)
    (objection,) = hearing.listed()
    assert (objection.node, objection.reason, objection.text) == (
        node_two(hearing.harness),
        2,
        WORDS,
    )
    assert (
        get_only_posted(hearing).ended_at is not None,
        get_only_posted(hearing).ended_reason,
    ) == (True, None)
    (event,) = hearing.contract.events.Objected().get_logs(from_block=0)
    receipt = hearing.testbed.chain.receipt(event["transactionHash"].to_0x_hex())
    assert receipt.gas < RESERVED_GAS


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda hearing: recover(hearing.harness), "the kickout is no longer due"),
        (lambda hearing: hearing.object(), "the node has objected on the chain itself"),
    ],
    ids=["kickout no longer due", "node objected itself"],
)
@pytest.mark.parametrize("is_planned", [False, True])
def test_pointless_posted_objection_is_withdrawn_without_a_transaction(
    hearing: Hearing, act: Callable[[Hearing], None], reason: str, *, is_planned: bool
):
    post(hearing)
    if is_planned:
        hearing.harness.index()
        hearing.harness.repeat(plan_objection_call)
    nonce = hearing.testbed.nonce
    act(hearing)
    send_posted_objections(hearing)
    assert get_only_posted(hearing).ended_reason == reason
    assert hearing.testbed.nonce == nonce
    assert hearing.harness.states(SUBMIT_OBJECTION) == ["superseded"] * is_planned


def test_posted_objection_in_reorged_block_is_resent(hearing: Hearing):
    rpc, harness = hearing.testbed.chain.rpc, hearing.harness
    post(hearing)
    before = rpc("evm_snapshot")
    work(hearing)
    harness.mine()
    work(hearing)
    assert (len(hearing.listed()), get_only_posted(hearing).ended_at) == (1, None)

    rpc("evm_revert", before)
    harness.mine(2)
    assert hearing.listed() == []
    for _ in range(4):
        work(hearing)
        harness.mine()
    send_posted_objections(hearing)
    assert [objection.text for objection in hearing.listed()] == [WORDS]
    assert count_objected(hearing) == 1
    assert (harness.states(SUBMIT_OBJECTION), get_only_posted(hearing).ended_reason) == (
        ["final"],
        None,
    )


def test_posted_objection_ends_if_a_noop_replaces_its_sent_call(hearing: Hearing):
    """Until it has ended, the node could not post another objection."""
    harness = hearing.harness
    post(hearing)
    work(hearing)
    (call,) = harness.intents(SUBMIT_OBJECTION)
    cancel_intent(harness.context, harness.source.fetch_heads(), call.id)
    send_posted_objections(hearing)
    assert (hearing.listed(), harness.states(SUBMIT_OBJECTION)) == ([], ["cancelled"])
    ended_objection = get_only_posted(hearing)
    assert ended_objection.ended_at is not None
    assert ended_objection.ended_reason == f"noop of nonce {call.nonce}"


@pytest.mark.parametrize("is_planned", [False, True])
def test_posted_objection_waits_while_sending_is_disabled(hearing: Hearing, *, is_planned: bool):
    post(hearing)
    if is_planned:
        hearing.harness.repeat(plan_objection_call)
    hearing.harness.restart(objections=None)
    work(hearing)
    assert hearing.harness.states(SUBMIT_OBJECTION) == ["planned"] * is_planned
    hearing.harness.restart(objections=Address(hearing.contract.address.lower()))
    send_posted_objections(hearing)
    assert count_objected(hearing) == 1


def test_planned_objection_is_withdrawn_if_the_objections_contract_changes(hearing: Hearing):
    harness = hearing.harness
    post(hearing)
    harness.repeat(plan_objection_call)
    other_contract = hearing.testbed.chain.deploy(CONTRACT, hearing.testbed.oracle.address)
    harness.restart(objections=Address(other_contract.address.lower()))
    work(hearing)
    assert harness.states(SUBMIT_OBJECTION) == ["superseded"]
    assert get_only_posted(hearing).ended_reason == "objections.address was changed"
    assert count_objected(hearing) == 0
