"""The candidates of a task, their weights, and the reasons of other nodes, for every network."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.state import Membership, Node, Task
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_POLICY,
    CRYNUX_WEIGHTING,
    RELAY_POLICY,
    CrynuxPolicy,
    Weighting,
    compute_locality_boost,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from oracle.systems.crynux.requirements import IneligibilityReason
from oracle.systems.policy import CandidateVerdict, PolicyInput
from tests.support.histories import make_node_address
from tests.unit.systems.crynux.networks import networks, quick, requests
from tests.unit.systems.crynux.scenes import NOW, a_node, a_policy_input, a_task

POLICIES = st.sampled_from([CRYNUX_POLICY, RELAY_POLICY])


def verdicts(
    policy: CrynuxPolicy, task: Task, policy_input: PolicyInput
) -> list[CandidateVerdict]:
    return policy.create_evaluator().evaluate_candidates(task, policy_input)


@quick
@given(networks(), requests(), POLICIES)
def test_every_member_has_either_a_weight_or_a_reason(nodes, task, policy):
    candidate_verdicts = verdicts(policy, task, a_policy_input(nodes))
    members = [
        candidate.address for candidate in nodes if candidate.membership is Membership.MEMBER
    ]
    assert [verdict.node for verdict in candidate_verdicts] == sorted(members)
    for verdict in candidate_verdicts:
        assert (verdict.weight is None) == (verdict.reason is not None)
        assert (
            verdict.reason is None
            or IneligibilityReason(verdict.reason) is not IneligibilityReason.NO_MEMBER
        )
        assert verdict.weight is None or verdict.weight >= 0


@quick
@given(networks(), requests(), POLICIES, st.randoms())
def test_verdicts_are_independent_of_node_order(nodes, task, policy, random):
    shuffled = random.sample(nodes, len(nodes))
    assert verdicts(policy, task, a_policy_input(shuffled)) == verdicts(
        policy, task, a_policy_input(nodes)
    )


@quick
@given(networks(), requests())
def test_only_the_ratio_to_the_largest_stake_counts(nodes, task):
    doubled = [replace(candidate, stake=2 * (candidate.stake or 0)) for candidate in nodes]
    before = verdicts(CRYNUX_POLICY, task, a_policy_input(nodes))
    after = verdicts(CRYNUX_POLICY, task, a_policy_input(doubled))
    assert after == before


@quick
@given(networks(), requests())
def test_excluded_node_is_ineligible(nodes, task):
    policy_input = a_policy_input(
        [replace(candidate, base=UNIT // 11, since=NOW) for candidate in nodes]
    )
    assert all(verdict.weight is None for verdict in verdicts(CRYNUX_POLICY, task, policy_input))


@quick
@given(networks(), requests())
def test_additional_models_never_reduce_the_weight(nodes, task):
    policy_input = a_policy_input(nodes)
    for verdict in verdicts(CRYNUX_POLICY, task, policy_input):
        if verdict.weight is not None:
            owner = policy_input.nodes[verdict.node]
            richer = replace(owner, models=task.models, in_use=task.models)
            richer_nodes = {**policy_input.nodes, verdict.node: richer}
            after = verdicts(CRYNUX_POLICY, task, replace(policy_input, nodes=richer_nodes))
            weight = next(a.weight for a in after if a.node == verdict.node)
            assert weight is not None
            assert weight >= verdict.weight


@quick
@given(networks(), requests())
def test_node_without_the_models_is_ineligible_if_another_has_them(nodes, task):
    candidate_verdicts = verdicts(CRYNUX_POLICY, task, a_policy_input(nodes))
    if any(
        verdict.reason == IneligibilityReason.MODELS_NOT_ON_DISK for verdict in candidate_verdicts
    ):
        chosen = [verdict.node for verdict in candidate_verdicts if verdict.weight is not None]
        models = {candidate.address: candidate.models for candidate in nodes}
        assert chosen
        assert all(set(task.models) <= set(models[address]) for address in chosen)


@quick
@given(networks(), requests(), st.integers(0, UNIT))
def test_candidate_weight_is_at_least_floor(nodes, task, floor):
    policy = CrynuxPolicy("crynux", 2, Weighting(weight_floor=floor))
    bare = CrynuxPolicy("crynux", 2, Weighting(weight_floor=0))
    plain = verdicts(bare, task, a_policy_input(nodes))
    for before, after in zip(plain, verdicts(policy, task, a_policy_input(nodes)), strict=True):
        assert after.weight == (None if before.weight is None else max(before.weight, floor))


REASONS: dict[str, tuple[IneligibilityReason | None, dict[str, Any], dict[str, Any]]] = {
    "paused": (IneligibilityReason.PAUSED, {"paused": True}, {}),
    "busy": (IneligibilityReason.BUSY, {"running": 1}, {}),
    "paused while busy": (IneligibilityReason.PAUSED, {"paused": True, "running": 1}, {}),
    "excluded": (IneligibilityReason.EXCLUDED, {"base": UNIT // 10 - 1}, {}),
    "just not excluded": (None, {"base": UNIT // 10}, {}),
    "unknown GPU": (IneligibilityReason.GPU_UNKNOWN, {}, {"required_gpu": "A100"}),
    "another GPU": (IneligibilityReason.GPU_NAME, {"gpu_name": "T4"}, {"required_gpu": "A100"}),
    "a GPU of a longer name": (
        IneligibilityReason.GPU_NAME,
        {"gpu_name": "A100-SXM"},
        {"required_gpu": "A100"},
    ),
    "GPU without its memory": (
        IneligibilityReason.VRAM_UNKNOWN,
        {"gpu_name": "A100"},
        {"required_gpu": "A100", "required_gpu_vram": 40},
    ),
    "GPU with more memory": (
        IneligibilityReason.GPU_VRAM,
        {"gpu_name": "A100", "gpu_vram": 80},
        {"required_gpu": "A100", "required_gpu_vram": 40},
    ),
    "GPU with any memory": (None, {"gpu_name": "A100"}, {"required_gpu": "A100"}),
    "GPU, and minimum ignored": (
        None,
        {"gpu_name": "A100", "gpu_vram": 40},
        {"required_gpu": "A100", "required_gpu_vram": 40, "min_vram": 80},
    ),
    "empty GPU is none": (None, {}, {"required_gpu": ""}),
    "unknown memory": (IneligibilityReason.VRAM_UNKNOWN, {}, {"min_vram": 8}),
    "too little memory": (IneligibilityReason.VRAM_TOO_SMALL, {"gpu_vram": 7}, {"min_vram": 8}),
    "just enough memory": (None, {"gpu_vram": 8}, {"min_vram": 8}),
    "unknown version": (IneligibilityReason.VERSION_UNKNOWN, {}, {"version": (1, 0, 0)}),
    "an older version": (
        IneligibilityReason.VERSION,
        {"version": (1, 0, 9)},
        {"version": (1, 1, 0)},
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_ineligibility_reason_matches_listed_cases(name):
    out, values, task_fields = REASONS[name]
    candidate_verdicts = verdicts(
        CRYNUX_POLICY, a_task(**task_fields), a_policy_input([a_node("A", **values)])
    )
    assert [verdict.reason for verdict in candidate_verdicts] == [out]


def test_node_reserved_for_another_task_is_ineligible():
    policy_input = a_policy_input(
        [a_node("A"), a_node("B")], taken=frozenset({make_node_address("A")})
    )
    candidate_verdicts = verdicts(CRYNUX_POLICY, a_task(), policy_input)
    assert [verdict.reason for verdict in candidate_verdicts] == [IneligibilityReason.TAKEN, None]


def test_other_nodes_are_candidates_if_the_model_holder_is_reserved():
    nodes = [a_node("A", models=("base:a",)), a_node("B")]
    task = a_task(models=("base:a",))
    reasons = [
        [
            verdict.reason
            for verdict in verdicts(CRYNUX_POLICY, task, a_policy_input(nodes, taken=reserved))
        ]
        for reserved in (frozenset(), frozenset({make_node_address("A")}))
    ]
    assert reasons == [
        [None, IneligibilityReason.MODELS_NOT_ON_DISK],
        [IneligibilityReason.TAKEN, None],
    ]


def test_verdict_lists_the_factors_of_the_weight():
    nodes = [a_node("A", stake=25 * UNIT, pool=bytes([8])), a_node("B")]
    verdict = verdicts(CRYNUX_POLICY, a_task(), a_policy_input(nodes))[0]
    expected = {"S": Fraction(1, 2), "QoS": Fraction(4, 5), "M": Fraction(1)}
    expected["W"] = expected["S"] * expected["QoS"] / (expected["S"] + expected["QoS"])
    assert list(verdict.parts) == ["S", "QoS", "M", "W"]
    for name, value in expected.items():
        assert len(verdict.parts[name]) == len("0.") + 18
        assert abs(Fraction(verdict.parts[name]) - value) < Fraction(1, UNIT)
    assert verdict.weight == int(Fraction(verdict.parts["W"]) * UNIT)


def test_each_term_of_the_locality_boost_is_rounded_down():
    counted = frozenset("abcdefghijk")
    owner = a_node("A", models=("a",), in_use=("a",))
    # 1 + 0.7/11 + 0.3/11, both rounded down: one unit less than 1 + 1/11 rounded down.
    assert compute_locality_boost(owner, counted, CRYNUX_WEIGHTING) == UNIT + UNIT // 11 - 1


def test_node_with_zero_mean_score_has_floor_weight():
    nodes = [a_node("A", pool=bytes(3)), a_node("B")]
    weights = [
        verdict.weight for verdict in verdicts(CRYNUX_POLICY, a_task(), a_policy_input(nodes))
    ]
    assert weights == [UNIT // 100, UNIT // 3]


def test_largest_stake_includes_stake_of_busy_node():
    nodes = [a_node("A", stake=400 * UNIT, running=1), a_node("B", stake=100 * UNIT)]
    # S and QoS are one half.
    weights = [
        verdict.weight for verdict in verdicts(CRYNUX_POLICY, a_task(), a_policy_input(nodes))
    ]
    assert weights == [None, UNIT // 4]


def test_model_in_use_counts_as_local_even_if_not_reported_on_disk():
    nodes = [a_node("A", in_use=("base:a",)), a_node("B")]
    candidate_verdicts = verdicts(
        CRYNUX_POLICY, a_task(models=("base:a", "lora:c")), a_policy_input(nodes)
    )
    assert [Fraction(verdict.parts["M"]) for verdict in candidate_verdicts] == [
        Fraction(23, 20),
        1,
    ]


def test_relay_policy_requires_only_base_models():
    nodes = [
        a_node("A", models=("base:a", "plain"), in_use=("base:a", "lora:c")),
        a_node("B", models=("base:a", "lora:c"), in_use=("base:a",)),
    ]
    task = a_task(models=("base:a", "lora:c", "controlnet:d", "plain"))
    candidate_verdicts = verdicts(RELAY_POLICY, task, a_policy_input(nodes, RELAY))
    # A name without a prefix belongs to a base model.
    assert [verdict.reason for verdict in candidate_verdicts] == [
        None,
        IneligibilityReason.MODELS_NOT_ON_DISK,
    ]
    assert [Fraction(verdict.parts["M"]) for verdict in candidate_verdicts] == [
        Fraction(23, 20),
        Fraction(23, 20),
    ]


@pytest.mark.parametrize("field", ["weight_floor", "disk_boost", "memory_boost"])
def test_negative_parameter_is_named_in_the_error(field):
    values: dict[str, Any] = {field: -1}
    with pytest.raises(ValueError, match=field):
        Weighting(**values)


def test_node_stays_excluded_until_recovery_only_under_relay_policy():
    member: Node = a_node("A", excluded=True, base=79 * UNIT // 100)
    reasons = [
        verdicts(RELAY_POLICY, a_task(), a_policy_input([member], RELAY, time=NOW + seconds))[
            0
        ].reason
        for seconds in (0, 600)
    ]
    assert reasons == [IneligibilityReason.EXCLUDED, None]
    assert verdicts(CRYNUX_POLICY, a_task(), a_policy_input([member], CRYNUX))[0].reason is None
