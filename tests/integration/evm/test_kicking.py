"""A bad node is accused, waits for the veto, and is expelled; on a chain and both databases."""

import json

import pytest

from oracle.domain.ids import Address
from oracle.kickouts.kickout_cases import load_kickout_cases
from oracle.kickouts.kickout_context import ACCUSE, CLEAR_KICK, EXECUTE_KICK
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PauseKind
from oracle.txmgr.confirmer import confirm_transactions
from tests.support.evm.fixtures import chain
from tests.support.evm.groups import compare_answers, create_member_tasks, submit_answer
from tests.support.evm.network import Standing, encode_word
from tests.support.office import FINALITY, LIMITS, Office, next_step
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    office,
    premises,
    sqlite_office,
)

pytestmark = pytest.mark.slow

__all__ = ["chain", "fresh_chain", "fresh_premises", "office", "premises", "sqlite_office"]

POOL = 4
REFILL_SECONDS = 3600
# KickState of the contract.
ACCUSED = 1
_FIELDS = ("state", "due_since", "ready_at", "expelled_until", "spared_until", "allowed", "round")


def group(office: Office, number: int, order: tuple[int, int, int]) -> None:
    """Run one group, in which the nodes answer in this order, ten seconds apart."""
    network = office.premises.network
    name = encode_word(number)
    tasks = create_member_tasks(network, 3, group=name)
    for place, node in enumerate(order):
        network.start(tasks[place], network.nodes[node])
    for place, node in enumerate(order):
        submit_answer(network, tasks[place], network.nodes[node], "a")
    for task in tasks:
        network.reveal(task)
    compare_answers(network, tasks, name)


def fill_bad_pool(office: Office, first: int = 1) -> None:
    """Rank node 2 last in as many groups as its pool has scores; `first` is the first group."""
    for number in range(first, first + POOL):
        group(office, number, (0, 1, 2))


def recover(office: Office, number: int = 99) -> None:
    """Rank node 2 first in a group, so that its kickout is no longer due."""
    group(office, number, (2, 0, 1))


def node_two(office: Office) -> Address:
    return Address(office.premises.network.nodes[2].lower())


def standing(office: Office) -> Standing:
    network = office.premises.network
    return network.standing(network.nodes[2])


def push_without_kickouts(office: Office) -> None:
    """Run one more round without planning a kickout."""
    office.period()
    office.index()
    office.repeat(plan_push)
    office.repeat(next_step)
    office.mine()
    office.index()
    office.repeat(confirm_transactions)


def get_stated_due_since(office: Office) -> int:
    """Return the due interval of node 2 that the last round states, or 0."""
    kickouts = office.kickouts
    with office.store.read_transaction() as uow:
        cases = load_kickout_cases(
            uow, kickouts.leaf_cache, kickouts.policy, kickouts.settings, [node_two(office)]
        )
    return next((case.due_since for case in cases), 0)


def run_until_due_is_stated(office: Office) -> None:
    """Run rounds until the last one states that the kickout of node 2 is due; nobody accuses."""
    office.index()
    while not get_stated_due_since(office):
        push_without_kickouts(office)
    office.mine(FINALITY + 1)
    office.index()


def accuse_node_two(office: Office) -> None:
    """Make the kickout of node 2 due, and accuse it on chain."""
    fill_bad_pool(office)
    run_until_due_is_stated(office)
    office.tick()
    office.mine()
    office.until_final()
    assert kick(office)["live"], office.steps


def pass_veto_delay(office: Office) -> None:
    """Run rounds, without planning a kickout, until an accusation can be executed."""
    accusation = kick(office)
    ready_round = int(str(accusation["round"])) + LIMITS.kick_rounds
    ready_at = int(str(accusation["ready_at"]))
    while office.premises.round < ready_round or office.premises.chain.time < ready_at:
        push_without_kickouts(office)


def empty_bucket(office: Office) -> int:
    """Block kickouts for an hour; return the time at which they are possible again."""
    premises = office.premises
    gas, cooldown, *_ = premises.oracle.functions.kickLimits().call()
    for bucket in ((0, 1, REFILL_SECONDS), (1, 1, REFILL_SECONDS)):
        call = premises.oracle.functions.setKickLimits((gas, cooldown, *bucket))
        premises.chain.send(call, sender=premises.network.admin)
    _, since = premises.oracle.functions.bucket().call()
    return int(since) + REFILL_SECONDS


def kick(office: Office) -> dict[str, object]:
    """Return the contract's state of the kickout of node 2.

    `live` is whether it is accused, and `evidence` the hash in the newest accusation.
    """
    node, oracle = office.premises.network.nodes[2], office.premises.oracle
    kickout = dict(zip(_FIELDS, oracle.functions.kickOf(node).call(), strict=True))
    logs = oracle.events.KickAccused().get_logs(from_block=0, argument_filters={"node": node})
    evidence = logs[-1]["args"]["evidence"] if logs else None
    return kickout | {"live": kickout["state"] == ACCUSED, "evidence": evidence}


def kinds(office: Office) -> list[str]:
    return [intent.request.kind for intent in office.intents()]


def test_node_with_persistently_low_score_is_kicked_out_once(office: Office):
    accuse_node_two(office)
    (evidence,) = office.folder_for_evidence.iterdir()
    assert evidence.name == f"{node_two(office)}-{kick(office)['due_since']}.json"
    assert len(json.loads(evidence.read_text())["entries"]) == POOL

    pass_veto_delay(office)
    office.tick()
    office.mine()
    office.until_final()
    assert standing(office) is Standing.KICKED_OUT
    assert kinds(office).count(ACCUSE) == kinds(office).count(EXECUTE_KICK) == 1

    office.pushed()
    office.until_final()
    assert kinds(office).count(ACCUSE) == kinds(office).count(EXECUTE_KICK) == 1


def test_due_kickout_is_not_accused_before_a_round_states_it(sqlite_office: Office):
    office = sqlite_office
    office.pushed()
    fill_bad_pool(office)
    office.index()
    office.repeat(plan_kickout_call)
    assert ACCUSE not in kinds(office)


def test_kickout_is_not_accused_while_fold_is_behind_head(sqlite_office: Office):
    office = sqlite_office
    fill_bad_pool(office)
    run_until_due_is_stated(office)
    recover(office)

    assert office.repeat(plan_kickout_call) == []
    office.tick()
    assert ACCUSE not in kinds(office)


def test_unsent_execution_is_dropped_after_the_node_recovers(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    pass_veto_delay(office)
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            office.context.account, PauseKind.OPERATOR, "for a test", office.context.stamp
        )
    office.tick()
    assert (kinds(office)[-1], office.states()[-1]) == (EXECUTE_KICK, "ready")
    recover(office)
    office.index()
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.resume(office.context.account, office.context.stamp)
    office.tick()

    (execution,) = office.intents(EXECUTE_KICK)
    assert (execution.state.value, execution.error_text) == (
        "superseded",
        "the kickout is no longer due",
    )
    assert standing(office) is Standing.ACTIVE


def test_kickout_is_not_executed_before_veto_delay_ends(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    for _ in range(LIMITS.kick_rounds - 1):
        office.pushed()
    office.tick()
    assert EXECUTE_KICK not in kinds(office)


def test_accusation_of_recovered_node_is_cleared(office: Office):
    accuse_node_two(office)
    recover(office)
    office.pushed()
    office.until_final()

    assert kinds(office).count(CLEAR_KICK) == 1
    assert not kick(office)["live"]
    assert standing(office) is Standing.ACTIVE


def test_vetoed_interval_is_not_accused_again(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    premises, network = office.premises, office.premises.network
    veto = premises.oracle.functions.veto(network.nodes[2], b"no".ljust(32, b"\0"))
    premises.chain.send(veto, sender=premises.network.admin)
    office.pushed()
    office.pushed()
    office.until_final()

    assert kinds(office).count(ACCUSE) == 1
    assert EXECUTE_KICK not in kinds(office)
    assert standing(office) is Standing.ACTIVE


def test_node_that_quits_while_its_kickout_is_due_is_still_expelled(sqlite_office: Office):
    office = sqlite_office
    fill_bad_pool(office)
    network = office.premises.network
    network.by(network.nodes[2], network.does.quit())
    run_until_due_is_stated(office)
    office.tick()
    office.mine()
    pass_veto_delay(office)
    office.tick()
    office.mine()
    assert office.premises.oracle.functions.isExpelled(network.nodes[2]).call()
