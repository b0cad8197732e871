"""A bad node is accused, waits for the veto, and is expelled; on a chain and both databases."""

import json

import pytest

from oracle.domain.ids import Address
from oracle.kickouts.kickout_cases import load_kickout_cases
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import ACCUSE, CLEAR_KICK, EXECUTE_KICK, PauseKind
from oracle.txmgr.confirmer import confirm_transactions
from tests.support.evm.fixtures import chain
from tests.support.evm.groups import compare_answers, create_member_tasks, submit_answer
from tests.support.evm.network import Standing, encode_word
from tests.support.harness import FINALITY, LIMITS, Harness, run_next_step
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    harness,
    sqlite_harness,
    testbed,
)

pytestmark = pytest.mark.slow

__all__ = ["chain", "fresh_chain", "fresh_testbed", "harness", "sqlite_harness", "testbed"]

POOL = 4
REFILL_SECONDS = 3600
# KickState of the contract.
ACCUSED = 1
_FIELDS = ("state", "due_since", "ready_at", "expelled_until", "spared_until", "allowed", "round")


def group(harness: Harness, number: int, order: tuple[int, int, int]) -> None:
    """Run one group, in which the nodes answer in this order, ten seconds apart."""
    network = harness.testbed.network
    name = encode_word(number)
    tasks = create_member_tasks(network, 3, group=name)
    for place, node in enumerate(order):
        network.start(tasks[place], network.nodes[node])
    for place, node in enumerate(order):
        submit_answer(network, tasks[place], network.nodes[node], "a")
    for task in tasks:
        network.reveal(task)
    compare_answers(network, tasks, name)


def fill_bad_pool(harness: Harness, first: int = 1) -> None:
    """Rank node 2 last in as many groups as its pool has scores; `first` is the first group."""
    for number in range(first, first + POOL):
        group(harness, number, (0, 1, 2))


def recover(harness: Harness, number: int = 99) -> None:
    """Rank node 2 first in a group, so that its kickout is no longer due."""
    group(harness, number, (2, 0, 1))


def node_two(harness: Harness) -> Address:
    return Address(harness.testbed.network.nodes[2].lower())


def standing(harness: Harness) -> Standing:
    network = harness.testbed.network
    return network.standing(network.nodes[2])


def push_without_kickouts(harness: Harness) -> None:
    """Run one more round without planning a kickout."""
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    harness.repeat(run_next_step)
    harness.mine()
    harness.index()
    harness.repeat(confirm_transactions)


def get_stated_due_since(harness: Harness) -> int:
    """Return the due interval of node 2 that the last round states, or 0."""
    kickouts = harness.kickouts
    with harness.store.read_transaction() as uow:
        cases = load_kickout_cases(
            uow,
            kickouts.leaf_cache,
            kickouts.policy,
            kickouts.report_settings,
            [node_two(harness)],
        )
    return next((case.due_since for case in cases), 0)


def run_until_due_is_stated(harness: Harness) -> None:
    """Run rounds until the last one states that the kickout of node 2 is due; nobody accuses."""
    harness.index()
    while not get_stated_due_since(harness):
        push_without_kickouts(harness)
    harness.mine(FINALITY + 1)
    harness.index()


def accuse_node_two(harness: Harness) -> None:
    """Make the kickout of node 2 due, and accuse it on chain."""
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)
    harness.tick()
    harness.mine()
    harness.until_final()
    assert kick(harness)["live"], harness.steps


def pass_veto_delay(harness: Harness) -> None:
    """Run rounds, without planning a kickout, until an accusation can be executed."""
    accusation = kick(harness)
    ready_round = int(str(accusation["round"])) + LIMITS.kick_rounds
    ready_at = int(str(accusation["ready_at"]))
    while harness.testbed.round < ready_round or harness.testbed.chain.time < ready_at:
        push_without_kickouts(harness)


def empty_bucket(harness: Harness) -> int:
    """Block kickouts for an hour; return the time at which they are possible again."""
    testbed = harness.testbed
    gas, cooldown, *_ = testbed.oracle.functions.kickLimits().call()
    for bucket in ((0, 1, REFILL_SECONDS), (1, 1, REFILL_SECONDS)):
        call = testbed.oracle.functions.setKickLimits((gas, cooldown, *bucket))
        testbed.chain.send(call, sender=testbed.network.admin)
    _, since = testbed.oracle.functions.bucket().call()
    return int(since) + REFILL_SECONDS


def kick(harness: Harness) -> dict[str, object]:
    """Return the contract's state of the kickout of node 2.

    `live` is whether it is accused, and `evidence` the hash in the newest accusation.
    """
    node = harness.testbed.network.nodes[2]
    oracle = harness.testbed.oracle
    kickout = dict(zip(_FIELDS, oracle.functions.kickOf(node).call(), strict=True))
    logs = oracle.events.KickAccused().get_logs(from_block=0, argument_filters={"node": node})
    evidence = logs[-1]["args"]["evidence"] if logs else None
    return kickout | {"live": kickout["state"] == ACCUSED, "evidence": evidence}


def kinds(harness: Harness) -> list[str]:
    return [intent.request.kind for intent in harness.intents()]


def test_node_with_persistently_low_score_is_kicked_out_once(harness: Harness):
    accuse_node_two(harness)
    (evidence,) = harness.folder_for_evidence.iterdir()
    assert evidence.name == f"{node_two(harness)}-{kick(harness)['due_since']}.json"
    assert len(json.loads(evidence.read_text())["entries"]) == POOL

    pass_veto_delay(harness)
    harness.tick()
    harness.mine()
    harness.until_final()
    assert standing(harness) is Standing.KICKED_OUT
    assert kinds(harness).count(ACCUSE) == kinds(harness).count(EXECUTE_KICK) == 1

    harness.pushed()
    harness.until_final()
    assert kinds(harness).count(ACCUSE) == kinds(harness).count(EXECUTE_KICK) == 1


def test_due_node_is_not_accused_until_a_round_contains_its_kickout(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.pushed()
    fill_bad_pool(harness)
    harness.index()
    harness.repeat(plan_kickout_call)
    assert ACCUSE not in kinds(harness)


def test_due_node_is_not_accused_while_the_fold_lags_the_head(sqlite_harness: Harness):
    harness = sqlite_harness
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)
    recover(harness)

    assert harness.repeat(plan_kickout_call) == []
    harness.tick()
    assert ACCUSE not in kinds(harness)


def test_unsent_execution_is_dropped_after_the_node_recovers(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    pass_veto_delay(harness)
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            harness.context.account, PauseKind.OPERATOR, "for a test", harness.context.stamp
        )
    harness.tick()
    assert (kinds(harness)[-1], harness.states()[-1]) == (EXECUTE_KICK, "ready")
    recover(harness)
    harness.index()
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.resume(harness.context.account, harness.context.stamp)
    harness.tick()

    (execution,) = harness.intents(EXECUTE_KICK)
    assert (execution.state.value, execution.error_text) == (
        "superseded",
        "the kickout is no longer due",
    )
    assert standing(harness) is Standing.ACTIVE


def test_kickout_is_not_executed_before_the_veto_delay_ends(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    for _ in range(LIMITS.kick_rounds - 1):
        harness.pushed()
    harness.tick()
    assert EXECUTE_KICK not in kinds(harness)


def test_accusation_of_a_recovered_node_is_cleared(harness: Harness):
    accuse_node_two(harness)
    recover(harness)
    harness.pushed()
    harness.until_final()

    assert kinds(harness).count(CLEAR_KICK) == 1
    assert not kick(harness)["live"]
    assert standing(harness) is Standing.ACTIVE


def test_node_is_not_accused_again_for_a_vetoed_interval(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    testbed, network = harness.testbed, harness.testbed.network
    veto = testbed.oracle.functions.veto(network.nodes[2], b"no".ljust(32, b"\0"))
    testbed.chain.send(veto, sender=testbed.network.admin)
    harness.pushed()
    harness.pushed()
    harness.until_final()

    assert kinds(harness).count(ACCUSE) == 1
    assert EXECUTE_KICK not in kinds(harness)
    assert standing(harness) is Standing.ACTIVE


def test_node_that_quits_while_its_kickout_is_due_is_still_expelled(sqlite_harness: Harness):
    harness = sqlite_harness
    fill_bad_pool(harness)
    network = harness.testbed.network
    network.by(network.nodes[2], network.does.quit())
    run_until_due_is_stated(harness)
    harness.tick()
    harness.mine()
    pass_veto_delay(harness)
    harness.tick()
    harness.mine()
    assert harness.testbed.oracle.functions.isExpelled(network.nodes[2]).call()
