"""The contract that the oracle calls to end a membership may behave in any way."""

from dataclasses import replace

import pytest
from web3 import Web3

from tests.contracts.adapters import crynux_driver
from tests.contracts.adapters.conftest import fresh_nodes, nodes
from tests.contracts.adapters.crynux_driver import QUIT, STAKE, NodeNetwork
from tests.contracts.roots.due_leaves import (
    KICKED,
    ROUNDS,
    due_leaves,
    leaves_of,
    wait_until_ready,
)
from tests.contracts.roots.roots_driver import KICK_LIMITS, ZERO, RootsOracle, deploy_roots
from tests.support.evm.chain import Chain, Receipt, RevertedError, encode_calldata
from tests.support.evm.network import Network, Standing

__all__ = ["fresh_nodes", "nodes"]

pytestmark = pytest.mark.evm

GAS = KICK_LIMITS["kickGas"]
SEAT, OTHER_SEAT = 4, 5
BAD = due_leaves(SEAT, OTHER_SEAT)
EXPELLED, REFUSED = 2, 3
# HostileTarget.Behavior.
REFUSES_LONG, EATS_GAS, RETURNS_MUCH, REVERTS_MUCH = 1, 2, 3, 4


@pytest.fixture
def roots(roots: RootsOracle) -> RootsOracle:
    """Return an oracle for which the kickout of the node at seat 4, a member, can be executed."""
    roots.push_leaves(BAD)
    roots.by_network("join", roots.node(SEAT))
    roots.accuse(SEAT)
    wait_until_ready(roots, BAD)
    return roots


@pytest.fixture
def hostile(roots: RootsOracle) -> RootsOracle:
    """Return the same, with a target whose behaviour the test sets."""
    target = roots.chain.deploy("testing/HostileTarget")
    set_target(roots, target.address)
    return replace(roots, network=target)


def selector(error: str) -> bytes:
    return bytes(Web3.keccak(text=error)[:4])


def set_target(oracle: RootsOracle, target: str) -> Receipt:
    return oracle.do("setTarget", target, sender=oracle.admin)


def refusal_reason(oracle: RootsOracle, receipt: Receipt) -> bytes:
    """Return the reason of the refusal; the node is expelled nevertheless."""
    assert receipt.names[0] == "KickExecuted"
    event = receipt.only("KickRefused")
    assert (event["node"], event["target"]) == (oracle.node(SEAT), oracle.network.address)
    assert (oracle.kick(SEAT)["state"], oracle.is_expelled(SEAT)) == (REFUSED, True)
    return bytes(event["reason"])


# --- the target ---


def test_kickout_without_a_kick_target_expels_the_node_without_a_call(roots: RootsOracle):
    assert set_target(roots, ZERO).only("TargetSet") == {"target": ZERO}
    receipt = roots.execute(SEAT)
    assert receipt.names == ["KickExecuted"]
    assert receipt.only("KickExecuted")["target"] == ZERO
    assert roots.is_expelled(SEAT)
    with pytest.raises(RevertedError, match=rf"NoTarget\({ZERO}\)"):
        roots.retry(SEAT)


def test_setting_a_kick_target_without_code_is_rejected(roots: RootsOracle):
    with pytest.raises(RevertedError, match="NoTarget"):
        set_target(roots, roots.node(SEAT))


def test_kick_target_without_code_counts_as_a_refusal(roots: RootsOracle):
    """A call to an address without code would succeed."""
    roots.chain.rpc("anvil_setCode", roots.network.address, "0x")
    assert refusal_reason(roots, roots.execute(SEAT)) == b"no code".ljust(32, b"\0")


def test_kick_target_receives_configured_gas_and_evidence(hostile: RootsOracle):
    event = hostile.execute(SEAT).only("Kicked")
    assert (event["node"], event["evidence"]) == (hostile.node(SEAT), BAD[SEAT].pool_hash)
    assert GAS - 1_000 < event["gas"] < GAS


def test_case_f59_node_stays_expelled_until_retry_succeeds(roots: RootsOracle):
    roots.by_network("setRefuses", True)
    reason = refusal_reason(roots, roots.execute(SEAT))
    assert reason == selector("Refused()").ljust(32, b"\0")
    assert roots.read("bucket")[0] == 1
    assert refusal_reason(roots, roots.retry(SEAT)) == reason
    roots.by_network("setRefuses", False)
    assert roots.retry(SEAT).names == KICKED
    assert roots.kick(SEAT)["state"] == EXPELLED
    # A retry uses no token of the bucket.
    assert roots.read("bucket")[0] == 1


@pytest.mark.parametrize("behavior", [REFUSES_LONG, EATS_GAS, REVERTS_MUCH])
def test_misbehaving_kick_target_does_not_prevent_expulsion(hostile: RootsOracle, behavior: int):
    hostile.by_network("behave", behavior)
    receipt = hostile.execute(SEAT)
    long_reason = selector("NotToday(uint256,uint256)")
    expected = {REFUSES_LONG: long_reason, EATS_GAS: b"", REVERTS_MUCH: b""}[behavior]
    assert refusal_reason(hostile, receipt) == expected.ljust(32, b"\0")
    assert receipt.gas < GAS + 150_000


def test_large_return_data_of_the_kick_target_is_not_copied(hostile: RootsOracle):
    with hostile.chain.undone():
        usual = hostile.execute(SEAT).gas
    hostile.by_network("behave", RETURNS_MUCH)
    # 100,000 bytes of memory cost the target about 29,000 gas.
    assert hostile.execute(SEAT).gas < usual + 40_000


def test_case_f59_caller_cannot_starve_the_kick_target_of_gas(hostile: RootsOracle):
    """Around the minimum gas, the call reverts or the target gets all its gas."""
    call = hostile.chain.request(hostile.execution(SEAT))

    def outcome(gas: int) -> tuple[bool, int]:
        with hostile.chain.undone():
            (sent,) = hostile.chain.together(call | {"gas": hex(gas)})
            status = hostile.chain.rpc("eth_getTransactionReceipt", sent)["status"]
            return status == "0x1", hostile.kick(SEAT)["state"]

    low, high = 21_000, 2_000_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if outcome(middle)[0] else (middle, high)
    assert high > GAS * 64 // 63
    for gas in [*range(high - 160, high + 160, 20), high - 1, high]:
        assert outcome(gas) == ((True, EXPELLED) if gas >= high else (False, 1)), gas
    (sent,) = hostile.chain.together(call | {"gas": hex(GAS + 40_000)})
    with pytest.raises(RevertedError, match=rf"NotEnoughGas\({GAS}\)"):
        hostile.chain.receipt(sent)


def test_reentrant_kick_target_has_no_effect(hostile: RootsOracle):
    node = hostile.node(SEAT)
    does = hostile.contract.functions
    for call in (
        hostile.execution(SEAT),
        does.retryKick(node),
        does.accuse(*hostile.last_round.proven(SEAT)),
        does.clear(*hostile.last_round.proven(SEAT)),
    ):
        hostile.by_network("callBack", call.address, encode_calldata(call))
    receipt = hostile.execute(SEAT)
    callbacks = [event.args for event in receipt.events if event.event == "CalledBack"]
    errors = ["NoKick(address)", "KickNotReady(uint40,uint256)"]
    errors += ["AlreadyExpelled(address)", "NoKick(address)"]
    assert [bytes(callback["reason"]) for callback in callbacks] == [*map(selector, errors)]
    assert (hostile.kick(SEAT)["state"], hostile.read("bucket")[0]) == (EXPELLED, 1)


# --- retries ---


def test_rejoined_node_can_be_kicked_again_after_enough_rounds(roots: RootsOracle):
    roots.execute(SEAT)
    roots.by_network("join", roots.node(SEAT))
    executed = roots.round
    with pytest.raises(RevertedError, match=rf"KickNotReady\(0, {executed + ROUNDS}\)"):
        roots.retry(SEAT)
    for _ in range(ROUNDS):
        roots.push_leaves(BAD)
    receipt = roots.retry(SEAT)
    assert receipt.names == KICKED
    assert receipt.only("KickExecuted")["evidence"] == bytes(32)
    with pytest.raises(RevertedError, match="KickNotReady"):
        roots.retry(SEAT)


def test_retry_for_node_that_is_not_expelled_is_rejected(roots: RootsOracle):
    with pytest.raises(RevertedError, match="NotExpelled"):
        roots.retry(SEAT)


# --- real targets ---


def test_task_network_keeps_the_stake_of_an_accused_node_that_quits(
    chain: Chain,
):
    network = Network.deployed(chain)
    oracle = deploy_roots(chain)
    set_target(oracle, network.contract.address)
    network.by(network.admin, network.does.setOracle(oracle.contract.address))
    kicked, leaver = network.nodes[:2]
    for node in (kicked, leaver):
        network.join(node)
    leaves = leaves_of(network.nodes[:4], 0, 1)
    oracle.push_leaves(leaves)
    oracle.accuse(0)
    oracle.accuse(1)
    network.by(leaver, network.does.quit())
    assert network.standing(leaver) is Standing.KICKED_OUT
    wait_until_ready(oracle, leaves)
    assert "NodeKickedOut" in oracle.execute(0).names
    assert network.standing(kicked) is Standing.KICKED_OUT


def test_adapter_kicks_a_node_of_a_network_without_an_oracle(nodes: NodeNetwork):
    gas = KICK_LIMITS | {"kickGas": crynux_driver.GAS[nodes.name]}
    oracle = deploy_roots(nodes.chain, kickLimits=gas)
    addresses = (oracle.contract.address, nodes.owner, nodes.node.address, nodes.qos.address)
    adapter = nodes.chain.deploy(f"adapters/{nodes.name}", *addresses, nodes.task.address)
    nodes.send(nodes.adapter.functions.giveBack(adapter.address))
    set_target(oracle, adapter.address)
    leaves = leaves_of([*nodes.members, nodes.owner], 0)
    oracle.push_leaves(leaves)
    oracle.accuse(0)
    wait_until_ready(oracle, leaves)
    receipt = oracle.execute(0)
    names = [name for name in receipt.names if name.startswith(("Kick", "Node"))]
    assert names == ["KickExecuted", "NodeKickedOut"]
    assert nodes.status(nodes.members[0]) == QUIT


def test_staking_adapter_returns_the_stake_of_a_kicked_node(chain: Chain):
    owner, relay, writer, receiver, node = chain.accounts[5:10]
    staking = chain.deploy("testing/CrynuxStaking", receiver)
    parameters = chain.deploy("testing/CrynuxParameters", staking.address, writer)
    chain.send(staking.functions.setParameterController(parameters.address))
    gas = KICK_LIMITS | {"kickGas": crynux_driver.GAS["NodeStakingAdapter"]}
    oracle = deploy_roots(chain, kickLimits=gas)
    addresses = (oracle.contract.address, owner, staking.address, relay)
    adapter = chain.deploy("adapters/NodeStakingAdapter", *addresses)
    chain.send(parameters.functions.setNodeStakingAdminAddress(adapter.address), sender=writer)
    set_target(oracle, adapter.address)
    chain.send(staking.functions.stake(STAKE), sender=node, value=STAKE)
    leaves = leaves_of([owner, relay, writer, receiver, node], 4)
    oracle.push_leaves(leaves)
    oracle.accuse(4)
    wait_until_ready(oracle, leaves)
    assert "NodeUnstaked" in oracle.execute(4).names
