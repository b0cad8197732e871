"""The calls about a kickout: when each is planned, and when an unsent one is dropped."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typing_extensions import override

from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.qos_roots import RootsStatus
from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.oracle_events import KickAccused
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.kickout_policy import ObjectionTerms
from oracle.domain.reports.node_kicks import NEVER_EXPIRES, Expulsion, KickState, NodeKick
from oracle.domain.roots.pieces import PiecedRound
from oracle.kickouts.kick_calls import find_kickout_obstacle
from oracle.kickouts.kickout_cases import (
    KickoutCase,
    load_kickout_cases,
    load_last_round,
)
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.kickout_planner import (
    plan_accusation,
    plan_accusation_clearing,
    plan_execution,
    plan_retry,
)
from oracle.quorum.quorum_context import QuorumContext
from oracle.store.outbox.records import ACCUSE, CLEAR_KICK, EXECUTE_KICK, Account, Stamp
from oracle.store.state.objection_repository import ObjectionAnswer
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult
from oracle.txmgr.context import AccountContext, StepResult
from tests.support.due_nodes import (
    DOMAIN,
    DUE_SINCE,
    HEAD,
    OPENED,
    POLICY,
    SETTINGS,
    build_accused_kickout,
    build_leaves,
    store_kicks,
    store_nodes,
    store_round,
)
from tests.support.rounds import make_address
from tests.support.txmgr.stores import NewStore

DUE = make_address(1)
SENDER = make_address(0xAA)
READY_AT, ACCUSED_IN, KICK_ROUNDS = 5000, 1, 3


class AcceptingAccount(AccountContext):
    """An account whose calls all succeed when they are simulated."""

    @override
    def preflight(self, calldata: str, contract: Address | None = None) -> PreflightResult:
        return PreflightResult(PreflightOutcome.OK)


@pytest.fixture
def context(new_sqlite_store: NewStore, tmp_path: Path) -> Iterator[KickoutContext]:
    """Write five nodes, of which the first is due; the sender needs no chain."""
    with new_sqlite_store() as store:
        store_nodes(store, 5, 1)
        with store.transaction() as uow:
            epoch = uow.lease.acquire("test", 3600)
            assert epoch is not None
            account = Account(DOMAIN.chain_id, SENDER)
            uow.outbox.accounts.raise_next_nonce(account, 0, Stamp(0, epoch))
        sender_account: Any = SimpleNamespace(domain=DOMAIN, sender=SENDER)
        account_context = AcceptingAccount(
            store=store,
            sender_account=sender_account,
            registry=CallRegistry(decode_refusal),
            epoch=epoch,
            clock=lambda: 0.0,
            confirmations=2,
            finality_depth=2,
        )
        quorum = QuorumContext(account_context, SETTINGS)
        yield KickoutContext(quorum, POLICY, tmp_path / "evidence")


def state_round(context: KickoutContext, number: int, *due_nodes: Address) -> None:
    """Write a round in which the first node is due, or these nodes are."""
    with context.account_context.store.read_transaction() as uow:
        nodes = sorted((node.address for node in uow.nodes.iterate_all()), key=str)
    store_round(context.account_context.store, number, build_leaves(nodes, due_nodes))


def load_case(context: KickoutContext) -> tuple[KickoutCase, PiecedRound]:
    with context.account_context.store.read_transaction() as uow:
        last_round = load_last_round(uow, context.leaf_cache)
        (case,) = load_kickout_cases(uow, context.leaf_cache, POLICY, SETTINGS)
    assert last_round is not None
    return case, last_round


def build_status(round_number: int, time: int) -> RootsStatus:
    """Return the part of the contract's status that planning reads."""
    status = SimpleNamespace(
        block=BlockRef(HEAD.number, HEAD.hash, HEAD.parent_hash, time),
        head=SimpleNamespace(round=round_number),
        limits=SimpleNamespace(kick_rounds=KICK_ROUNDS),
    )
    return cast("RootsStatus", status)


def list_obstacles(context: KickoutContext) -> list[str | None]:
    """Return why each unsent call must not proceed."""
    with context.account_context.store.read_transaction() as uow:
        intents = uow.outbox.intents.list_newest(100)
        return [find_kickout_obstacle(context, uow, intent.request) for intent in intents]


def plan_accused_execution(
    context: KickoutContext, round_number: int, time: int
) -> StepResult | None:
    """Plan the execution of an accusation of round 1 when this round is the last one."""
    state_round(context, round_number, DUE)
    ready = build_accused_kickout(DUE, round_number=ACCUSED_IN, ready_at=READY_AT)
    store_kicks(context.account_context.store, ready)
    status = build_status(round_number, time)
    return plan_execution(context, *load_case(context), status)


def test_accusation_is_planned_once_with_its_evidence_file(context):
    state_round(context, 1, DUE)
    planned = plan_accusation(context, *load_case(context))
    assert planned is not None
    assert (planned.action, planned.detail) == (f"{ACCUSE} planned", DUE)
    assert [path.name for path in context.evidence_folder.iterdir()] == [f"{DUE}-{DUE_SINCE}.json"]
    assert plan_accusation(context, *load_case(context)) is None
    assert list_obstacles(context) == [None]


def test_accusation_is_not_planned_before_a_round_contains_it(context):
    state_round(context, 1)
    assert plan_accusation(context, *load_case(context)) is None
    assert not context.evidence_folder.exists()


def test_accusation_of_closed_interval_is_not_planned(context):
    state_round(context, 1, DUE)
    recover(context)
    assert plan_accusation(context, *load_case(context)) is None


def recover(context: KickoutContext) -> None:
    """Give the node a new interval at the head, as if it had recovered meanwhile."""
    with context.account_context.store.transaction() as uow:
        node = uow.nodes.get_many([DUE])[DUE]
        uow.nodes.save([replace(node, kickout_due_time=DUE_SINCE + 60)])


def test_unsent_kickout_call_is_dropped_after_the_next_round(context):
    state_round(context, 1, DUE)
    plan_accusation(context, *load_case(context))
    state_round(context, 2, DUE)
    assert list_obstacles(context) == ["its proof is of round 1, which is no longer the last one"]


def test_unsent_accusation_is_dropped_after_the_node_recovers(context):
    state_round(context, 1, DUE)
    plan_accusation(context, *load_case(context))
    recover(context)
    assert list_obstacles(context) == ["the kickout is no longer due"]


def test_unsent_accusation_is_dropped_if_the_node_is_already_accused(context):
    state_round(context, 1, DUE)
    plan_accusation(context, *load_case(context))
    store_kicks(context.account_context.store, build_accused_kickout(DUE))
    assert list_obstacles(context) == ["the node is accused already"]


@pytest.mark.parametrize(
    ("round_number", "time", "is_planned"),
    [
        (ACCUSED_IN + KICK_ROUNDS, READY_AT, True),
        (ACCUSED_IN + KICK_ROUNDS + 1, READY_AT + 60, True),
        (ACCUSED_IN + KICK_ROUNDS - 1, READY_AT, False),
        (ACCUSED_IN + KICK_ROUNDS, READY_AT - 1, False),
    ],
)
def test_execution_is_planned_only_after_veto_delay_and_kick_rounds(
    context, round_number, time, is_planned
):
    planned = plan_accused_execution(context, round_number, time)
    assert (planned is not None) is is_planned
    if planned is not None:
        assert planned.action == f"{EXECUTE_KICK} planned"
        assert list_obstacles(context) == [None]


def test_execution_is_not_planned_after_accepted_objection(context):
    accept_objection(context)
    assert plan_accused_execution(context, ACCUSED_IN + KICK_ROUNDS, READY_AT) is None


def test_unsent_execution_is_dropped_after_accepted_objection(context):
    plan_accused_execution(context, ACCUSED_IN + KICK_ROUNDS, READY_AT)
    accept_objection(context)
    assert list_obstacles(context) == ["this reporter accepted the objection of the node"]


def test_unsent_accusation_is_dropped_after_accepted_objection(context):
    state_round(context, 1, DUE)
    plan_accusation(context, *load_case(context))
    accept_objection(context)
    policy = POLICY._replace(objection_terms=ObjectionTerms(window=0, answer=0, ignored=0))
    assert list_obstacles(replace(context, policy=policy)) == [
        "this reporter accepted the objection: an outage"
    ]


def accept_objection(context: KickoutContext) -> None:
    with context.account_context.store.transaction() as uow:
        uow.objections.save_answer(ObjectionAnswer(DUE, DUE_SINCE, True, "an outage", 0))


@pytest.mark.parametrize("stated_nodes", [(), (make_address(2),)])
def test_execution_is_not_planned_if_the_last_round_lacks_the_interval(context, stated_nodes):
    store_kicks(context.account_context.store, build_accused_kickout(DUE, ready_at=READY_AT))
    state_round(context, 9, *stated_nodes)
    case, last_round = load_case(context)
    assert plan_execution(context, case, last_round, build_status(9, READY_AT)) is None


def test_execution_is_not_planned_for_an_interval_not_accused(context):
    store_kicks(
        context.account_context.store,
        NodeKick(DUE).accuse(KickAccused(OPENED, 0, DUE, 1, DUE_SINCE - 60, ZERO_HASH, READY_AT)),
    )
    state_round(context, 9, DUE)
    case, last_round = load_case(context)
    assert plan_execution(context, case, last_round, build_status(9, READY_AT)) is None


def test_accusation_is_cleared_if_the_last_round_lacks_its_interval(context):
    store_kicks(context.account_context.store, build_accused_kickout(DUE))
    state_round(context, 1, DUE)
    assert plan_accusation_clearing(context, *load_case(context)) is None
    state_round(context, 2)
    planned = plan_accusation_clearing(context, *load_case(context))
    assert planned is not None
    assert planned.action == f"{CLEAR_KICK} planned"
    assert plan_accusation_clearing(context, *load_case(context)) is None
    assert list_obstacles(context) == [None]


def test_clearing_is_not_planned_for_a_node_that_is_not_accused(context):
    state_round(context, 1)
    assert plan_accusation_clearing(context, *load_case(context)) is None


@pytest.mark.parametrize(("round_number", "is_planned"), [(6, False), (7, True), (8, True)])
def test_retry_is_planned_only_after_kick_rounds(context, round_number, is_planned):
    tried_in = 7 - KICK_ROUNDS
    expulsion = Expulsion(
        OPENED, tried_in, NEVER_EXPIRES, make_address(0xB), tried_in, Position(20, 0, 0)
    )
    kick = NodeKick(DUE, KickState.REFUSED, expulsion=expulsion)
    status = build_status(round_number, READY_AT)
    assert (plan_retry(context, kick, status) is not None) is is_planned
    # A retry that is planned is not planned again.
    assert plan_retry(context, kick, status) is None
