"""Many starts in one tick: nonces without gaps, and every limit holds for each start."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.store.outbox.records import START_TASK
from oracle.txmgr.context import StepResult
from oracle.txmgr.manager import run_step
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, Status
from tests.support.harness import CAPS
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    build_dispatch_settings,
    fresh_stage,
    harness,
    make_gas_expensive,
    open_dispatcher_key,
    testbed,
)
from tests.support.txmgr.harness_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "make_gas_expensive", "testbed"]

Turn = Callable[[Heads], StepResult | None]


def drawn(harness: DispatchHarness, count: int) -> list[bytes]:
    """Create this number of tasks, each with a draw, none of them started."""
    tasks = [
        harness.testbed.network.create(fee=(count - number) * ETHER) for number in range(count)
    ]
    harness.mine()
    harness.index()
    return tasks


def take(harness: DispatchHarness, *steps: Turn) -> list[str]:
    done = [step(harness.source.fetch_heads()) for step in steps]
    return [step_result.action for step_result in done if step_result is not None]


def test_superseded_call_leaves_no_nonce_gap(harness: DispatchHarness):
    network = harness.testbed.network
    network.join(network.nodes[3])
    tasks = drawn(harness, 3)
    plan = partial(plan_dispatch, harness.dispatching)
    step = partial(run_step, harness.starts)
    assert take(harness, plan, step, step) == [
        "dispatch planned",
        "ready",
        "assigned",
    ]
    first = min(harness.intents(START_TASK), key=lambda intent: intent.nonce or 0)
    (key,) = (key for key in harness.standing() if key in first.request.subject)
    names = {node.lower(): node for node in network.nodes}
    network.by(names[harness.standing()[key]], network.does.pause())
    for _ in range(4):
        harness.block()

    assert {network.status(task) for task in tasks} == {Status.STARTED}
    assert harness.start_states().count("mined") == 3
    nonces = sorted(intent.nonce for intent in harness.intents() if intent.nonce is not None)
    assert nonces == list(range(len(nonces)))
    assert "gave back" in {step.action for step in harness.steps}


@pytest.mark.main_path
def test_task_starts_in_flight_never_exceed_the_limit(harness: DispatchHarness):
    harness.restart(dispatch=build_dispatch_settings(max_in_flight=2))
    tasks = drawn(harness, 3)
    harness.turn()
    assert harness.start_states() == ["live", "live"]
    for _ in range(3):
        harness.block()
    assert {harness.testbed.network.status(task) for task in tasks} == {Status.STARTED}


def test_task_starts_wait_with_a_reason_if_funds_are_missing(
    harness: DispatchHarness, make_gas_expensive: Callable[[], None]
):
    testbed = harness.testbed
    sender = open_dispatcher_key(testbed).address
    chain = testbed.chain
    tasks = drawn(harness, 2)
    make_gas_expensive()
    chain.rpc("anvil_setBalance", sender, "0x1")
    harness.turn()
    assert {intent.error_class for intent in harness.intents()} == {"funds"}

    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    for _ in range(4):
        harness.block()
    assert {testbed.network.status(task) for task in tasks} == {Status.STARTED}


def test_task_starts_stay_within_the_daily_cap(
    harness: DispatchHarness, make_gas_expensive: Callable[[], None]
):
    harness.restart(caps=replace(CAPS, cost_per_day=1))
    drawn(harness, 2)
    make_gas_expensive()
    harness.turn()
    assert {intent.error_class for intent in harness.intents()} == {"day_cap"}
