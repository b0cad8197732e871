"""How an oracle starts, and what it refuses to start with; what a thousand nodes cost it."""

import json
from typing import Any

import pytest

from tests.contracts.gas import KEPT, measured
from tests.contracts.oracle_driver import (
    FLOORS,
    KICK_LIMITS,
    LIMITS,
    NO_DIGEST,
    RULES_HASH,
    START,
    ZERO,
    Oracle,
    as_tuple,
    deployed,
    node,
    setup,
)
from tests.contracts.oracle_signing import SIGNERS, config_digest, word
from tests.support.evm.artifacts import artifact
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

# EIP-170 and EIP-3860: what a chain takes as code, and as the transaction that creates it.
MAX_CODE, MAX_INIT_CODE = 24_576, 49_152
# A compiler or a guard that costs more than this is to be seen; zero bytes in hashes are not.
TOLERANCE = 0.01


def test_new_oracle_has_the_values_passed_to_its_constructor(chain: Chain):
    oracle = deployed(chain)
    read = oracle.read
    assert oracle.named("head") == {
        "round": 0,
        "asOf": 0,
        "pushedAt": 0,
        "pausedUntil": 0,
        "heldSeconds": 0,
        "nodeCount": 0,
        "openCount": 0,
        "quorum": 2,
        "kicksPaused": False,
        "configCount": 1,
    }
    assert (oracle.named("limits"), oracle.named("floors")) == (LIMITS, FLOORS)
    assert oracle.named("kickLimits") == KICK_LIMITS
    assert read("bucket")[0] == 2
    signers = [signer.address for signer in SIGNERS]
    assert read("signers") == signers
    assert [read(role) for role in ("admin", "pauser", "vetoer")] == chain.accounts[1:4]
    assert (read("target"), read("ON_ARBITRUM")) == (oracle.network.address, False)
    assert (read("lastReport"), read("rulesHash")) == (NO_DIGEST, RULES_HASH)
    assert read("configDigest") == config_digest(oracle.domain, 1, signers, 2, RULES_HASH)


def test_new_oracle_emits_setup_events(chain: Chain, oracle: Oracle):
    arguments = setup(oracle.network.address, chain.accounts[1:4], expelled=[node(1), node(2)])
    contract = chain.deploy("QoSOracle", as_tuple(arguments))
    names = [part["name"] for part in artifact("QoSOracle")["abi"] if part["type"] == "event"]
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
        ({"limits": LIMITS | {"maxWords": 0}}, "BadLimits"),
        ({"floors": FLOORS | {"vetoDelay": 601}}, "BadLimits"),
        ({"arbitrum": True}, "BadLimits"),
        ({"arbitrum": True, "limits": LIMITS | {"anchorWindow": 257}}, "BadLimits"),
    ],
    ids=lambda given: str(given) if isinstance(given, str) else "-".join(given),
)
def test_invalid_setup_is_rejected(oracle: Oracle, changes: dict[str, Any], error: str):
    arguments = setup(oracle.network.address, oracle.chain.accounts[1:4]) | changes
    with pytest.raises(RevertedError, match=error):
        oracle.chain.deploy("QoSOracle", as_tuple(arguments))


def test_pauser_vetoer_and_target_may_be_zero(oracle: Oracle):
    nobody = {"pauser": ZERO, "vetoer": ZERO, "target": ZERO}
    arguments = setup(oracle.network.address, oracle.chain.accounts[1:4]) | nobody
    contract = oracle.chain.deploy("QoSOracle", as_tuple(arguments))
    assert contract.functions.vetoer().call() == contract.functions.target().call() == ZERO


def test_target_may_be_deployed_after_oracle(oracle: Oracle):
    """An adapter names its oracle for good: the oracle is given the address that it will have."""
    arguments = setup(node(77), oracle.chain.accounts[1:4])
    contract = oracle.chain.deploy("QoSOracle", as_tuple(arguments))
    assert contract.functions.target().call() == node(77)


def test_code_size_is_within_limits():
    compiled = artifact("QoSOracle")
    assert len(compiled["deployedBytecode"]) // 2 - 1 <= MAX_CODE
    assert len(compiled["bytecode"]) // 2 - 1 <= MAX_INIT_CODE


def test_1000_nodes_cost_at_most_450_gas_each(chain: Chain):
    """The whole transaction, one signer, every slot full: see benchmarks/gas.py for the table."""
    limits = LIMITS | {"fallShare": 1_000}
    oracle = deployed(chain, signers=[SIGNERS[0].address], quorum=1, limits=limits)
    for _ in range(5):
        oracle.registered(200, signers=SIGNERS[:1])

    def full_round(lane: int) -> int:
        sizes = [16] * 62 + [8]
        words = [(at, word(*[lane] * size)) for at, size in enumerate(sizes)]
        return oracle.reported(*words, signers=SIGNERS[:1]).gas

    # The digests of sixteen rounds are kept (decision 0137): from then on no slot is new.
    for lane in range(START, START + 11):
        full_round(lane)
    assert full_round(7_530) <= 450 * 1_000


@pytest.mark.slow
def test_gas_of_every_transaction_matches_recorded_values(chain: Chain):
    """`.venv/bin/python tests/contracts/gas.py` writes it down anew."""
    recorded_gas: dict[str, int] = json.loads(KEPT.read_text("utf-8"))
    gas_by_name = measured(chain)
    assert gas_by_name.keys() == recorded_gas.keys()
    off = {
        name: (gas, recorded_gas[name])
        for name, gas in gas_by_name.items()
        if _is_off(gas, recorded_gas[name])
    }
    assert off == {}


def _is_off(gas: int, recorded_gas: int) -> bool:
    return abs(gas - recorded_gas) > TOLERANCE * recorded_gas
