"""The contract is paused while a push is pending: the push is sent later, before its deadline."""

import pytest

from oracle.reporting.report_planner import plan_push
from oracle.txmgr.admission import admit_calls
from tests.support.harness import FINALITY, SETTINGS, Harness
from tests.support.sending.in_flight import GWEI, get_only_intent, list_attempts, list_slots

_SECONDS = 5 * SETTINGS.period_seconds


@pytest.fixture
def pausable_harness(harness: Harness) -> Harness:
    """Return a harness whose admin may also pause the oracle contract."""
    admin, does = harness.testbed.network.admin, harness.testbed.oracle.functions
    harness.testbed.chain.send(does.setPauser(admin), sender=admin)
    return harness


def test_push_resumes_within_one_period_of_an_early_unpause(
    pausable_harness: Harness,
):
    harness, chain = pausable_harness, pausable_harness.testbed.chain
    admin, does = harness.testbed.network.admin, harness.testbed.oracle.functions
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    chain.send(does.pauseFor(_SECONDS), sender=admin)
    harness.tick()
    assert (get_only_intent(harness).state.value, get_only_intent(harness).error_class) == (
        "planned",
        "Paused",
    )
    chain.send(does.resume(), sender=admin)
    # The contract's state is not requested in every block.
    assert admit_calls(harness.context, harness.source.fetch_heads()) is None

    chain.later(SETTINGS.period_seconds)
    chain.mine()
    harness.tick()
    harness.mine()
    harness.until_final()
    assert (harness.testbed.round, harness.states()[0]) == (1, "final")


@pytest.mark.parametrize(("blocks", "fate"), [(1, "mined"), (FINALITY + 1, "reverted")])
def test_push_reverted_by_a_pause_is_resent_after_the_pause(
    pausable_harness: Harness, blocks: int, fate: str
):
    harness, chain = pausable_harness, pausable_harness.testbed.chain
    admin, does = harness.testbed.network.admin, harness.testbed.oracle.functions
    harness.period()
    harness.tick()
    _pause_before_push_in_block(harness)
    harness.tick()
    assert (harness.states(), list_slots(harness)[0].succeeded) == (["mined"], False)
    # Nothing is tried during the pause.
    harness.mine(blocks)
    harness.tick()
    assert harness.states() == [fate]

    chain.send(does.resume(), sender=admin)
    harness.tick()
    assert harness.states() == [fate, "live"]
    first, again = harness.intents()
    assert (again.request.digest, again.nonce) == (first.request.digest, (first.nonce or 0) + 1)
    harness.mine()
    harness.until_final()
    assert (harness.testbed.round, harness.states()) == (1, ["reverted", "final"])
    assert harness.intents()[0].error_class == "Paused"
    assert harness.reports()[0] == ("landed", None)


def test_push_reverted_for_another_reason_is_not_retried(harness: Harness):
    harness.period()
    harness.tick()
    chain, address = harness.testbed.chain, harness.testbed.oracle.address
    code = chain.rpc("eth_getCode", address, "latest")
    # REVERT without a word, in that block and the next.
    chain.rpc("anvil_setCode", address, "0x60006000fd")
    harness.mine(2)
    chain.rpc("anvil_setCode", address, code)
    for _ in range(3):
        harness.mine()
        harness.tick()
    assert (harness.states(), list_slots(harness)[0].succeeded) == (["reverted"], False)


def _pause_before_push_in_block(harness: Harness) -> None:
    """Pause the contract in the block that also contains our push."""
    chain, admin = harness.testbed.chain, harness.testbed.network.admin
    raw = "0x" + list_attempts(harness)[0].signed.raw.hex()
    chain.rpc("anvil_dropAllTransactions")
    pause = harness.testbed.oracle.functions.pauseFor(_SECONDS)
    call = chain.request(pause, sender=admin)
    del call["gasPrice"]
    dear = {"maxFeePerGas": hex(1_000 * GWEI), "maxPriorityFeePerGas": hex(900 * GWEI)}
    chain.rpc("eth_sendTransaction", {**call, **dear, "gas": hex(1_000_000)})
    chain.rpc("eth_sendRawTransaction", raw)
    harness.mine()
    assert harness.testbed.round == 0
