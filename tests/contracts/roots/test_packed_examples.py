"""The examples of the npm package run on Anvil, compiled in an empty project.

Unlike abi/, they are compiled with the settings of that project. What each example must reject is
in test_consumers.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from web3.contract import Contract

from tests.contracts.consumer_project import build_artifacts, install_package
from tests.contracts.roots.roots_driver import ZERO, RootsOracle
from tests.contracts.roots.test_consumers import FEE, Consumer, push_lagged, request_draw
from tests.contracts.roots.words_driver import deploy_words

pytestmark = [pytest.mark.evm, pytest.mark.slow]

EXAMPLES = (
    "PayByScore",
    "SeatDraw",
    "ScoreDispatcher",
    "ReputationBridge",
    "AttestationBridge",
    "AttestationServiceDouble",
)
MIN_WEIGHT = 5_000
Deployer = Callable[..., Contract]


@pytest.fixture(scope="module")
def packed_examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    project: Path = tmp_path_factory.mktemp("project")
    install_package(project)
    folder = "@qos-oracle/contracts/roots/consumers"
    return build_artifacts(project, *(f"{folder}/{name}.sol" for name in EXAMPLES))


@pytest.fixture
def deploy(roots: RootsOracle, packed_examples: dict[str, dict[str, Any]]) -> Deployer:
    def deploy_example(name: str, *args: Any) -> Contract:
        return roots.chain.deploy_compiled(packed_examples[name], *args)

    return deploy_example


def test_packaged_escrow_pays_in_proportion_to_score(roots: RootsOracle, deploy: Deployer) -> None:
    escrow = Consumer(roots, deploy("PayByScore", roots.contract.address))
    source = escrow.push({3: {"lane": 5_002}})
    escrow.send("create", roots.node(3), value=FEE)
    escrow.wait_for_lag()

    settled = escrow.send("settle", 1, *source.proven(3)).only("JobSettled")

    assert (settled["paid"], settled["returned"]) == (FEE // 2, FEE // 2)
    assert escrow.balance(roots.node(3)) == FEE // 2


def test_packaged_draw_selects_a_node_from_lanes(roots: RootsOracle, deploy: Deployer) -> None:
    draw = Consumer(roots, deploy("SeatDraw", roots.contract.address))
    requested = request_draw(draw, push_lagged(draw, {}))

    drawn = requested.complete(requested.seats).only("NodeDrawn")

    assert drawn["node"] == roots.node(requested.seats[-1])


def test_packaged_dispatcher_starts_tasks_by_hot_set_score_and_by_proof(
    roots: RootsOracle, deploy: Deployer
) -> None:
    hot_set = deploy_words(roots)
    arguments = roots.contract.address, hot_set.contract.address, MIN_WEIGHT
    dispatcher = Consumer(roots, deploy("ScoreDispatcher", *arguments))
    source = push_lagged(dispatcher, {3: {"lane": 9_002}})
    hot_set.bring(source, 0, 2)
    hot_set.bind(source, 3)

    receipts = [
        dispatcher.send("start", roots.node(3)),
        dispatcher.send("startByProof", source.round, *source.proven(3)),
    ]

    assert [receipt.only("TaskStarted")["weight"] for receipt in receipts] == [9_001, 9_001]


def test_packaged_bridge_sends_feedback_to_the_registry(
    roots: RootsOracle, deploy: Deployer
) -> None:
    # Its event has too many strings for a compiler that does not use Yul.
    registry = roots.chain.deploy("roots/consumers/ReputationRegistryDouble")
    arguments = roots.contract.address, registry.address, registry.address
    bridge = Consumer(roots, deploy("ReputationBridge", *arguments))
    roots.chain.send(registry.functions.register(17, roots.node(3)))
    source = push_lagged(bridge, {3: {"lane": 5_002}})

    feedback = bridge.send("giveFeedback", 17, *source.proven(3)).only("NewFeedback")

    assert (feedback["value"], feedback["feedbackHash"]) == (50, source.root)


def test_packaged_bridge_attests_score(roots: RootsOracle, deploy: Deployer) -> None:
    service = deploy("AttestationServiceDouble")
    bridge = Consumer(roots, deploy("AttestationBridge", roots.contract.address, service.address))
    roots.chain.send(service.functions.register(bridge.read("SCHEMA"), ZERO, False))
    source = push_lagged(bridge, {3: {"lane": 5_002}})

    uid = bridge.send("attest", *source.proven(3)).only("Attested")["uid"]

    attestation = service.functions.getAttestation(uid).call(block_identifier="latest")
    kinds = ["address", "uint32", "uint16", "bytes32"]
    decoded = roots.chain.web3.codec.decode(kinds, attestation[-1])
    assert decoded == (roots.node(3).lower(), source.round, 5_002, source.root)
