"""Which nodes are asked to download a model when a task starts."""

from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.state import DOWNLOAD_HISTORY_SECONDS, DownloadRequest, Node, Task
from oracle.systems.crynux.crynux_policy import CRYNUX_POLICY, CRYNUX_WEIGHTING, ModelSpread
from oracle.systems.crynux.predownload import (
    Predownload,
    has_scarce_model,
    list_download_requests,
    plan_predownloads,
)
from oracle.systems.crynux.requirements import find_unavailability_reason
from tests.support.histories import make_node_address
from tests.unit.systems.crynux.networks import networks, quick, requests
from tests.unit.systems.crynux.scenes import NOW, a_node, a_policy_input, a_task

MODEL = "base:a"
MINUTES = 60


def plan(nodes: list[Node], task: Task | None = None, **more: int) -> list[Predownload]:
    planned_task = task or a_task(models=(MODEL,))
    return plan_predownloads(
        planned_task, a_policy_input(nodes), CRYNUX_WEIGHTING, ModelSpread(**more)
    )


def request(minutes_ago: int, *, model: str = MODEL) -> DownloadRequest:
    at = NOW - minutes_ago * MINUTES
    return DownloadRequest(model, at, at + 30 * MINUTES)


@quick
@given(networks(), requests())
def test_suggested_nodes_fit_the_task_and_lack_the_model(nodes, task):
    policy_input = a_policy_input(nodes)
    # The same without busy nodes and models, so that no node is ineligible because of them.
    rested = a_policy_input([replace(candidate, running=0) for candidate in nodes])
    plain = CRYNUX_POLICY.create_evaluator().evaluate_candidates(replace(task, models=()), rested)
    eligible = {verdict.node for verdict in plain if verdict.weight is not None}
    predownload_by_model = {
        predownload.model: predownload
        for predownload in plan_predownloads(task, policy_input, CRYNUX_WEIGHTING)
    }
    free = [
        candidate
        for candidate in nodes
        if find_unavailability_reason(candidate, policy_input.time, policy_input.rules) is None
    ]
    for model in set(task.models):
        holders = sum(model in candidate.models for candidate in free)
        lacking = {
            address for address in eligible if model not in policy_input.nodes[address].models
        }
        if holders < 3:
            assert predownload_by_model[model].holders == holders
            assert set(predownload_by_model[model].nodes) <= lacking
            assert len(predownload_by_model[model].nodes) == min(10 - holders, len(lacking))
    assert set(predownload_by_model) == {
        m for m in task.models if sum(m in candidate.models for candidate in free) < 3
    }
    assert has_scarce_model(task.models, free, 3) == bool(predownload_by_model)


def test_no_download_is_suggested_if_three_free_nodes_have_the_model():
    holders = [a_node(name, models=(MODEL,)) for name in "ABC"]
    target = a_node("D")
    assert plan([*holders, target]) == []
    for change in ({"running": 1}, {"paused": True}, {"base": UNIT // 20}):
        fewer = [*holders[:2], replace(holders[2], **change), target]
        assert plan(fewer) == [Predownload(MODEL, 2, 0, (make_node_address("D"),))]


def test_nodes_are_selected_by_weight_up_to_the_target():
    nodes = [a_node(f"{n:02}", stake=n * UNIT) for n in range(20)]
    ((_, _, _, names),) = plan(nodes)
    assert names == tuple(make_node_address(f"{n}") for n in range(19, 9, -1))
    ((_, _, _, names),) = plan(nodes, target_nodes=2)
    assert len(names) == 2


def test_busy_node_is_selected_for_predownload():
    assert plan([a_node("A", running=1)]) == [Predownload(MODEL, 0, 0, (make_node_address("A"),))]


def test_reserved_node_is_not_selected_for_predownload():
    runs = a_node("A", running=1)
    target = a_node("B")
    scene = replace(a_policy_input([runs, target]), reserved=frozenset({make_node_address("A")}))
    task = a_task(models=(MODEL,))
    assert plan_predownloads(task, scene, CRYNUX_WEIGHTING) == [
        Predownload(MODEL, 0, 0, (make_node_address("B"),))
    ]


def test_node_with_an_open_request_counts_as_pending_holder():
    nodes = [a_node("A", downloads=(request(29),)), a_node("B"), a_node("C")]
    assert plan(nodes, target_nodes=2) == [Predownload(MODEL, 0, 1, (make_node_address("B"),))]


def test_unanswered_request_is_not_repeated_within_24_hours():
    silent = a_node("A", downloads=(request(31),))
    assert plan([silent]) == [Predownload(MODEL, 0, 0, ())]
    long_ago = replace(silent, downloads=(request(DOWNLOAD_HISTORY_SECONDS // MINUTES),))
    assert plan([long_ago]) == [Predownload(MODEL, 0, 0, (make_node_address("A"),))]


def test_requests_per_node_and_day_are_limited():
    busy = a_node("A", downloads=(request(50, model="x"), request(40, model="y")))
    task = a_task(models=(MODEL, "lora:c"))
    ((_, _, _, first), (_, _, _, second)) = plan([busy], task, per_node_per_day=3)
    assert (first, second) == ((make_node_address("A"),), ())


@given(st.integers(0, 12), st.integers(0, 12))
def test_total_requests_per_day_are_limited(per_day, before):
    nodes = [a_node(f"{n:02}") for n in range(12)]
    for requested_node in nodes[:before]:
        requested_node.downloads = (request(100, model="x"),)
    ((_, _, _, names),) = plan(nodes, per_day=per_day, target_nodes=12)
    assert len(names) == min(12, max(0, per_day - before))


def test_downloads_are_planned_for_each_model_separately():
    task = a_task(models=("lora:c", MODEL, "lora:c"))
    nodes = [a_node("A", models=(MODEL,)), a_node("B")]
    assert plan(nodes, task) == [
        Predownload("lora:c", 0, 0, (make_node_address("A"), make_node_address("B"))),
        Predownload(MODEL, 1, 0, (make_node_address("B"),)),
    ]


def test_unfit_node_is_not_selected_for_predownload():
    misfit = [a_node("A", gpu_vram=8)]
    assert plan(misfit, a_task(models=(MODEL,), min_vram=9)) == [Predownload(MODEL, 0, 0, ())]


def test_request_state_is_open_answered_or_unanswered():
    requests = (request(40, model="late"), request(20, model="soon"), request(50, model="there"))
    requested_node = a_node("A", models=("there",), downloads=requests)
    states = {
        listed_request.model: state
        for listed_request, state in list_download_requests(requested_node, NOW)
    }
    assert states == {"late": "unanswered", "soon": "open", "there": "answered"}
