"""Who is asked to download a model as a task starts."""

from dataclasses import replace

from hypothesis import given

from oracle.domain.fixed_point import UNIT
from oracle.systems.crynux.crynux_policy import SEED_POLICY
from oracle.systems.crynux.predownload import ModelSpread, Predownload, predownloads
from oracle.systems.crynux.requirements import unavailable
from oracle.systems.crynux.selection_weight import SEED_WEIGHTING
from tests.support.histories import node
from tests.unit.systems.crynux.making import a_node, a_policy_input, a_task
from tests.unit.systems.crynux.networks import networks, quick, requests

MODEL = "base:a"


def asked(nodes, task=None, **more):
    wanted = task or a_task(models=(MODEL,))
    return predownloads(wanted, a_policy_input(nodes), SEED_WEIGHTING, ModelSpread(**more))


@quick
@given(networks(), requests())
def test_those_asked_could_run_the_task_but_for_the_model(nodes, task):
    policy_input = a_policy_input(nodes)
    # The same without models: nobody is out for them.
    plain = SEED_POLICY.follow().verdicts(replace(task, models=()), policy_input)
    eligible = {each.node for each in plain if each.weight is not None}
    said = dict(predownloads(task, policy_input, SEED_WEIGHTING))
    for model in set(task.models):
        free = [
            each
            for each in nodes
            if unavailable(each, policy_input.time, policy_input.rules) is None
        ]
        holders = sum(model in each.models for each in free)
        lacking = {each for each in eligible if model not in policy_input.nodes[each].models}
        assert set(said.get(model, ())) == (lacking if holders < 3 else set())
    assert set(said) <= set(task.models)


def test_from_three_available_nodes_on_nobody_is_asked():
    holders = [a_node(name, models=(MODEL,)) for name in "ABC"]
    other = a_node("D")
    assert asked([*holders, other]) == []
    for change in ({"running": 1}, {"paused": True}, {"base": UNIT // 20}):
        fewer = [*holders[:2], replace(holders[2], **change), other]
        assert asked(fewer) == [Predownload(MODEL, (node("D"),))]


def test_at_most_ten_are_asked_the_likeliest_first():
    nodes = [a_node(f"{n:02}", stake=n * UNIT) for n in range(20)]
    ((_, names),) = asked(nodes)
    assert names == tuple(node(f"{n}") for n in range(19, 9, -1))
    ((_, names),) = asked(nodes, more=2)
    assert len(names) == 2


def test_each_model_is_looked_at_by_itself():
    task = a_task(models=("lora:c", MODEL, "lora:c"))
    nodes = [a_node("A", models=(MODEL,)), a_node("B")]
    assert asked(nodes, task) == [
        Predownload("lora:c", (node("A"), node("B"))),
        Predownload(MODEL, (node("B"),)),
    ]


def test_nobody_is_asked_who_does_not_fit_the_task():
    assert asked([a_node("A", gpu_vram=8)], a_task(models=(MODEL,), min_vram=9)) == []
