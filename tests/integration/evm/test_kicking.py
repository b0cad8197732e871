"""A bad node is proposed, waits for the veto, and goes; on a real chain and both databases."""

import hashlib
import json

import pytest

from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address
from oracle.kickouts.kickout_context import EXECUTE_KICK
from oracle.kickouts.kickout_eligibility import KickoutRules, load_kickout_cases
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PauseKind
from oracle.store.state.round_repository import RoundRepository
from oracle.txmgr.confirmer import confirm_transactions
from tests.support.evm.fixtures import chain
from tests.support.evm.groups import answer, compare, members
from tests.support.evm.network import Standing, word
from tests.support.office import FINALITY, LIMITS, RULES, SETTINGS, Office, next_step
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
# KickState of the contract.
PENDING = 1
# Rounds in a row that have to show a node low.
ROUNDS = SETTINGS.kick_after_rounds


def group(office: Office, number: int, order: tuple[int, int, int]) -> None:
    """One group; the nodes answer in this order, ten seconds apart."""
    network = office.premises.network
    name = word(number)
    tasks = members(network, 3, group=name)
    for place, node in enumerate(order):
        network.start(tasks[place], network.nodes[node])
    for place, node in enumerate(order):
        answer(network, tasks[place], network.nodes[node], "a")
    for task in tasks:
        network.reveal(task)
    compare(network, tasks, name)


def bad_pool(office: Office) -> None:
    """Node 2 is last in as many groups as its pool holds."""
    for number in range(1, POOL + 1):
        group(office, number, (0, 1, 2))


def node_two(office: Office) -> Address:
    return Address(office.premises.network.nodes[2].lower())


def standing(office: Office) -> Standing:
    network = office.premises.network
    return network.standing(network.nodes[2])


def proposed(office: Office) -> None:
    """Node 2 is due, reported, and its kickout is on chain."""
    bad_pool(office)
    # What was due first is as of a block before the node fell.
    for _ in range(1 + ROUNDS):
        office.pushed()
    office.until_final()
    office.mine()
    office.until_final()
    assert office.states()[-1] == "final", office.steps
    assert kick(office)["live"]


def pushed_without_kickouts(office: Office) -> None:
    """One more round; nothing is planned against anybody."""
    office.period()
    office.index()
    office.repeat(plan_push)
    office.repeat(next_step)
    office.mine()
    office.index()
    office.repeat(confirm_transactions)


def rounds_low(office: Office) -> int:
    """How many rounds in a row have shown node 2 under the line."""
    with office.store.read_transaction() as uow:
        cases = load_kickout_cases(uow, KickoutRules(RULES, SETTINGS), VerificationLevel.NOTHING)
    return next((case.low_rounds for case in cases), 0)


def pushed_until(office: Office, rounds: int) -> None:
    """Rounds until so many in a row have shown it; the first may speak of what was before."""
    office.index()
    while rounds_low(office) < rounds:
        office.pushed()


def shown_low(office: Office) -> None:
    """As many rounds have shown it as are asked for, and all of it is final."""
    office.index()
    while rounds_low(office) < ROUNDS:
        pushed_without_kickouts(office)
    office.mine(FINALITY + 1)
    office.index()


def kick(office: Office) -> dict[str, object]:
    """What the contract holds about the kickout of node 2."""
    node, does = office.premises.network.nodes[2], office.premises.oracle.functions
    names = ("index", "kick", "readyAt", "diesAt", "expelledUntil", "round", "config")
    kickout = dict(zip(names, does.nodeOf(node).call(), strict=True))
    evidence = does.evidenceOf(node).call()
    return kickout | {"live": kickout["kick"] == PENDING, "evidence": evidence}


def kinds(office: Office) -> list[str]:
    return [intent.request.kind for intent in office.intents()]


def test_node_with_persistently_low_score_is_kicked_out_once(office: Office):
    proposed(office)
    (evidence,) = office.folder_for_evidence.iterdir()
    digest = hashlib.sha256(evidence.read_bytes()).digest()
    assert kick(office)["evidence"] == digest
    assert evidence.name == f"0x{digest.hex()}.json"
    assert len(json.loads(evidence.read_text())["entries"]) == POOL

    while int(str(kick(office)["readyAt"])) > office.premises.chain.time:
        office.pushed()
    office.tick()
    office.mine()
    office.until_final()
    assert standing(office) is Standing.KICKED_OUT
    assert kinds(office).count("propose_kick") == kinds(office).count("execute_kick") == 1

    office.pushed()
    office.until_final()
    assert kinds(office).count("propose_kick") == kinds(office).count("execute_kick") == 1


def test_kickout_check_does_not_load_all_lanes(sqlite_office: Office, monkeypatch):
    office = sqlite_office
    bad_pool(office)
    office.pushed()

    def load(_room: RoundRepository) -> None:
        raise AssertionError("every lane was read")

    monkeypatch.setattr(RoundRepository, "load", load)
    office.repeat(plan_kickout_call)


def test_kickout_is_not_proposed_before_evidence_is_final(sqlite_office: Office):
    office = sqlite_office
    office.pushed()
    bad_pool(office)
    office.tick()
    assert "propose_kick" not in kinds(office)


def test_kickout_is_not_proposed_while_fold_is_behind_head(sqlite_office: Office):
    office = sqlite_office
    bad_pool(office)
    shown_low(office)
    group(office, 99, (2, 0, 1))

    assert office.repeat(plan_kickout_call) == []
    office.tick()
    assert "propose_kick" not in kinds(office)


def test_pending_kickout_execution_is_dropped_after_the_node_recovers(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    for _ in range(LIMITS.kick_rounds):
        pushed_without_kickouts(office)
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            office.context.account, PauseKind.OPERATOR, "for a test", office.context.stamp
        )
    office.tick()
    assert (kinds(office)[-1], office.states()[-1]) == ("execute_kick", "ready")
    group(office, 99, (2, 0, 1))
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
    proposed(office)
    for _ in range(LIMITS.kick_rounds - 1):
        office.pushed()
    office.tick()
    assert "execute_kick" not in kinds(office)


def test_kickout_of_recovered_node_is_cancelled(office: Office):
    proposed(office)
    group(office, 99, (2, 0, 1))
    office.pushed()
    office.until_final()

    assert kinds(office).count("cancel_kick") == 1
    assert not kick(office)["live"]
    assert standing(office) is Standing.ACTIVE


def test_vetoed_kickout_is_not_proposed_again_on_the_same_evidence(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    premises, network = office.premises, office.premises.network
    veto = premises.oracle.functions.cancelKick(network.nodes[2], b"no".ljust(32, b"\0"))
    premises.chain.send(veto, sender=premises.network.admin)
    office.pushed()
    office.pushed()
    office.until_final()

    assert kinds(office).count("propose_kick") == 1
    assert "execute_kick" not in kinds(office)
    assert standing(office) is Standing.ACTIVE


def test_node_that_quit_is_not_proposed_for_kickout(sqlite_office: Office):
    office = sqlite_office
    bad_pool(office)
    network = office.premises.network
    network.by(network.nodes[2], network.does.quit())
    for _ in range(ROUNDS):
        office.pushed()
    office.until_final()
    assert "propose_kick" not in kinds(office)
