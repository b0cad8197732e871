"""The statements of the current dispatching document with numbers and examples, each once.

docs/fidelity/ names the test of each statement. See docs/reference/sources.md#crynux-dispatching.
"""

from fractions import Fraction
from math import isqrt
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.events.network_events import TaskKind
from oracle.domain.fixed_point import UNIT
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_POLICY,
    CRYNUX_WEIGHTING,
    Weighting,
    compute_stake_score,
    compute_weight,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.policy import CandidateVerdict, PolicyInput
from oracle.systems.task_queue import QueueGroup, compute_queue_capacity
from tests.support.document.crynux_queue import TaskQueue
from tests.support.histories import History, fold_history, make_node_address, make_task_key

GPUS = {"4090": ("RTX 4090", 24), "4080": ("RTX 4080", 16), "3080": ("RTX 3080", 16)}
# A second of work, so that a task's value is its fee.
ONE_SECOND = Pricing(dict.fromkeys(TaskKind, Fraction(1)), dict.fromkeys(TaskKind, Fraction(0)))
# The formula alone, without its floor.
UNFLOORED = Weighting(weight_floor=0)
parts_of_one = st.integers(0, UNIT)


def build_members(*names: str, **values: Any) -> History:
    """Return members that differ only in name and GPU, `4090`, `4080` or `3080`."""
    history = History()
    for name in names:
        gpu, vram = GPUS.get(name.partition(" ")[0], ("RTX 4090", 24))
        history.joins(name, stake=100, gpu_name=gpu, gpu_vram=vram, **values)
    return history


def verdicts(history: History, name: str = "t") -> dict[str, CandidateVerdict]:
    """Return the policy's verdict on each member, by name, after the task `name` was created."""
    fold, _ = fold_history(history)
    policy_input = PolicyInput(fold.ledger.nodes, CRYNUX, history.time)
    candidate_verdicts = CRYNUX_POLICY.create_evaluator().evaluate_candidates(
        fold.ledger.tasks[make_task_key(name)], policy_input
    )
    return {
        bytes.fromhex(verdict.node[2:]).lstrip(b"\0").decode(): verdict
        for verdict in candidate_verdicts
    }


def weights(history: History, name: str = "t") -> dict[str, int]:
    """Return the weights of the candidates."""
    named_verdicts = verdicts(history, name).items()
    return {who: verdict.weight for who, verdict in named_verdicts if verdict.weight is not None}


def build_queue(*orders: tuple[str, int, dict[str, Any]]) -> TaskQueue:
    """Return a queue of tasks by name, fee and requirements, the oldest first."""
    history = History()
    for name, fee, task_fields in orders:
        history.after(1).creates(name, fee=fee, **task_fields)
    fold, _ = fold_history(history)
    return TaskQueue(ONE_SECOND, CRYNUX_WEIGHTING, fold.ledger.tasks.values())


def taken_by(queue: TaskQueue, name: str) -> str | None:
    fold, _ = fold_history(build_members(name))
    queue_entry = queue.next_for(fold.ledger.nodes[make_node_address(name)])
    if queue_entry is None:
        return None
    return bytes.fromhex(queue_entry.key[2:]).lstrip(b"\0").decode()


# Candidates


def test_task_without_requirements_has_all_free_members_as_candidates():
    assert weights(build_members("4090", "3080").creates("t")).keys() == {"4090", "3080"}


def test_only_nodes_with_the_required_gpu_are_candidates():
    history = build_members("4090", "4080", "3080 a", "3080 b")
    history.creates("t", required_gpu="RTX 3080", required_gpu_vram=16)
    assert weights(history).keys() == {"3080 a", "3080 b"}


def test_min_vram_includes_larger_gpus():
    history = build_members("4090", "4080", "3080").joins("small", gpu_name="GTX", gpu_vram=8)
    assert weights(history.creates("t", min_vram=16)).keys() == {"4090", "4080", "3080"}


def test_unmet_criteria_leave_no_candidates():
    assert weights(build_members("4080").creates("t", min_vram=40)) == {}


def test_holders_of_all_models_are_preferred_candidates():
    history = build_members("one", "all", "none").adds_model("one", "base")
    history.adds_model("all", "base").adds_model("all", "lora")
    assert weights(history.creates("t", models=("base", "lora"))).keys() == {"all"}


def test_every_node_is_a_candidate_if_none_has_all_models():
    history = build_members("one", "none").adds_model("one", "base")
    assert weights(history.creates("t", models=("base", "lora"))).keys() == {"one", "none"}


def test_busy_holder_of_models_does_not_exclude_other_nodes():
    history = build_members("busy", "free").adds_model("busy", "base").starts("other", "busy")
    assert weights(history.creates("t", models=("base",))).keys() == {"free"}


def test_excluded_node_is_no_candidate_until_it_recovers():
    history = build_members("A", "B")
    for name in "12":
        history.starts(name, "A").times_out(name)
    history.creates("t")
    assert verdicts(history)["A"].reason == "excluded"
    assert weights(history.after(20)).keys() == {"A", "B"}


# Model locality


@pytest.mark.parametrize(
    ("on_disk", "loaded", "boost"),
    [(0, False, "1"), (1, False, "1.35"), (2, False, "1.7"), (2, True, "2")],
)
def test_locality_boost_matches_formula(on_disk, loaded, boost):
    models = ("base", "lora")
    history = build_members("A")
    for model in models[:on_disk]:
        history.adds_model("A", model)
    if loaded:
        history.creates("before", models=models).starts("before", "A").succeeds("before")
    verdict = verdicts(history.creates("t", models=models))["A"]
    assert Fraction(verdict.parts["M"]) == Fraction(boost)


# Stake


def test_doubling_the_stake_multiplies_the_score_by_the_root_of_two():
    single, double = (compute_stake_score(stake, 200) for stake in (100, 200))
    assert double == UNIT
    assert single == isqrt(UNIT * UNIT // 2)


@given(st.integers(0, 10**30), st.integers(0, 10**30), st.integers(1, 10**30))
def test_stake_score_is_monotonic_and_bounded(first_stake, second_stake, more):
    low, high = sorted((first_stake, second_stake))
    largest = high + more
    assert 0 <= compute_stake_score(low, largest) <= compute_stake_score(high, largest) <= UNIT


@given(st.integers(1, 10**30), st.integers(1, 10**30))
def test_square_root_reduces_advantage_of_large_stakes(first_stake, second_stake):
    low, high = sorted((first_stake, second_stake))
    assert compute_stake_score(low, high) * high >= UNIT * low - high


def test_stake_split_over_nodes_has_higher_total_weight():
    # Against the document: a square root favours many small stakes, so it invites Sybils.
    single_stake_history = (
        build_members("rival", "whole").updates("rival", stake=400).updates("whole", stake=400)
    )
    split = build_members("rival", "a", "b", "c", "d").updates("rival", stake=400)
    single_weights = weights(single_stake_history.creates("t"))
    four = weights(split.creates("t"))
    share = Fraction(single_weights["whole"], sum(single_weights.values()))
    assert share == Fraction(1, 2)
    assert 1 - Fraction(four["rival"], sum(four.values())) > Fraction(3, 4) - Fraction(1, 20)


# The weight


@given(parts_of_one, parts_of_one)
def test_weight_never_exceeds_stake_score_or_qos(stake, qos):
    assert compute_weight(UNIT, stake, qos, UNFLOORED) <= min(stake, qos)


@given(st.integers(1, UNIT), st.integers(1, UNIT), st.integers(UNIT, 2 * UNIT))
def test_weight_is_half_harmonic_mean_times_locality(stake, qos, boost):
    harmonic = Fraction(2) / (Fraction(UNIT, stake) + Fraction(UNIT, qos))
    exact = harmonic / 2 * boost
    assert 0 <= exact - compute_weight(boost, stake, qos, UNFLOORED) < 1


def test_faster_node_has_higher_weight_regardless_of_gpu():
    history = build_members("4090", "3080").scores("4090", 2).scores("3080", 10).creates("t")
    assert weights(history)["3080"] > weights(history)["4090"]


def test_each_success_raises_chance_of_penalised_node():
    history = build_members("A", "B").starts("late", "A").times_out("late").creates("t")
    chances = []
    for n in range(5):
        weight_by_name = weights(history)
        chances.append(Fraction(weight_by_name["A"], sum(weight_by_name.values())))
        history.starts(f"good {n}", "A").succeeds(f"good {n}")
    assert chances == sorted(set(chances))
    assert chances[0] < Fraction(1, 2)


def test_node_with_zero_mean_score_has_floor_weight():
    weight_by_name = weights(build_members("A", "B").scores("A", 0).after(3600).creates("t"))
    assert weight_by_name["A"] == UNIT // 100
    assert weight_by_name["B"] > weight_by_name["A"]


# The queue


def test_queue_groups_are_sorted_by_vram_then_gpu():
    queue = build_queue(
        ("a", 1, {"min_vram": 16}),
        ("b", 1, {"min_vram": 24}),
        ("c", 1, {"required_gpu": "RTX 4090", "required_gpu_vram": 24}),
        ("d", 1, {"required_gpu": "A100", "required_gpu_vram": 24}),
    )
    assert list(queue.groups()) == [
        QueueGroup(24, "A100"),
        QueueGroup(24, "RTX 4090"),
        QueueGroup(24, None),
        QueueGroup(16, None),
    ]


def test_queue_group_is_sorted_by_value():
    (entries,) = build_queue(("a", 2, {}), ("b", 9, {}), ("c", 5, {})).groups().values()
    assert [entry.value for entry in entries] == [9, 5, 2]


@pytest.mark.parametrize(
    ("fixed", "image", "fee", "images", "value"),
    [(0, 20, 10, 1, "1/2"), (30, 20, 10, 1, "1/5"), (30, 20, 15, 2, "3/14"), (0, 0, 7, 1, "7")],
)
def test_task_value_is_fee_divided_by_estimated_time(fixed, image, fee, images, value):
    pricing = Pricing(
        dict.fromkeys(TaskKind, Fraction(fixed)), dict.fromkeys(TaskKind, Fraction(image))
    )
    fold, _ = fold_history(History().creates("t", fee=fee, size=images))
    assert pricing.compute_value(fold.ledger.tasks[make_task_key("t")]) == Fraction(value)


def test_freed_node_takes_most_valuable_fitting_task():
    orders = (
        ("any 24", 40, {"min_vram": 24}),
        ("4080", 30, {"required_gpu": "RTX 4080", "required_gpu_vram": 16}),
        ("any 16", 20, {"min_vram": 16}),
        ("3080", 35, {"required_gpu": "RTX 3080", "required_gpu_vram": 16}),
    )
    queue = build_queue(*orders)
    assert taken_by(queue, "4080") == "4080"
    assert taken_by(queue, "4090") == "any 24"
    queue.discard(make_task_key("4080"))
    assert taken_by(queue, "4080") == "any 16"


@pytest.mark.parametrize(
    ("members", "alpha", "capacity"),
    [
        *[(10, "5", 50), (7, "5", 35), (7, "1.5", 10), (5, "0.5", 2), (10, "0.3", 3)],
        # At least one task can wait.
        *[(3, "0.5", 1), (1, "0.2", 1), (0, "5", 1), (10**6, "1e-9", 1)],
    ],
)
def test_queue_capacity_is_alpha_times_number_of_members(members, alpha, capacity):
    assert compute_queue_capacity(members, Fraction(alpha)) == capacity


def test_full_queue_drops_least_valuable_task():
    queue = build_queue(("a", 5, {}), ("b", 3, {"min_vram": 8}), ("new", 4, {}))
    assert [entry.key for entry in queue.overflow(2)] == [make_task_key("b")]


def test_least_valuable_new_task_is_dropped_from_full_queue():
    queue = build_queue(("a", 5, {}), ("b", 3, {}), ("new", 3, {}))
    assert [entry.key for entry in queue.overflow(2)] == [make_task_key("new")]
