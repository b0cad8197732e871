"""Obstacles of a start: another sender, a node that left, a failed call, pending hot-set words."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from web3 import Web3

from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.signing.local import KeySigner
from oracle.store.outbox.records import QUEUE_TASK
from oracle.txmgr import admission, signing_queue
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.nonce_sync import reconcile_nonces
from tests.pools import pool_of
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, Status
from tests.support.harness import CAPS, create_key_files, run_next_step
from tests.support.sending.in_flight import GWEI
from tests.support.sending.stolen_keys import sign_stolen_payment
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

pytestmark = pytest.mark.slow

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "make_gas_expensive", "testbed"]

# Far deeper than in any of these tests.
_NEVER = 1000


def drawn(harness: DispatchHarness) -> bytes:
    task = harness.testbed.network.create()
    harness.mine()
    harness.index()
    return task


def steps(harness: DispatchHarness) -> Iterator[str]:
    """Run the daemon's next steps for its starts, without reading the chain."""
    while True:
        heads = harness.source.fetch_heads()
        step = plan_dispatch(harness.dispatching, heads) or run_next_step(harness.starts, heads)
        if step is None:
            return
        yield step.action


def send_with_too_little_gas(harness: DispatchHarness) -> None:
    """Send with too little gas, so that the call is mined and fails."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(admission, "compute_gas_limit", lambda *_: 50_000)
        patched.setattr(
            signing_queue, "_is_call_within_limits", lambda pair: pair[1].is_call_admissible
        )
        harness.turn()


@pytest.mark.parametrize("taken", [1, 2, 3, 4, 5])
def test_new_dispatcher_key_completes_starts_of_the_old_key(
    harness: DispatchHarness, tmp_path: Path, taken: int
):
    network, chain = harness.testbed.network, harness.testbed.chain
    task = drawn(harness)
    for _, _step in zip(range(taken), steps(harness), strict=False):
        pass
    other_signer = KeySigner.open(*create_key_files(tmp_path, "other"))
    network.by(
        network.admin, network.does.setDispatcher(Web3.to_checksum_address(other_signer.address))
    )
    chain.rpc("anvil_setBalance", other_signer.address, hex(ETHER))
    domain = harness.starts.sender_account.domain
    harness.starts.sender_account.pool.close()
    publisher = SenderAccount(
        pool_of(*harness.urls), domain=domain, caps=harness.caps, keys=other_signer
    )
    harness.starts = replace(harness.starts, sender_account=publisher)
    reconcile_nonces(harness.starts)
    for _ in range(3):
        harness.turn()
        harness.mine()

    assert network.status(task) is Status.STARTED


def test_task_start_on_a_node_that_quit_is_retried_once_per_block(harness: DispatchHarness):
    network = harness.testbed.network
    task = drawn(harness)
    (node,) = harness.standing().values()
    names = {address.lower(): address for address in network.nodes}
    # The fold does not include it yet, the contract does.
    network.by(names[node], network.does.quit())
    actions = [action for action, _ in zip(steps(harness), range(20), strict=False)]
    assert actions == ["dispatch planned", "start_task waits"]

    for _ in range(4):
        harness.block()
    assert network.status(task) is Status.STARTED
    assert harness.start_states() == ["superseded", "mined"]


def test_failed_start_is_retried_before_finality(harness: DispatchHarness):
    network = harness.testbed.network
    harness.starts = replace(harness.starts, confirmations=_NEVER)
    task = drawn(harness)
    send_with_too_little_gas(harness)
    harness.block()
    assert network.status(task) is Status.CREATED
    for _ in range(3):
        harness.block()

    assert network.status(task) is Status.STARTED
    assert harness.start_states() == ["mined", "mined"]


def test_repeated_start_failures_increase_the_retry_interval(harness: DispatchHarness):
    harness.starts = replace(harness.starts, confirmations=_NEVER)
    drawn(harness)
    tried = []
    for _ in range(16):
        send_with_too_little_gas(harness)
        tried.append(len(harness.start_states()))
        harness.mine()

    assert [tried.count(number) for number in (1, 2, 3)] == [3, 5, 8]


def test_task_starts_after_a_reorg_removes_its_failed_start(
    harness: DispatchHarness,
):
    network, chain = harness.testbed.network, harness.testbed.chain
    harness.starts = replace(harness.starts, confirmations=_NEVER)
    task = drawn(harness)
    send_with_too_little_gas(harness)
    for _ in range(3):
        harness.block()
    assert harness.start_states() == ["mined", "live"]

    chain.rpc("anvil_reorg", 3, [])
    for _ in range(6):
        harness.block()
    assert network.status(task) is Status.STARTED


def test_task_start_whose_nonce_was_used_elsewhere_is_resent_on_release(
    harness: DispatchHarness,
):
    network, chain = harness.testbed.network, harness.testbed.chain
    task = drawn(harness)
    actions = steps(harness)
    while next(actions) != "start_task signed":
        pass
    signer = open_dispatcher_key(harness.testbed)
    nonce = int(chain.rpc("eth_getTransactionCount", signer.address, "latest"), 16)
    raw = sign_stolen_payment(signer, nonce, signer.address, 50 * GWEI)
    chain.rpc("eth_sendRawTransaction", raw)
    harness.block()
    for _ in range(6):
        harness.block()
    assert network.status(task) is Status.CREATED

    with harness.starts.write_transaction() as uow:
        uow.outbox.accounts.resume(harness.starts.account, harness.starts.stamp)
    for _ in range(3):
        harness.block()
    assert network.status(task) is Status.STARTED


def test_queue_calls_reserve_half_of_the_daily_budget_for_task_starts(
    harness: DispatchHarness,
    make_gas_expensive: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
):
    network = harness.testbed.network
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    make_gas_expensive()
    monkeypatch.setattr(harness.testbed.chain, "price", {"maxFeePerGas": hex(10**11)})
    network.create()
    for _ in range(3):
        harness.block()
    (queue_call,) = harness.intents(QUEUE_TASK)
    harness.restart(caps=replace(CAPS, cost_per_day=8 * (queue_call.max_cost_wei or 0)))
    tasks = [network.create() for _ in range(9)]
    for _ in range(4):
        harness.block()
    network.by(network.nodes[0], network.does.resume())
    for _ in range(4):
        harness.block()

    states = [network.status(task) for task in tasks]
    assert Status.CREATED in states, "the words were never held back"
    assert harness.start_states() == ["mined"]


def test_queue_calls_do_not_block_task_starts(harness: DispatchHarness):
    network = harness.testbed.network
    harness.restart(dispatch=build_dispatch_settings(max_in_flight=2))
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    for _ in range(2):
        network.create()
    for _ in range(2):
        network.create(fee=2 * ETHER)
    harness.turn()
    network.by(network.nodes[0], network.does.resume())
    # Two words are in the pool, or were planned; the start does not wait for their block.
    harness.index()
    harness.mine()
    harness.index()
    plan_dispatch(harness.dispatching, harness.source.fetch_heads())
    assert harness.start_states() == ["planned"]
