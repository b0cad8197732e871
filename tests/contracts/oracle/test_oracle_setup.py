"""How an oracle starts, and what it refuses to start with; what a thousand nodes cost it."""

from typing import Any

import pytest

from tests.contracts.oracle_driver import (
    LIMITS,
    NO_DIGEST,
    RULES_HASH,
    SIGNERS,
    ZERO,
    Oracle,
    as_tuple,
    deployed,
    setup,
    word,
)
from tests.support.evm.artifacts import artifact
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

# EIP-170 and EIP-3860: what a chain takes as code, and as the transaction that creates it.
MAX_CODE, MAX_INIT_CODE = 24_576, 49_152


def test_a_new_oracle_is_as_it_was_set_up(chain: Chain):
    oracle = deployed(chain)
    read = oracle.read
    assert read("head") == (0, 0, 0, 0, 0, 2, 3, 1, False)
    assert read("limits") == tuple(LIMITS.values())
    assert read("bucket")[:4] == (2, 2, 1, 3_600)
    assert read("signers") == [signer.address for signer in SIGNERS]
    assert [read(role) for role in ("admin", "pauser", "vetoer")] == chain.accounts[1:4]
    assert (read("NETWORK"), read("ON_ARBITRUM")) == (oracle.network.address, False)
    assert (read("lastReport"), read("rulesHash")) == (NO_DIGEST, RULES_HASH)


def test_a_new_oracle_says_everything_it_was_given(chain: Chain, oracle: Oracle):
    arguments = as_tuple(setup(oracle.network.address, chain.accounts[1:4]))
    made = chain.deploy("QoSOracle", arguments)
    names = [part["name"] for part in artifact("QoSOracle")["abi"] if part["type"] == "event"]
    topics = {made.events[name]().topic: name for name in names}
    logs = chain.rpc("eth_getLogs", {"address": made.address, "fromBlock": hex(chain.block)})
    assert [topics[log["topics"][0]] for log in logs] == [
        "RoleSet",
        "RoleSet",
        "RoleSet",
        "BucketSet",
        "SignersSet",
        "RulesSet",
        "LimitsSet",
    ]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"network": ZERO}, "ZeroAddress"),
        ({"admin": ZERO}, "NotAllowed"),
        ({"signers": []}, "BadSigners"),
        ({"quorum": 1}, "BadSigners"),
        ({"rules": 0}, "BadRules"),
        ({"rulesHash": bytes(32)}, "BadRules"),
        ({"bucketFrame": 0}, "BadLimits"),
        ({"limits": LIMITS | {"maxStep": 0}}, "BadLimits"),
        ({"arbitrum": True}, "BadLimits"),
        ({"arbitrum": True, "limits": LIMITS | {"anchorWindow": 257}}, "BadLimits"),
    ],
    ids=lambda given: str(given) if isinstance(given, str) else "-".join(given),
)
def test_what_cannot_work_is_not_deployed(oracle: Oracle, changes: dict[str, Any], error: str):
    arguments = setup(oracle.network.address, oracle.chain.accounts[1:4]) | changes
    with pytest.raises(RevertedError, match=error):
        oracle.chain.deploy("QoSOracle", as_tuple(arguments))


def test_pauser_and_vetoer_may_be_nobody(oracle: Oracle):
    nobody = {"pauser": ZERO, "vetoer": ZERO}
    arguments = setup(oracle.network.address, oracle.chain.accounts[1:4]) | nobody
    made = oracle.chain.deploy("QoSOracle", as_tuple(arguments))
    assert made.functions.vetoer().call() == ZERO


def test_every_chain_takes_the_code():
    compiled = artifact("QoSOracle")
    assert len(compiled["deployedBytecode"]) // 2 - 1 <= MAX_CODE
    assert len(compiled["bytecode"]) // 2 - 1 <= MAX_INIT_CODE


def test_a_thousand_nodes_cost_at_most_460_gas_each(chain: Chain):
    """The whole transaction, one signer, every slot full: see benchmarks/gas.py for the table."""
    oracle = deployed(chain, signers=[SIGNERS[0].address], quorum=1)
    for start in range(0, 1_000, 100):
        oracle.by_network("joinMany", start + 1, 100)

    def full_round(lane: int) -> int:
        sizes = [16] * 62 + [8]
        words = [(at, word(*[lane] * size)) for at, size in enumerate(sizes)]
        chain.mine(2)
        report = oracle.report(*words)
        chain.later(LIMITS["minInterval"])
        return oracle.push(report, report.signed_by(SIGNERS[0])).gas

    # The digests of sixteen rounds are kept (decision 0137): from then on no slot is new.
    for lane in range(7_531, 7_547):
        full_round(lane)
    assert full_round(7_530) <= 460 * 1_000
