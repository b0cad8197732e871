"""Nodes of the reference network: joining, pausing, leaving, and rejected calls."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import ETHER, GPU, MIN_STAKE, VERSION, VRAM, Network, Standing

pytestmark = pytest.mark.evm


@pytest.fixture(scope="module")
def alone(fresh_chain: Chain) -> Network:
    """Return a network without an oracle."""
    return Network.deployed(fresh_chain)


@pytest.fixture
def network(alone: Network, chain: Chain) -> Network:
    return alone


@pytest.fixture
def alice(network: Network) -> str:
    node = network.nodes[0]
    network.join(node)
    return node


def test_join_event_contains_all_node_data(network: Network):
    node = network.nodes[0]
    event = network.join(node, models=["sdxl", "llama"]).only("NodeJoined")

    assert event == {
        "node": node,
        "stake": MIN_STAKE,
        "gpuName": GPU,
        "gpuVram": VRAM,
        "major": VERSION[0],
        "minor": VERSION[1],
        "patch": VERSION[2],
        "models": ["sdxl", "llama"],
    }
    assert network.does.activeCount().call() == 1
    assert network.balance() == MIN_STAKE


def test_member_cannot_join_again(network: Network, alice: str):
    with pytest.raises(RevertedError, match="AlreadyMember"):
        network.join(alice)


def test_stake_below_minimum_is_rejected(network: Network):
    with pytest.raises(RevertedError, match="StakeTooLow") as refused:
        network.join(network.nodes[0], stake=MIN_STAKE - 1)
    assert refused.value.values == (MIN_STAKE - 1, MIN_STAKE)


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_empty_or_oversized_gpu_name_is_rejected(network: Network, name: str):
    with pytest.raises(RevertedError, match="BadName"):
        network.join(network.nodes[0], gpu=name)


def test_names_up_to_length_limit_are_accepted(network: Network):
    receipt = network.join(network.nodes[0], gpu="x" * 128, models=["m" * 128] * 64)
    assert len(receipt.only("NodeJoined")["models"]) == 64


def test_too_many_models_are_rejected(network: Network):
    with pytest.raises(RevertedError, match=r"TooManyModels\(65\)"):
        network.join(network.nodes[0], models=["m"] * 65)


def test_empty_model_name_is_rejected(network: Network, alice: str):
    with pytest.raises(RevertedError, match="BadName"):
        network.join(network.nodes[1], models=["sdxl", ""])
    with pytest.raises(RevertedError, match="BadName"):
        network.by(alice, network.does.addModel(""))


def test_member_updates_emit_events(network: Network, alice: str):
    model = network.by(alice, network.does.addModel("llama")).only("ModelAdded")
    version = network.by(alice, network.does.updateVersion(3, 1, 4)).only("NodeVersionUpdated")
    stake = network.by(alice, network.does.addStake(), value=ETHER).only("NodeStakeChanged")

    assert model == {"node": alice, "model": "llama"}
    assert version == {"node": alice, "major": 3, "minor": 1, "patch": 4}
    assert stake == {"node": alice, "stake": MIN_STAKE + ETHER}


def test_zero_stake_increase_is_rejected(network: Network, alice: str):
    """Otherwise, a loop could emit events for the price of gas alone."""
    with pytest.raises(RevertedError, match=r"StakeTooLow\(0, 1\)"):
        network.by(alice, network.does.addStake())
    network.by(alice, network.does.addStake(), value=1)


@pytest.mark.parametrize("act", ["pause", "resume", "quit", "addStake", "version", "model"])
def test_calls_by_non_member_are_rejected(network: Network, act: str):
    calls = {"version": ("updateVersion", (1, 2, 3)), "model": ("addModel", ("sdxl",))}
    name, args = calls.get(act, (act, ()))

    with pytest.raises(RevertedError, match="NotMember"):
        network.by(network.nodes[5], getattr(network.does, name)(*args))


def test_paused_node_becomes_active_on_resume(network: Network, alice: str):
    assert network.by(alice, network.does.pause()).names == ["NodePaused"]
    assert network.standing(alice) is Standing.PAUSED

    with pytest.raises(RevertedError, match="AlreadyPaused"):
        network.by(alice, network.does.pause())
    assert network.by(alice, network.does.resume()).names == ["NodeResumed"]
    with pytest.raises(RevertedError, match="NotPaused"):
        network.by(alice, network.does.resume())


def test_quit_ends_membership_and_credits_stake(network: Network, alice: str):
    receipt = network.by(alice, network.does.quit())

    assert receipt.names == ["NodeQuit", "StakeReturned", "Credited"]
    assert network.owed(alice) == MIN_STAKE
    assert network.standing(alice) is Standing.QUIT
    assert network.does.activeCount().call() == 0


def test_paused_node_may_quit(network: Network, alice: str):
    network.by(alice, network.does.pause())
    assert "NodeQuit" in network.by(alice, network.does.quit()).names


def test_busy_node_pauses_immediately_but_can_still_answer(network: Network, alice: str):
    task = network.create_started_task(alice)

    assert network.by(alice, network.does.pause()).names == ["NodePaused"]
    with pytest.raises(RevertedError, match="AlreadyPaused"):
        network.by(alice, network.does.pause())
    network.submit(task, alice)
    with pytest.raises(RevertedError, match="NodeIsPaused"):
        network.create_started_task(alice)
    network.by(network.creator, network.does.validateTask(task))
    assert network.standing(alice) is Standing.PAUSED


def test_quit_of_a_busy_node_takes_effect_after_validation(network: Network, alice: str):
    first = network.submitted(alice)
    second = network.create_started_task(alice)

    assert network.by(alice, network.does.quit()).names == []
    for act in (network.does.quit, network.does.pause):
        with pytest.raises(RevertedError, match="QuitPending"):
            network.by(alice, act())
    network.submit(second, alice)
    with pytest.raises(RevertedError, match="QuitPending"):
        network.create_started_task(alice)
    network.by(network.creator, network.does.validateTask(first))
    assert network.standing(alice) is Standing.ACTIVE
    end = network.by(network.creator, network.does.validateTask(second))

    left = ["NodeQuit", "StakeReturned", "Credited"]
    assert end.names == ["TaskValidated", "TaskSucceeded", "Credited", *left]
    assert network.standing(alice) is Standing.QUIT


def test_node_can_start_another_task_after_answering(network: Network, alice: str):
    tasks = [network.submitted(alice) for _ in range(3)]
    assert network.node(alice)["open"] == 3
    for task in tasks:
        network.by(network.creator, network.does.validateTask(task))
    assert network.node(alice)["open"] == 0


def test_node_that_quit_may_rejoin_after_delay(network: Network, alice: str):
    network.by(alice, network.does.quit())
    left = network.chain.time

    network.chain.at(left + 1799)
    with pytest.raises(RevertedError, match="RejoinTooEarly") as refused:
        network.join(alice)
    assert refused.value.values[1] == left + 1800
    network.chain.at(left + 1800)
    assert network.join(alice, stake=MIN_STAKE + 1).names == ["NodeJoined"]
    assert network.owed(alice) == MIN_STAKE
    # The earlier request to leave is not kept.
    network.by(network.creator, network.does.validateTask(network.submitted(alice)))
    assert network.standing(alice) is Standing.ACTIVE
