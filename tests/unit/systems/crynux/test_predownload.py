"""Who is asked to download a model as a task starts."""

from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.state.node import DOWNLOAD_HISTORY_SECONDS, DownloadRequest, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.crynux_policy import CRYNUX_POLICY, ModelSpread
from oracle.systems.crynux.predownload import (
    Predownload,
    has_scarce_model,
    list_requests,
    plan_predownloads,
)
from oracle.systems.crynux.requirements import unavailability_reason
from oracle.systems.crynux.selection_weight import CRYNUX_WEIGHTING
from tests.support.histories import node
from tests.unit.systems.crynux.making import NOW, a_node, a_policy_input, a_task
from tests.unit.systems.crynux.networks import networks, quick, requests

MODEL = "base:a"
MINUTES = 60


def asked(nodes: list[Node], task: Task | None = None, **more: int) -> list[Predownload]:
    wanted = task or a_task(models=(MODEL,))
    return plan_predownloads(wanted, a_policy_input(nodes), CRYNUX_WEIGHTING, ModelSpread(**more))


def request(minutes_ago: int, *, model: str = MODEL) -> DownloadRequest:
    at = NOW - minutes_ago * MINUTES
    return DownloadRequest(model, at, at + 30 * MINUTES)


@quick
@given(networks(), requests())
def test_those_asked_could_run_the_task_when_free_but_for_the_model(nodes, task):
    policy_input = a_policy_input(nodes)
    # The same with nobody busy and no models: nobody is out for them.
    rested = a_policy_input([replace(each, running=0) for each in nodes])
    plain = CRYNUX_POLICY.create_follower().judge_candidates(replace(task, models=()), rested)
    eligible = {each.node for each in plain if each.weight is not None}
    said = {one.model: one for one in plan_predownloads(task, policy_input, CRYNUX_WEIGHTING)}
    free = [
        each
        for each in nodes
        if unavailability_reason(each, policy_input.time, policy_input.rules) is None
    ]
    for model in set(task.models):
        holders = sum(model in each.models for each in free)
        lacking = {each for each in eligible if model not in policy_input.nodes[each].models}
        if holders < 3:
            assert said[model].holders == holders
            assert set(said[model].nodes) <= lacking
            assert len(said[model].nodes) == min(10 - holders, len(lacking))
    assert set(said) == {m for m in task.models if sum(m in each.models for each in free) < 3}
    assert has_scarce_model(task.models, free, 3) == bool(said)


def test_from_three_available_nodes_on_nobody_is_asked():
    holders = [a_node(name, models=(MODEL,)) for name in "ABC"]
    other = a_node("D")
    assert asked([*holders, other]) == []
    for change in ({"running": 1}, {"paused": True}, {"base": UNIT // 20}):
        fewer = [*holders[:2], replace(holders[2], **change), other]
        assert asked(fewer) == [Predownload(MODEL, 2, 0, (node("D"),))]


def test_so_many_are_asked_that_ten_have_it_the_likeliest_first():
    nodes = [a_node(f"{n:02}", stake=n * UNIT) for n in range(20)]
    ((_, _, _, names),) = asked(nodes)
    assert names == tuple(node(f"{n}") for n in range(19, 9, -1))
    ((_, _, _, names),) = asked(nodes, target_nodes=2)
    assert len(names) == 2


def test_a_busy_node_is_asked_it_downloads_beside_its_task():
    assert asked([a_node("A", running=1)]) == [Predownload(MODEL, 0, 0, (node("A"),))]


def test_who_runs_the_task_is_not_asked_it_downloads_by_itself():
    runs, other = a_node("A", running=1), a_node("B")
    scene = replace(a_policy_input([runs, other]), reserved=frozenset({node("A")}))
    task = a_task(models=(MODEL,))
    assert plan_predownloads(task, scene, CRYNUX_WEIGHTING) == [
        Predownload(MODEL, 0, 0, (node("B"),))
    ]


def test_who_was_asked_and_may_still_answer_counts_as_one_who_has_it():
    nodes = [a_node("A", downloads=(request(29),)), a_node("B"), a_node("C")]
    assert asked(nodes, target_nodes=2) == [Predownload(MODEL, 0, 1, (node("B"),))]


def test_nobody_is_asked_for_the_same_model_again_within_a_day():
    silent = a_node("A", downloads=(request(31),))
    assert asked([silent]) == [Predownload(MODEL, 0, 0, ())]
    long_ago = replace(silent, downloads=(request(DOWNLOAD_HISTORY_SECONDS // MINUTES),))
    assert asked([long_ago]) == [Predownload(MODEL, 0, 0, (node("A"),))]


def test_a_node_is_asked_for_so_many_models_a_day_and_no_more():
    busy = a_node("A", downloads=(request(50, model="x"), request(40, model="y")))
    task = a_task(models=(MODEL, "lora:c"))
    ((_, _, _, first), (_, _, _, second)) = asked([busy], task, per_node_per_day=3)
    assert (first, second) == ((node("A"),), ())


@given(st.integers(0, 12), st.integers(0, 12))
def test_all_requests_of_a_day_together_are_bounded(per_day, before):
    nodes = [a_node(f"{n:02}") for n in range(12)]
    for each in nodes[:before]:
        each.downloads = (request(100, model="x"),)
    ((_, _, _, names),) = asked(nodes, per_day=per_day, target_nodes=12)
    assert len(names) == min(12, max(0, per_day - before))


def test_each_model_is_looked_at_by_itself():
    task = a_task(models=("lora:c", MODEL, "lora:c"))
    nodes = [a_node("A", models=(MODEL,)), a_node("B")]
    assert asked(nodes, task) == [
        Predownload("lora:c", 0, 0, (node("A"), node("B"))),
        Predownload(MODEL, 1, 0, (node("B"),)),
    ]


def test_nobody_is_asked_who_does_not_fit_the_task():
    misfit = [a_node("A", gpu_vram=8)]
    assert asked(misfit, a_task(models=(MODEL,), min_vram=9)) == [Predownload(MODEL, 0, 0, ())]


def test_a_request_is_open_until_its_time_and_answered_where_the_model_is_there():
    requests = (request(40, model="late"), request(20, model="soon"), request(50, model="there"))
    told = a_node("A", models=("there",), downloads=requests)
    states = {each.request.model: each.state for each in list_requests(told, NOW)}
    assert states == {"late": "unanswered", "soon": "open", "there": "answered"}
