"""The oracle and the contract that it tells to end a membership, which may be anything."""

from dataclasses import replace

import pytest
from web3 import Web3

from tests.contracts.oracle_driver import EVIDENCE, KICK_LIMITS, ZERO, Oracle, node
from tests.contracts.oracle_kickouts import DELAY, KICKED, ROUNDS, pending, ready, worded
from tests.support.evm.chain import Receipt, RevertedError, encoded

pytestmark = pytest.mark.evm

NODE = node(0).lower()
GAS = KICK_LIMITS["kickGas"]
# HostileTarget.Behavior.
REFUSES_LONG, EATS_GAS, RETURNS_MUCH, REVERTS_MUCH = 1, 2, 3, 4


@pytest.fixture
def oracle(oracle: Oracle) -> Oracle:
    """Node 0 can be kicked out now."""
    ready(worded(oracle))
    return oracle


@pytest.fixture
def hostile(oracle: Oracle) -> Oracle:
    """The same, and the network is a contract that does what it is told to, good or bad."""
    target = oracle.chain.deploy("testing/HostileTarget")
    aimed(oracle, target.address)
    return replace(oracle, network=target)


def selector(error: str) -> bytes:
    return bytes(Web3.keccak(text=error)[:4])


def aimed(oracle: Oracle, target: str) -> Receipt:
    return oracle.do("setTarget", target, sender=oracle.admin)


def refused(oracle: Oracle, receipt: Receipt) -> bytes:
    """The reason of the refusal; the node is expelled all the same."""
    assert receipt.names[0] == "KickExecuted"
    event = receipt.only("KickRefused")
    assert (event["node"], event["target"]) == (node(0), oracle.network.address)
    assert (oracle.held(0)["kick"], oracle.read("weightOf", node(0))) == (3, 0)
    assert oracle.read("isExpelled", node(0))
    return bytes(event["reason"])


# --- who is told ---


def test_kick_without_a_target_expels_node_without_calling_a_contract(oracle: Oracle):
    assert aimed(oracle, ZERO).only("TargetSet") == {"target": ZERO}
    receipt = oracle.execute(0)
    assert receipt.names == ["KickExecuted"]
    expected_event = {"node": node(0), "evidence": EVIDENCE, "target": ZERO}
    assert receipt.only("KickExecuted") == expected_event
    assert (oracle.held(0)["kick"], oracle.read("isExpelled", node(0))) == (2, True)
    assert oracle.network.functions.isMember(node(0)).call()
    with pytest.raises(RevertedError, match=rf"NoTarget\({ZERO}\)"):
        oracle.retry(0)


def test_target_without_code_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match="NoTarget"):
        aimed(oracle, node(77))
    assert oracle.read("target") == oracle.network.address


def test_kick_with_target_whose_code_was_removed_is_reported_as_refused(oracle: Oracle):
    """A call to nobody would succeed."""
    oracle.chain.rpc("anvil_setCode", oracle.network.address, "0x")
    assert refused(oracle, oracle.execute(0)) == b"no code".ljust(32, b"\0")


def test_target_receives_the_configured_gas(hostile: Oracle):
    """The function's own beginning is in it: some dozens."""
    event = hostile.execute(0).only("Kicked")
    assert (event["node"], event["evidence"]) == (node(0), EVIDENCE)
    assert GAS - 1_000 < event["gas"] < GAS


def test_network_accepts_a_kick_only_from_the_oracle(oracle: Oracle):
    with pytest.raises(RevertedError, match="NotTheOracle"):
        oracle.by_network("kick", node(0), EVIDENCE)


# --- refusals ---


def test_network_refusal_keeps_node_expelled(oracle: Oracle):
    oracle.by_network("setRefuses", True)
    oracle.chain.contract("testing/PlainNetwork", oracle.network.address)
    reason = refused(oracle, oracle.execute(0))
    assert reason == selector("Refused()").ljust(32, b"\0")
    assert oracle.read("bucket")[0] == 1

    with pytest.raises(RevertedError, match=rf"NoKick\({NODE}\)"):
        oracle.execute(0)
    for _ in range(2):
        assert refused(oracle, oracle.retry(0)) == reason
    oracle.by_network("setRefuses", False)
    assert oracle.retry(0).names == KICKED
    assert oracle.held(0)["kick"] == 2
    # Trying again takes nothing from the bucket.
    assert oracle.read("bucket")[0] == 1


@pytest.mark.parametrize("behavior", [REFUSES_LONG, EATS_GAS, REVERTS_MUCH])
def test_misbehaving_target_does_not_prevent_expulsion(hostile: Oracle, behavior: int):
    hostile.by_network("behave", behavior)
    receipt = hostile.execute(0)
    expected = selector("NotToday(uint256,uint256)")  # and 28 bytes of its first number
    expected_reason = {REFUSES_LONG: expected, EATS_GAS: b"", REVERTS_MUCH: b""}[behavior]
    assert refused(hostile, receipt) == expected_reason.ljust(32, b"\0")
    assert receipt.gas < GAS + 150_000


def test_large_return_data_costs_oracle_no_gas(hostile: Oracle):
    quiet = hostile.chain.undone()
    with quiet:
        usual = hostile.execute(0).gas
    hostile.by_network("behave", RETURNS_MUCH)
    receipt = hostile.execute(0)
    assert receipt.names == ["KickExecuted"]
    # 100,000 bytes of memory cost the target about 29,000 gas, and the oracle nothing.
    assert receipt.gas < usual + 40_000


# --- gas ---


def needed(oracle: Oracle) -> int:
    """The least gas limit with which the kickout is executed: any less and it is not."""
    call = oracle.chain.request(oracle.contract.functions.executeKick(node(0)))
    low, high = 21_000, 2_000_000
    while high - low > 1:
        middle = (low + high) // 2
        with oracle.chain.undone():
            (sent,) = oracle.chain.together(call | {"gas": hex(middle)})
            status = oracle.chain.rpc("eth_getTransactionReceipt", sent)["status"]
        low, high = (low, middle) if status == "0x1" else (middle, high)
    return high


def outcome(oracle: Oracle, gas: int) -> tuple[bool, int]:
    """Whether it was executed with this gas, and the node's state after."""
    call = oracle.chain.request(oracle.contract.functions.executeKick(node(0)))
    with oracle.chain.undone():
        (sent,) = oracle.chain.together(call | {"gas": hex(gas)})
        receipt = oracle.chain.rpc("eth_getTransactionReceipt", sent)
        return receipt["status"] == "0x1", oracle.held(0)["kick"]


def sweep(oracle: Oracle, below: int, above: int, step: int) -> None:
    """Around the least gas: nothing at all happens, or the target is told and carries it out."""
    min_gas = needed(oracle)
    assert min_gas > GAS * 64 // 63
    for gas in range(min_gas - below, min_gas + above, step):
        done, kick = outcome(oracle, gas)
        assert (done, kick) == ((True, 2) if gas >= min_gas else (False, 1)), gas


def test_kick_with_low_gas_limit_reverts_or_is_accepted_by_target(hostile: Oracle):
    """At the least gas the target has all that it is promised; one less and nothing happens."""
    sweep(hostile, 160, 160, 20)
    sweep(hostile, 3, 3, 1)


@pytest.mark.slow
@pytest.mark.nightly
def test_kick_at_each_of_4096_gas_limits_reverts_or_is_accepted_by_target(hostile: Oracle):
    sweep(hostile, 2_048, 2_048, 1)


@pytest.mark.parametrize("share", [50, 70, 80, 90, 95, 98])
def test_insufficient_gas_does_not_consume_kick(oracle: Oracle, share: int):
    gas = needed(oracle) * share // 100
    assert outcome(oracle, gas) == (False, 1)
    assert oracle.execute(0).names == KICKED


def test_kick_with_insufficient_gas_reverts_with_not_enough_gas(oracle: Oracle):
    call = oracle.chain.request(oracle.contract.functions.executeKick(node(0)))
    (sent,) = oracle.chain.together(call | {"gas": hex(GAS + 30_000)})
    with pytest.raises(RevertedError, match=rf"NotEnoughGas\({GAS}\)"):
        oracle.chain.receipt(sent)


def test_retry_with_insufficient_gas_is_rejected(hostile: Oracle):
    hostile.by_network("behave", EATS_GAS)
    hostile.execute(0)
    hostile.by_network("behave", 0)
    call = hostile.chain.request(hostile.contract.functions.retryKick(node(0)))
    (sent,) = hostile.chain.together(call | {"gas": hex(GAS + 30_000)})
    with pytest.raises(RevertedError, match=rf"NotEnoughGas\({GAS}\)"):
        hostile.chain.receipt(sent)
    assert hostile.retry(0).names == ["KickExecuted", "Kicked"]


# --- re-entry ---


def back(oracle: Oracle, name: str, *arguments: object) -> None:
    call = getattr(oracle.contract.functions, name)(*arguments)
    oracle.by_network("callBack", call.address, encoded(call))


def answers(receipt: Receipt) -> list[tuple[bool, bytes]]:
    """What the target was told by the oracle that it called back."""
    callbacks = [event.args for event in receipt.events if event.event == "CalledBack"]
    return [(callback["done"], bytes(callback["reason"])) for callback in callbacks]


def test_reentrant_target_calls_for_same_node_are_rejected(hostile: Oracle):
    late = hostile.signed_kick(0)
    for name in ("executeKick", "retryKick"):
        back(hostile, name, node(0))
    back(hostile, "cancelKick", node(0), bytes(32))
    back(hostile, "proposeKick", *late.arguments)
    errors = ("NoKick(address)", "KickNotReady(uint40,uint256)", "NoKick(address)")
    expected_answers = [
        (False, selector(error)) for error in (*errors, "AlreadyExpelled(address)")
    ]
    assert answers(hostile.execute(0)) == expected_answers
    assert (hostile.held(0)["kick"], hostile.read("bucket")[0]) == (2, 1)


def test_reentrant_kick_of_another_node_reverts_without_enough_gas(hostile: Oracle):
    hostile.propose(2)
    for _ in range(ROUNDS):
        worded(hostile)
    hostile.chain.later(DELAY)
    hostile.chain.mine()
    generous = tuple((KICK_LIMITS | {"kickGas": 1_000_000}).values())
    hostile.do("setKickLimits", generous, sender=hostile.admin)
    back(hostile, "executeKick", node(2))
    # With too little left for an inner target of its own, the inner call alone is undone.
    first = hostile.execute(0)
    assert answers(first)[0] == (False, selector("NotEnoughGas(uint256)"))
    assert (hostile.held(0)["kick"], hostile.held(2)["kick"]) == (2, 1)
    assert pending(hostile, 2)
    assert hostile.execute(2).names[0] == "KickExecuted"
    assert hostile.read("bucket")[0] == 0


# --- again ---


def test_rejoined_node_is_kicked_again_after_kick_rounds(oracle: Oracle):
    assert oracle.execute(0).names == KICKED
    oracle.by_network("join", node(0))
    executed = oracle.round
    with oracle.chain.undone(), pytest.raises(RevertedError, match="KickNotReady") as caught:
        oracle.retry(0)
    assert caught.value.values == (0, executed + ROUNDS)
    for _ in range(ROUNDS):
        worded(oracle)
    assert oracle.retry(0).names == KICKED
    with pytest.raises(RevertedError, match="KickNotReady"):
        oracle.retry(0)
    assert not oracle.network.functions.isMember(node(0)).call()


def test_retry_for_a_node_that_is_not_expelled_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match=rf"NotExpelled\({NODE}\)"):
        oracle.retry(0)


def test_retry_while_kicks_are_paused_is_rejected(oracle: Oracle):
    oracle.by_network("setRefuses", True)
    oracle.execute(0)
    oracle.do("pauseKicks", sender=oracle.pauser)
    with pytest.raises(RevertedError, match="KicksRest"):
        oracle.retry(0)


def test_readmission_clears_kick_and_expulsion(oracle: Oracle):
    oracle.by_network("setRefuses", True)
    oracle.execute(0)
    receipt = oracle.do("readmit", node(0), sender=oracle.admin)
    assert receipt.only("NodeReadmitted") == {"node": node(0)}
    assert (oracle.held(0)["kick"], oracle.read("isExpelled", node(0))) == (0, False)
    for name, error in (("executeKick", "NoKick"), ("retryKick", "NotExpelled")):
        with pytest.raises(RevertedError, match=rf"{error}\({NODE}\)"):
            oracle.do(name, node(0))


def test_readmission_of_a_node_that_is_not_expelled_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match=rf"NotExpelled\({NODE}\)"):
        oracle.do("readmit", node(0), sender=oracle.admin)
