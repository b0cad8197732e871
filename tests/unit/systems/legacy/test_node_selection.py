"""Selection of three nodes for a task: candidates, GPU groups, equal chances.

See docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections import Counter, defaultdict
from fractions import Fraction
from functools import partial
from hashlib import sha256
from itertools import combinations, groupby, product
from operator import attrgetter

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.legacy import trio_selection
from oracle.systems.legacy.legacy_eligibility import (
    GpuGroup,
    find_candidate_groups,
    find_gpu_group,
    group_nodes_by_gpu,
)
from oracle.systems.legacy.legacy_policy import LEGACY_EQUAL_POLICY, LEGACY_POLICY
from oracle.systems.legacy.trio_selection import compute_submission_speeds
from oracle.systems.weighted_draw import IndexDraw, draw_indexes, draw_nodes
from tests.support.examples import examples
from tests.support.histories import make_node_address
from tests.unit.systems.legacy.networks import (
    add_scores,
    gpus,
    member,
    policy_input_of,
    waiting_task,
)

FIGURE = {
    ("RTX 4090", 24): 3,
    ("RTX 3090", 24): 2,
    ("RTX 4080", 16): 4,
    ("RTX 3080", 16): 3,
    ("RTX 4000 Ada", 16): 1,
    ("RTX 4070", 12): 5,
}
SEED32 = bytes(range(32))


def verdicts_of(task, policy_input, policy=LEGACY_POLICY):
    return {
        verdict.node: verdict
        for verdict in policy.create_evaluator().evaluate_candidates(task, policy_input)
    }


def weights_of(task, policy_input, policy=LEGACY_POLICY):
    candidate_verdicts = verdicts_of(task, policy_input, policy).values()
    return {
        verdict.node: verdict.weight
        for verdict in candidate_verdicts
        if verdict.weight is not None
    }


def chosen_for(task, policy_input, seed=SEED32):
    chosen = LEGACY_POLICY.draw_trio(task, policy_input, seed)
    assert chosen is not None
    return chosen


def test_nodes_are_grouped_by_gpu_and_video_memory():
    groups = groupby(group_nodes_by_gpu(gpus(FIGURE)), attrgetter("vram"))
    assert {vram: [gpu.model for gpu in those] for vram, those in groups} == {
        12: ["RTX 4070"],
        16: ["RTX 3080", "RTX 4000 Ada", "RTX 4080"],
        24: ["RTX 3090", "RTX 4090"],
    }


def test_gpt_task_needs_three_nodes_with_the_same_gpu():
    candidate_groups = find_candidate_groups(
        waiting_task(gpt=True, min_vram=16), policy_input_of(gpus(FIGURE))
    )
    assert list(candidate_groups.groups) == [
        GpuGroup(16, "RTX 3080"),
        GpuGroup(16, "RTX 4080"),
        GpuGroup(24, "RTX 4090"),
    ]
    assert Counter(candidate_groups.reason_by_node.values()) == {
        "too_few_of_its_gpu": 3,
        "vram_too_small": 5,
    }


def test_other_task_takes_any_three_nodes_with_enough_memory():
    candidate_groups = find_candidate_groups(
        waiting_task(min_vram=16), policy_input_of(gpus(FIGURE))
    )
    assert (list(candidate_groups.groups), candidate_groups.candidate_count) == ([None], 13)
    few = find_candidate_groups(waiting_task(), policy_input_of(gpus({("RTX 4090", 24): 2})))
    assert (few.groups, set(few.reason_by_node.values())) == ({}, {"too_few_candidates"})


def test_ineligible_nodes_have_legacy_reasons():
    nodes = gpus({("RTX 4090", 24): 6})
    nodes[0].running, nodes[1].paused = 1, True
    nodes += [member("x"), member("y", gpu_name="RTX 4090"), member("z", gpu_vram=24)]
    candidate_groups = find_candidate_groups(
        waiting_task(gpt=True), policy_input_of(nodes, taken=["2"])
    )
    assert candidate_groups.candidate_count == 3
    assert candidate_groups.reason_by_node == {
        make_node_address("0"): "busy",
        make_node_address("1"): "paused",
        make_node_address("2"): "taken",
        make_node_address("x"): "gpu_unknown",
        make_node_address("y"): "vram_unknown",
        make_node_address("z"): "gpu_unknown",
    }


def test_task_without_enough_candidates_is_not_assigned():
    policy_input = policy_input_of(gpus({("RTX 4090", 24): 2, ("RTX 3090", 24): 2}))
    assert LEGACY_POLICY.draw_trio(waiting_task(gpt=True), policy_input, SEED32) is None
    assert LEGACY_POLICY.draw_trio(waiting_task(), policy_input, SEED32) is not None


@given(st.binary(min_size=32, max_size=32), st.booleans())
def test_gpt_task_gets_three_different_nodes_with_the_same_gpu(seed, gpt):
    nodes = gpus(FIGURE)
    task = waiting_task(gpt=gpt, min_vram=16)
    policy_input = policy_input_of(nodes)
    chosen = chosen_for(task, policy_input, seed)
    addresses = {node_draw.node for node_draw in chosen.nodes}
    assert len(addresses) == 3
    assert addresses <= weights_of(task, policy_input).keys()
    assert (chosen.gpu is None, chosen.group_draw is None) == (not gpt, not gpt)
    if gpt:
        gpu_by_address = {gpu_owner.address: find_gpu_group(gpu_owner) for gpu_owner in nodes}
        assert {gpu_by_address[address] for address in addresses} == {chosen.gpu}


def chances_to_run(sizes, monkeypatch):
    """Enumerate every draw once: which nodes run the task, and how often."""
    groups = {(f"gpu {n}", 24): size for n, size in enumerate(sizes)}
    nodes = gpus(groups)
    policy_input = policy_input_of(nodes)
    task = waiting_task(gpt=True)
    candidate_groups = find_candidate_groups(task, policy_input)
    chances: dict[str, Fraction] = defaultdict(Fraction)
    for lot in range(sum(sizes)):
        monkeypatch.setattr(trio_selection, "draw_indexes", partial(draw_for_x, lot))
        gpu, _ = trio_selection._draw_gpu_group(candidate_groups, SEED32)
        trios = list(
            combinations([candidate.address for candidate in candidate_groups.groups[gpu]], 3)
        )
        for trio in trios:
            for address in trio:
                chances[address] += Fraction(1, sum(sizes) * len(trios))
    return chances


def draw_for_x(x, weights, *_):
    """Return the draw of `picks` for this x, by the same rule: the first whose sum exceeds x."""
    place = next(n for n in range(len(weights)) if sum(weights[: n + 1]) > x)
    return iter([IndexDraw(place, "0x", x, sum(weights), len(weights))])


@pytest.mark.parametrize("sizes", [(3,), (3, 4), (3, 3, 9), (5, 4, 3, 7)])
def test_gpt_nodes_have_equal_chances_in_gpu_groups_of_any_size(sizes, monkeypatch):
    chances = chances_to_run(sizes, monkeypatch)
    assert set(chances.values()) == {Fraction(3, sum(sizes))}
    assert len(chances) == sum(sizes)


@pytest.mark.parametrize("gpt", [True, False])
def test_equal_policy_gives_equal_weights(gpt):
    nodes = gpus({("RTX 4090", 24): 3, ("RTX 3090", 24): 7})
    add_scores(nodes[0], 1, 1)
    add_scores(nodes[5], 20, 1)
    weights = weights_of(waiting_task(gpt=gpt), policy_input_of(nodes), LEGACY_EQUAL_POLICY)
    assert len(weights) == 10
    assert max(weights.values()) - min(weights.values()) <= 1
    assert UNIT - 10 <= sum(weights.values()) <= UNIT


def test_nodes_within_gpu_group_are_drawn_by_speed():
    nodes = gpus({("RTX 4090", 24): 3, ("RTX 3090", 24): 3})
    for candidate, total in zip(nodes, (20, 10, 0), strict=False):
        add_scores(candidate, total, 1)
    verdict_by_node = verdicts_of(waiting_task(gpt=True), policy_input_of(nodes))
    assert [verdict_by_node[candidate.address].weight for candidate in nodes] == [
        UNIT // 2 * 2 // 3,
        UNIT // 2 // 3,
        0,
        *[UNIT // 2 // 3] * 3,
    ]
    assert dict(verdict_by_node[nodes[1].address].parts) == {
        "gpu": "RTX 4090, 24 GB",
        "of_its_gpu": "3",
        "gpu_chance": "0.500000000000000000",
        "B": "0.500000000000000000",
        "weight": "0.500000000000000000",
    }
    assert verdict_by_node[nodes[4].address].parts["B"] == "none"


def test_nodes_are_drawn_equally_when_all_have_zero_speed():
    nodes = [add_scores(candidate, 0, 1) for candidate in gpus({("RTX 4090", 24): 4})]
    assert set(weights_of(waiting_task(), policy_input_of(nodes)).values()) == {UNIT // 4}
    assert len(chosen_for(waiting_task(), policy_input_of(nodes)).nodes) == 3


def test_speed_uses_score_pool_instead_of_window_under_other_rules():
    nodes = gpus({("RTX 4090", 24): 3})
    nodes[0].pool, nodes[0].pool_sum = bytes([10, 10]), 20
    nodes[1].pool, nodes[1].pool_sum = bytes([5]), 5
    speed_by_node = compute_submission_speeds(nodes, 0, CRYNUX, use_equal_weights=False)
    assert [speed_by_node[candidate.address].share for candidate in nodes] == [
        UNIT,
        UNIT // 2,
        None,
    ]


def test_draws_are_reproducible_from_seed():
    """The group is drawn with its own seed, and the nodes as usual: anyone can repeat both."""
    nodes = gpus(FIGURE)
    chosen = chosen_for(waiting_task(gpt=True), policy_input_of(nodes))
    of_groups = sha256(SEED32 + b"card group").digest()
    # RTX 4070, RTX 3080, RTX 4080, RTX 4090: the smallest video memory first, then by name.
    lot = next(draw_indexes([5, 3, 4, 3], bytearray(b"\1" * 4), of_groups, 1))
    assert chosen.group_draw == lot
    group = [candidate.address for candidate in nodes if find_gpu_group(candidate) == chosen.gpu]
    assert chosen.nodes == draw_nodes([(address, UNIT) for address in group], SEED32, 3)


@examples(30)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.booleans())
def test_every_member_has_verdict_and_weights_sum_to_1(counts, gpt):
    nodes = gpus({(f"gpu {n}", 8): count for n, count in enumerate(counts)})
    verdict_by_node = verdicts_of(waiting_task(gpt=gpt), policy_input_of(nodes))
    assert list(verdict_by_node) == sorted(member_node.address for member_node in nodes)
    weights = [
        verdict.weight for verdict in verdict_by_node.values() if verdict.weight is not None
    ]
    assert all(
        (verdict.weight is None) == bool(verdict.reason) for verdict in verdict_by_node.values()
    )
    assert not weights or UNIT - 2 * len(nodes) <= sum(weights) <= UNIT


def test_gpu_and_memory_combinations_form_separate_groups():
    nodes = gpus(dict.fromkeys(product(("A", "B"), (8, 16)), 1))
    assert len(group_nodes_by_gpu(nodes)) == 4
