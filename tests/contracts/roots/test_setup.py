"""The deployment of an oracle, and the arguments that its constructor rejects."""

from typing import Any

import pytest

from tests.contracts.oracle_signing import SIGNERS, config_digest
from tests.contracts.roots.roots_driver import (
    FLOORS,
    KEPT,
    KICK_FLOORS,
    KICK_LIMITS,
    LAG,
    LIMITS,
    NO_ROOT,
    RULES_HASH,
    TIGHTEST,
    ZERO,
    RootsOracle,
    as_tuple,
    deploy_roots,
    make_setup,
)
from tests.support.evm.artifacts import load_artifact
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

# EIP-170 and EIP-3860: the maximum size of code, and of the code of a creating transaction.
MAX_CODE, MAX_INIT_CODE = 24_576, 49_152
# An address without code.
FUTURE = "0x" + 40 * "7"


def test_new_oracle_has_the_values_of_its_constructor(chain: Chain):
    oracle = deploy_roots(chain)
    read = oracle.read
    assert oracle.named("head") == {
        "round": 0,
        "asOf": 0,
        "pushedAt": 0,
        "pausedUntil": 0,
        "heldSeconds": 0,
        "quorum": 2,
        "kicksPaused": False,
        "configCount": 1,
        "roundConfig": 0,
    }
    assert (oracle.named("limits"), oracle.named("floors")) == (LIMITS, FLOORS)
    assert oracle.named("tightest") == TIGHTEST
    assert (oracle.named("kickLimits"), oracle.named("kickFloors")) == (KICK_LIMITS, KICK_FLOORS)
    assert read("bucket")[0] == KICK_LIMITS["bucketMost"]
    signers = [signer.address for signer in SIGNERS]
    assert read("signers") == signers
    assert [read(role) for role in ("admin", "pauser", "vetoer")] == chain.accounts[1:4]
    assert [read(role) for role in ("pendingAdmin", "pendingVetoer")] == [ZERO, ZERO]
    assert (read("target"), read("ON_ARBITRUM")) == (oracle.network.address, False)
    assert (read("KEPT"), read("LAG")) == (KEPT, LAG)
    assert (read("lastRoot"), read("rulesHash")) == (NO_ROOT, RULES_HASH)
    assert read("configDigest") == config_digest(oracle.domain, 1, signers, 2, RULES_HASH)


def test_new_oracle_emits_setup_events(roots: RootsOracle):
    chain = roots.chain
    expelled = chain.accounts[7:9]
    arguments = make_setup(roots.network.address, chain.accounts[1:4], expelled=expelled)
    contract = chain.deploy("roots/QoSRoots", as_tuple(arguments))
    names = [
        part["name"] for part in load_artifact("roots/QoSRoots")["abi"] if part["type"] == "event"
    ]
    topics = {contract.events[name]().topic: name for name in names}
    logs = chain.rpc("eth_getLogs", {"address": contract.address, "fromBlock": hex(chain.block)})
    assert sorted(topics[log["topics"][0]] for log in logs) == [
        "ConfigSet",
        "KickLimitsSet",
        "LimitsSet",
        "NodeExpelled",
        "NodeExpelled",
        "RoleSet",
        "RoleSet",
        "RoleSet",
        "RulesSet",
        "SignersSet",
        "TargetSet",
    ]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"admin": ZERO}, "NotAllowed"),
        ({"signers": []}, "BadSigners"),
        ({"quorum": 1}, "BadSigners"),
        ({"rulesHash": bytes(32)}, "BadRules"),
        ({"kickLimits": KICK_LIMITS | {"bucketFrame": 0}}, "BadLimits"),
        ({"limits": LIMITS | {"anchorWindow": 0}}, "BadLimits"),
        ({"floors": FLOORS | {"vetoDelay": 601}}, "BadLimits"),
        ({"kickFloors": KICK_FLOORS | {"bucketMost": 1}}, "BadLimits"),
        ({"arbitrum": True}, "BadLimits"),
        ({"arbitrum": True, "limits": LIMITS | {"anchorWindow": 257}}, "BadLimits"),
    ],
    ids=lambda setup: str(setup) if isinstance(setup, str) else "-".join(setup),
)
def test_invalid_setup_is_rejected(roots: RootsOracle, changes: dict[str, Any], error: str):
    arguments = make_setup(roots.network.address, roots.chain.accounts[1:4]) | changes
    with pytest.raises(RevertedError, match=error):
        roots.chain.deploy("roots/QoSRoots", as_tuple(arguments))


def test_pauser_vetoer_and_target_can_be_zero(roots: RootsOracle):
    nobody = {"pauser": ZERO, "vetoer": ZERO, "target": ZERO}
    arguments = make_setup(roots.network.address, roots.chain.accounts[1:4]) | nobody
    contract = roots.chain.deploy("roots/QoSRoots", as_tuple(arguments))
    assert contract.functions.vetoer().call() == contract.functions.target().call() == ZERO


def test_target_may_be_deployed_after_oracle(roots: RootsOracle):
    """The oracle gets the future address of an adapter, which permanently names its oracle."""
    arguments = make_setup(FUTURE, roots.chain.accounts[1:4])
    contract = roots.chain.deploy("roots/QoSRoots", as_tuple(arguments))
    assert contract.functions.target().call() == FUTURE


def test_contract_code_size_is_within_limits():
    compiled = load_artifact("roots/QoSRoots")
    assert len(compiled["deployedBytecode"]) // 2 - 1 <= MAX_CODE
    assert len(compiled["bytecode"]) // 2 - 1 <= MAX_INIT_CODE
