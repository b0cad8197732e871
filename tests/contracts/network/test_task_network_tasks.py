"""Tasks of the reference network outside of groups, from creation to their end."""

from typing import Any

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import (
    FEE,
    GPU,
    NOTHING,
    VRAM,
    AbortReasonCode,
    Network,
    Status,
    encode_word,
)

pytestmark = pytest.mark.evm

VALIDATION = 600


@pytest.fixture
def network(busy: Network, chain: Chain) -> Network:
    return busy


@pytest.fixture
def alice(network: Network) -> str:
    return network.nodes[0]


def test_task_creation_event_contains_all_task_data(network: Network):
    order_fields: dict[str, Any] = {
        "id": encode_word(9),
        "group": encode_word(8),
        "group_size": 3,
        "kind": 2,
        "min_vram": 16,
        "required_gpu": GPU,
        "required_gpu_vram": 24,
        "models": ["sdxl", "lora"],
        "major": 2,
        "minor": 3,
        "patch": 4,
        "size": 50,
        "timeout": 77,
    }
    call = network.does.createTask(network.order(**order_fields))
    event = network.by(network.creator, call, FEE).only("TaskCreated")

    assert event == {
        "task": network.does.keyOf(network.creator, encode_word(9)).call(),
        "creator": network.creator,
        "group": network.does.keyOf(network.creator, encode_word(8)).call(),
        "fee": FEE,
        "kind": 2,
        "minVram": 16,
        "requiredGpu": GPU,
        "requiredGpuVram": 24,
        "models": ["sdxl", "lora"],
        "major": 2,
        "minor": 3,
        "patch": 4,
        "size": 50,
        "timeout": 77,
        "groupSize": 3,
    }


def test_two_creators_may_use_same_task_id(network: Network):
    tasks = {network.create(creator=who, id=encode_word(1)) for who in network.chain.accounts[3:5]}
    assert len(tasks) == 2


def test_duplicate_task_id_is_rejected(network: Network):
    network.create(id=encode_word(1))
    with pytest.raises(RevertedError, match="TaskExists"):
        network.create(id=encode_word(1))


@pytest.mark.parametrize(
    ("error", "requirement"),
    [
        ("BadKind", {"kind": 3}),
        ("BadSize", {"size": 0}),
        ("BadTimeout", {"timeout": 59}),
        ("BadTimeout", {"timeout": 86401}),
        ("BadName", {"required_gpu": "x" * 129}),
        ("BadName", {"models": [""]}),
        ("TooManyModels", {"models": ["m"] * 65}),
        ("BadGroupSize", {"group_size": 3}),
        ("BadGroupSize", {"group": encode_word(1), "group_size": 1}),
        ("BadGroupSize", {"group": encode_word(1), "group_size": 17}),
    ],
)
def test_creating_a_task_with_invalid_parameters_is_rejected(
    network: Network, error: str, requirement: dict[str, Any]
):
    with pytest.raises(RevertedError, match=error):
        network.create(**requirement)


def test_task_is_queued_started_submitted_and_validated(network: Network, alice: str):
    task = network.create(fee=FEE)
    queued = network.by(network.dispatcher, network.does.queueTask(task))
    started = network.start(task, alice)
    submitted = network.submit(task, alice, result=7)
    ended = network.by(network.creator, network.does.validateTask(task))

    assert queued.only("TaskQueued") == {"task": task}
    assert started.only("TaskStarted") == {"task": task, "node": alice}
    result = {"task": task, "node": alice, "resultHash": encode_word(7)}
    assert submitted.only("TaskSubmitted") == result
    assert ended.names == ["TaskValidated", "TaskSucceeded", "Credited"]
    assert network.owed(alice) == FEE
    assert network.node(alice)["task"] == NOTHING


def test_only_dispatcher_may_queue_start_or_drop_task(network: Network, alice: str):
    task = network.create()
    for call in (
        network.does.queueTask(task),
        network.does.startTask(task, alice),
        network.does.dropTask(task, AbortReasonCode.FEE_TOO_LOW),
    ):
        with pytest.raises(RevertedError, match="NotDispatcher"):
            network.by(network.creator, call)


def test_task_can_be_queued_and_started_only_once(network: Network, alice: str):
    task = network.create()
    network.by(network.dispatcher, network.does.queueTask(task))
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.by(network.dispatcher, network.does.queueTask(task))
    network.start(task, alice)
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.start(task, alice)


def test_starting_a_second_task_on_a_busy_node_is_rejected(network: Network, alice: str):
    network.create_started_task(alice)
    with pytest.raises(RevertedError, match="NodeBusy"):
        network.start(network.create(), alice)


def test_task_cannot_start_on_non_member_or_paused_node(network: Network, alice: str):
    task = network.create()
    with pytest.raises(RevertedError, match="NotMember"):
        network.start(task, network.nodes[3])
    network.by(alice, network.does.pause())
    with pytest.raises(RevertedError, match="NodeIsPaused"):
        network.start(task, alice)


@pytest.mark.parametrize(
    ("error", "requirement"),
    [
        ("WrongGpu", {"min_vram": VRAM + 1}),
        ("WrongGpu", {"required_gpu": GPU, "required_gpu_vram": VRAM + 1}),
        ("WrongGpu", {"required_gpu": GPU, "required_gpu_vram": VRAM - 1}),
        ("WrongGpu", {"required_gpu": "Another", "required_gpu_vram": VRAM}),
        ("WrongVersion", {"major": 1}),
        ("WrongVersion", {"major": 3}),
        ("WrongVersion", {"minor": 6}),
        ("WrongVersion", {"minor": 5, "patch": 1}),
    ],
)
def test_starting_a_task_on_an_incompatible_node_is_rejected(
    network: Network, alice: str, error: str, requirement: dict[str, Any]
):
    with pytest.raises(RevertedError, match=error):
        network.create_started_task(alice, **requirement)


@pytest.mark.parametrize(
    "requirement",
    [
        {"min_vram": VRAM},
        {"required_gpu": GPU, "required_gpu_vram": VRAM, "min_vram": 99},
        {"minor": 5, "patch": 0},
        {"minor": 4, "patch": 9},
    ],
)
def test_task_that_exactly_matches_the_node_can_start(
    network: Network, alice: str, requirement: dict[str, Any]
):
    assert network.status(network.create_started_task(alice, **requirement)) is Status.STARTED


def test_only_assigned_node_can_answer_once(network: Network, alice: str):
    task = network.create_started_task(alice)
    for act in (network.submit, network.report_error):
        with pytest.raises(RevertedError, match="NotItsTask"):
            act(task, network.nodes[1])
    with pytest.raises(RevertedError, match="ZeroResult"):
        network.submit(task, alice, result=0)
    network.submit(task, alice)
    for act in (network.submit, network.report_error):
        with pytest.raises(RevertedError, match="WrongStatus"):
            act(task, alice)
