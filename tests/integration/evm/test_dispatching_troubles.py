"""Obstacles of a start: another sender, a node that left, a failed call, pending hot-set words."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from web3 import Web3

from oracle.dispatch.dispatch_calls import QUEUE_TASK
from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.signing.local import KeySigner
from oracle.txmgr import admission, signing_queue
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.nonce_sync import reconcile_nonces
from tests.pools import pool_of
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, Status
from tests.support.office import CAPS, key_files, next_step
from tests.support.sending.in_flight import GWEI
from tests.support.sending.stolen_keys import sign_stolen_payment
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

pytestmark = pytest.mark.slow

__all__ = ["chain", "dear", "fresh_chain", "fresh_stage", "office", "premises"]

# Far deeper than in any of these tests.
_NEVER = 1000


def drawn(office: DispatchOffice) -> bytes:
    task = office.premises.network.create()
    office.mine()
    office.index()
    return task


def steps(office: DispatchOffice) -> Iterator[str]:
    """Run the daemon's next steps for its starts, without reading the chain."""
    while True:
        heads = office.source.fetch_heads()
        step = plan_dispatch(office.dispatching, heads) or next_step(office.starts, heads)
        if step is None:
            return
        yield step.action


def in_want_of_gas(office: DispatchOffice) -> None:
    """Send with too little gas, so that the call is mined and fails."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(admission, "compute_gas_limit", lambda *_: 50_000)
        patched.setattr(signing_queue, "_is_within_limits", lambda pair: pair[1].is_admissible)
        office.turn()


@pytest.mark.parametrize("taken", [1, 2, 3, 4, 5])
def test_replacement_dispatcher_key_resumes_a_start_at_any_stage(
    office: DispatchOffice, tmp_path: Path, taken: int
):
    network, chain = office.premises.network, office.premises.chain
    task = drawn(office)
    for _, _step in zip(range(taken), steps(office), strict=False):
        pass
    other_signer = KeySigner.open(*key_files(tmp_path, "other"))
    network.by(
        network.admin, network.does.setDispatcher(Web3.to_checksum_address(other_signer.address))
    )
    chain.rpc("anvil_setBalance", other_signer.address, hex(ETHER))
    domain = office.starts.sender_account.domain
    office.starts.sender_account.pool.close()
    publisher = SenderAccount(
        pool_of(*office.urls), domain=domain, caps=office.caps, keys=other_signer
    )
    office.starts = replace(office.starts, sender_account=publisher)
    reconcile_nonces(office.starts)
    for _ in range(3):
        office.turn()
        office.mine()

    assert network.status(task) is Status.STARTED


def test_start_on_departed_node_is_attempted_once_per_block(office: DispatchOffice):
    network = office.premises.network
    task = drawn(office)
    (node,) = office.standing().values()
    names = {address.lower(): address for address in network.nodes}
    # The fold does not include it yet, the contract does.
    network.by(names[node], network.does.quit())
    actions = [action for action, _ in zip(steps(office), range(20), strict=False)]
    assert actions == ["dispatch planned", "start_task waits"]

    for _ in range(4):
        office.block()
    assert network.status(task) is Status.STARTED
    assert office.start_states() == ["superseded", "mined"]


def test_failed_start_is_retried_before_failure_is_final(office: DispatchOffice):
    network = office.premises.network
    office.starts = replace(office.starts, confirmations=_NEVER)
    task = drawn(office)
    in_want_of_gas(office)
    office.block()
    assert network.status(task) is Status.CREATED
    for _ in range(3):
        office.block()

    assert network.status(task) is Status.STARTED
    assert office.start_states() == ["mined", "mined"]


def test_repeated_start_failures_increase_retry_interval(office: DispatchOffice):
    office.starts = replace(office.starts, confirmations=_NEVER)
    drawn(office)
    tried = []
    for _ in range(16):
        in_want_of_gas(office)
        tried.append(len(office.start_states()))
        office.mine()

    assert [tried.count(number) for number in (1, 2, 3)] == [3, 5, 8]


def test_task_starts_although_its_failed_start_is_reorged_during_the_next_attempt(
    office: DispatchOffice,
):
    network, chain = office.premises.network, office.premises.chain
    office.starts = replace(office.starts, confirmations=_NEVER)
    task = drawn(office)
    in_want_of_gas(office)
    for _ in range(3):
        office.block()
    assert office.start_states() == ["mined", "live"]

    chain.rpc("anvil_reorg", 3, [])
    for _ in range(6):
        office.block()
    assert network.status(task) is Status.STARTED


def test_start_whose_nonce_was_used_elsewhere_is_resent_after_operator_release(
    office: DispatchOffice,
):
    network, chain = office.premises.network, office.premises.chain
    task = drawn(office)
    actions = steps(office)
    while next(actions) != "start_task signed":
        pass
    signer = dispatcher_of(office.premises)
    nonce = int(chain.rpc("eth_getTransactionCount", signer.address, "latest"), 16)
    raw = sign_stolen_payment(signer, nonce, signer.address, 50 * GWEI)
    chain.rpc("eth_sendRawTransaction", raw)
    office.block()
    for _ in range(6):
        office.block()
    assert network.status(task) is Status.CREATED

    with office.starts.write_transaction() as uow:
        uow.outbox.accounts.resume(office.starts.account, office.starts.stamp)
    for _ in range(3):
        office.block()
    assert network.status(task) is Status.STARTED


def test_queue_calls_leave_half_of_the_daily_budget_for_starts(
    office: DispatchOffice, dear: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    network = office.premises.network
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    dear()
    monkeypatch.setattr(office.premises.chain, "price", {"maxFeePerGas": hex(10**11)})
    network.create()
    for _ in range(3):
        office.block()
    (queue_call,) = office.intents(QUEUE_TASK)
    office.restart(caps=replace(CAPS, cost_per_day=8 * (queue_call.max_cost_wei or 0)))
    tasks = [network.create() for _ in range(9)]
    for _ in range(4):
        office.block()
    network.by(network.nodes[0], network.does.resume())
    for _ in range(4):
        office.block()

    states = [network.status(task) for task in tasks]
    assert Status.CREATED in states, "the words were never held back"
    assert office.start_states() == ["mined"]


def test_queue_calls_do_not_block_starts(office: DispatchOffice):
    network = office.premises.network
    office.restart(dispatch=settings(max_in_flight=2))
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    for _ in range(2):
        network.create()
    for _ in range(2):
        network.create(fee=2 * ETHER)
    office.turn()
    network.by(network.nodes[0], network.does.resume())
    # Two words are in the pool, or were planned; the start does not wait for their block.
    office.index()
    office.mine()
    office.index()
    plan_dispatch(office.dispatching, office.source.fetch_heads())
    assert office.start_states() == ["planned"]
