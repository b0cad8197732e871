"""The contract is paused while a push is pending: the push is sent later, before its deadline."""

import pytest

from oracle.reporting.report_planner import plan_push
from oracle.txmgr.admission import admit_calls
from tests.support.office import FINALITY, SETTINGS, Office
from tests.support.sending.in_flight import GWEI, get_only_intent, list_attempts, list_slots

_SECONDS = 5 * SETTINGS.period_seconds


@pytest.fixture
def pausable(office: Office) -> Office:
    """Return an office whose admin may also pause the oracle contract."""
    admin, does = office.premises.network.admin, office.premises.oracle.functions
    office.premises.chain.send(does.setPauser(admin), sender=admin)
    return office


def test_pause_lifted_early_is_noticed_by_push_within_one_period(
    pausable: Office,
):
    office, chain = pausable, pausable.premises.chain
    admin, does = office.premises.network.admin, office.premises.oracle.functions
    office.period()
    office.index()
    office.repeat(plan_push)
    chain.send(does.pauseFor(_SECONDS), sender=admin)
    office.tick()
    assert (get_only_intent(office).state.value, get_only_intent(office).error_class) == (
        "planned",
        "Paused",
    )
    chain.send(does.resume(), sender=admin)
    # The contract's state is not requested in every block.
    assert admit_calls(office.context, office.source.fetch_heads()) is None

    chain.later(SETTINGS.period_seconds)
    chain.mine()
    office.tick()
    office.mine()
    office.until_final()
    assert (office.premises.round, office.states()[0]) == (1, "final")


@pytest.mark.parametrize(("blocks", "fate"), [(1, "mined"), (FINALITY + 1, "reverted")])
def test_push_reverted_by_pause_is_sent_again_after_pause_ends(
    pausable: Office, blocks: int, fate: str
):
    office, chain = pausable, pausable.premises.chain
    admin, does = office.premises.network.admin, office.premises.oracle.functions
    office.period()
    office.tick()
    _paused_before_it_in_its_block(office)
    office.tick()
    assert (office.states(), list_slots(office)[0].succeeded) == (["mined"], False)
    # Nothing is tried during the pause.
    office.mine(blocks)
    office.tick()
    assert office.states() == [fate]

    chain.send(does.resume(), sender=admin)
    office.tick()
    assert office.states() == [fate, "live"]
    first, again = office.intents()
    assert (again.request.digest, again.nonce) == (first.request.digest, (first.nonce or 0) + 1)
    office.mine()
    office.until_final()
    assert (office.premises.round, office.states()) == (1, ["reverted", "final"])
    assert office.intents()[0].error_class == "Paused"
    assert office.reports()[0] == ("landed", None)


def test_push_reverted_for_other_reason_is_not_retried(office: Office):
    office.period()
    office.tick()
    chain, address = office.premises.chain, office.premises.oracle.address
    code = chain.rpc("eth_getCode", address, "latest")
    # REVERT without a word, in that block and the next.
    chain.rpc("anvil_setCode", address, "0x60006000fd")
    office.mine(2)
    chain.rpc("anvil_setCode", address, code)
    for _ in range(3):
        office.mine()
        office.tick()
    assert (office.states(), list_slots(office)[0].succeeded) == (["reverted"], False)


def _paused_before_it_in_its_block(office: Office) -> None:
    """Pause the contract in the block that also contains our push."""
    chain, admin = office.premises.chain, office.premises.network.admin
    raw = "0x" + list_attempts(office)[0].signed.raw.hex()
    chain.rpc("anvil_dropAllTransactions")
    pause = office.premises.oracle.functions.pauseFor(_SECONDS)
    call = chain.request(pause, sender=admin)
    del call["gasPrice"]
    dear = {"maxFeePerGas": hex(1_000 * GWEI), "maxPriorityFeePerGas": hex(900 * GWEI)}
    chain.rpc("eth_sendTransaction", {**call, **dear, "gas": hex(1_000_000)})
    chain.rpc("eth_sendRawTransaction", raw)
    office.mine()
    assert office.premises.round == 0
