"""Without each defence, the attack against it pays or does harm."""

import pytest

from lab.closed_loop.players import ATTACKER
from oracle.domain.fixed_point import UNIT
from tests.support.loops import build_small_plan, simulate_strategy

# Long enough to fill the pools.
LONG = {"tasks": 3000}
# And for kickouts, in a network in which a slow node is third.
LONGER = {"tasks": 7000, "nodes": 20}


def test_commit_reveal_reduces_the_gain_from_copying():
    hidden = simulate_strategy("copy", "crynux", build_small_plan())
    revealed = simulate_strategy("copy", "crynux", build_small_plan("commit_reveal=false"))
    assert revealed.task_ratio > 2 * hidden.task_ratio
    assert hidden.gain < revealed.gain


@pytest.mark.slow
def test_instant_errors_get_more_tasks_when_errors_rank_by_time():
    loop = build_small_plan("error_is_slashed=false", tasks=1500)
    every = "crynux ranked_answers=all error_rank"
    last = simulate_strategy("instant-error", f"{every}=last", loop)
    as_reported = simulate_strategy("instant-error", f"{every}=as_reported", loop)
    assert as_reported.task_ratio > last.task_ratio + UNIT // 4


@pytest.mark.slow
def test_rejoining_pays_only_if_it_resets_reliability():
    loop = build_small_plan("rejoin_delay=1", **LONG)
    unhealed = simulate_strategy("leave-and-return", "crynux rejoin_heals=false", loop)
    healed = simulate_strategy("leave-and-return", "crynux rejoin_heals=true", loop)
    assert healed.task_ratio > unhealed.task_ratio
    assert unhealed.gain <= UNIT // 10


@pytest.mark.slow
def test_revalidation_reduces_slashing_of_honest_nodes():
    without_revalidation = simulate_strategy(
        "collusion", "crynux", build_small_plan("revalidation=false", tasks=3000, nodes=30)
    )
    with_revalidation = simulate_strategy(
        "collusion", "crynux", build_small_plan(tasks=3000, nodes=30)
    )
    assert without_revalidation.slashed_good_node_increase > 0
    assert (
        with_revalidation.slashed_good_node_increase
        < without_revalidation.slashed_good_node_increase
    )


@pytest.mark.slow
def test_trap_groups_pay_off_only_without_fee_floor_and_timeout_toll():
    every = "crynux ranked_answers=all"
    without_limits = simulate_strategy(
        "trap-groups", every, build_small_plan("floors=false", "tolls=false", **LONG)
    )
    with_limits = simulate_strategy("trap-groups", every, build_small_plan(**LONG))
    assert without_limits.gain > UNIT // 4 > UNIT // 10 > with_limits.gain
    assert without_limits.kicked_good_node_increase > 0
    assert without_limits.loss_per_harm is not None
    assert with_limits.loss_per_harm is not None
    assert without_limits.loss_per_harm < with_limits.loss_per_harm


@pytest.mark.slow
@pytest.mark.nightly
def test_most_kickouts_caused_by_single_creator_are_held():
    loop = build_small_plan("floors=false", "tolls=false", "veto_delay=600", **LONG)
    every = "crynux ranked_answers=all"
    single_creator = simulate_strategy("trap-groups", every, loop)
    many = simulate_strategy("trap-groups-many", every, loop)
    assert single_creator.held_good_kickout_increase > single_creator.kicked_good_node_increase
    assert many.kicked_good_node_increase > single_creator.kicked_good_node_increase


@pytest.mark.slow
def test_trap_groups_do_not_cause_kickouts_under_crynux():
    loop = build_small_plan("floors=false", "tolls=false", "veto_delay=600", **LONG)
    trap = simulate_strategy("trap-groups", "crynux", loop)
    assert (trap.kicked_good_node_increase, trap.held_good_kickout_increase) == (0, 0)


@pytest.mark.slow
def test_silent_node_is_drawn_more_often_with_weight_floor():
    loop = build_small_plan(tasks=1500, load=25)
    without = simulate_strategy("silent", "crynux weight_floor=0", loop)
    floored = simulate_strategy("silent", "crynux weight_floor=0.05", loop)
    assert without.task_ratio < UNIT // 20
    assert floored.task_ratio > 2 * without.task_ratio


@pytest.mark.slow
@pytest.mark.nightly
def test_node_cannot_avoid_a_pending_kickout_by_quitting():
    quitting_allowed = ("veto_delay=600", "rejoin_delay=1", "quit_is_kickout=false")
    result = simulate_strategy(
        "kickout-wash", "crynux", build_small_plan("veto_delay=600", **LONGER)
    )
    result_with_quitting = simulate_strategy(
        "kickout-wash", "crynux", build_small_plan(*quitting_allowed, **LONGER)
    )
    assert result.removed_attacker_node_count > 0
    assert result_with_quitting.removed_attacker_node_count == 0
    assert result_with_quitting.task_ratio > result.task_ratio


@pytest.mark.slow
@pytest.mark.nightly
def test_new_address_after_kickout_earns_less_than_honest_node():
    loop = build_small_plan("veto_delay=600", **LONGER)
    result = simulate_strategy("new-address", "crynux", loop)
    honest = simulate_strategy("silent", "crynux", loop)
    assert result.task_ratio > UNIT
    assert result.removed_attacker_node_count > 0
    profit = result.attacker_earnings - result.attacker_expenses
    (baseline,) = honest.baselines
    assert profit < baseline.get_owner_result(ATTACKER).money.profit


@pytest.mark.slow
@pytest.mark.nightly
def test_fast_garbage_is_profitable_only_if_every_answer_ranks():
    loop = build_small_plan(tasks=6000)
    every_answer_ranks = simulate_strategy(
        "garbage-first-lapsed", "crynux ranked_answers=all", loop
    )
    right_answers_rank = simulate_strategy("garbage-first-lapsed", "crynux", loop)
    assert every_answer_ranks.task_ratio > right_answers_rank.task_ratio + UNIT // 2
    assert every_answer_ranks.gain > 0 > right_answers_rank.gain
    assert (
        right_answers_rank.removed_attacker_node_count
        > every_answer_ranks.removed_attacker_node_count
        == 0
    )
