"""Many starts in one tick: nonces without gaps, and every limit holds for each start."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_calls import START_TASK
from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.txmgr.context import StepResult
from oracle.txmgr.manager import run_step
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, Status
from tests.support.office import CAPS
from tests.support.txmgr.dispatch_office import (
    DispatchOffice,
    dear,
    dispatcher_of,
    fresh_stage,
    office,
    premises,
    settings,
)
from tests.support.txmgr.office_fixtures import fresh_chain

__all__ = ["chain", "dear", "fresh_chain", "fresh_stage", "office", "premises"]

Turn = Callable[[Heads], StepResult | None]


def drawn(office: DispatchOffice, count: int) -> list[bytes]:
    """Create this number of tasks, each with a draw, none of them started."""
    tasks = [
        office.premises.network.create(fee=(count - number) * ETHER) for number in range(count)
    ]
    office.mine()
    office.index()
    return tasks


def take(office: DispatchOffice, *steps: Turn) -> list[str]:
    done = [step(office.source.fetch_heads()) for step in steps]
    return [step_result.action for step_result in done if step_result is not None]


def test_superseded_call_leaves_no_nonce_gap(office: DispatchOffice):
    network = office.premises.network
    network.join(network.nodes[3])
    tasks = drawn(office, 3)
    plan, step = (
        partial(plan_dispatch, office.dispatching),
        partial(run_step, office.starts),
    )
    assert take(office, plan, step, step) == [
        "dispatch planned",
        "ready",
        "assigned",
    ]
    first = min(office.intents(START_TASK), key=lambda intent: intent.nonce or 0)
    (key,) = (key for key in office.standing() if key in first.request.subject)
    names = {node.lower(): node for node in network.nodes}
    network.by(names[office.standing()[key]], network.does.pause())
    for _ in range(4):
        office.block()

    assert {network.status(task) for task in tasks} == {Status.STARTED}
    assert office.start_states().count("mined") == 3
    nonces = sorted(intent.nonce for intent in office.intents() if intent.nonce is not None)
    assert nonces == list(range(len(nonces)))
    assert "gave back" in {step.action for step in office.steps}


@pytest.mark.main_path
def test_starts_in_flight_never_exceed_limit(office: DispatchOffice):
    office.restart(dispatch=settings(max_in_flight=2))
    tasks = drawn(office, 3)
    office.turn()
    assert office.start_states() == ["live", "live"]
    for _ in range(3):
        office.block()
    assert {office.premises.network.status(task) for task in tasks} == {Status.STARTED}


def test_unaffordable_starts_wait_with_reason(office: DispatchOffice, dear: Callable[[], None]):
    premises = office.premises
    sender = dispatcher_of(premises).address
    chain = premises.chain
    tasks = drawn(office, 2)
    dear()
    chain.rpc("anvil_setBalance", sender, "0x1")
    office.turn()
    assert {intent.error_class for intent in office.intents()} == {"funds"}

    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    for _ in range(4):
        office.block()
    assert {premises.network.status(task) for task in tasks} == {Status.STARTED}


def test_starts_stay_within_daily_cap(office: DispatchOffice, dear: Callable[[], None]):
    office.restart(caps=replace(CAPS, cost_per_day=1))
    drawn(office, 2)
    dear()
    office.turn()
    assert {intent.error_class for intent in office.intents()} == {"day_cap"}
