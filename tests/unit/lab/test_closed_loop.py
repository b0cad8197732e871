"""The simulation: legal events, constant money, and the same result for the same seed."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from lab.attack.strategies import BASELINES, STRATEGIES, get_strategy
from lab.closed_loop.closed_loop import run_closed_loop
from lab.closed_loop.loop_plan import (
    Participants,
    build_average_attacker_role,
    build_honest_node_roles,
    build_mixed_participants,
)
from lab.closed_loop.players import ATTACKER, HONEST_OWNER
from oracle.domain.fixed_point import UNIT
from tests.support.examples import examples
from tests.support.loops import build_column_from_text, build_small_plan

NAMES = st.sampled_from([strategy.name for strategy in STRATEGIES])
SYSTEMS = st.sampled_from(["crynux", "relay", "crynux close=terminal"])


def run_loop(name, rules, loop):
    return run_closed_loop(
        build_column_from_text(rules), loop, get_strategy(name).build_participants(loop)
    )


@examples(20)
@given(NAMES, SYSTEMS, st.integers(0, 10**6))
def test_simulated_network_produces_only_legal_events(name, rules, seed):
    assert run_loop(name, rules, build_small_plan(tasks=200, seed=seed)).anomalies == 0


@examples(20)
@given(NAMES, SYSTEMS, st.integers(0, 10**6))
def test_nodes_earn_exactly_what_creators_pay(name, rules, seed):
    result = run_loop(name, rules, build_small_plan(tasks=200, seed=seed))
    money = [owner.money for owner in result.owners.values()]
    assert (
        sum(owner_money.earned for owner_money in money)
        == sum(owner_money.paid for owner_money in money)
        > 0
    )


@pytest.mark.slow
@examples(10)
@given(NAMES, SYSTEMS, st.integers(0, 10**6))
def test_same_seed_produces_same_result(name, rules, seed):
    loop = build_small_plan(tasks=150, seed=seed)
    assert run_loop(name, rules, loop) == run_loop(name, rules, loop)


def test_different_seeds_produce_different_results():
    assert run_loop("silent", "crynux", build_small_plan(seed=1)) != run_loop(
        "silent", "crynux", build_small_plan(seed=2)
    )


def test_policy_without_candidate_pool_is_simulated():
    loop = build_small_plan(tasks=60, nodes=5)
    result = run_closed_loop(
        build_column_from_text("crynux@article"), loop, Participants(build_honest_node_roles(loop))
    )
    assert result.orders > 0
    assert result.anomalies == 0


@pytest.mark.parametrize("rules", ["article", "legacy"])
def test_system_without_group_scores_is_rejected(rules):
    numbers = (
        "vram_weight=0.3 timeout_weight=0.3 speed_weight=0.4 least_timeout_seconds=60 "
        "kickout_below=2 kickout_tasks=10"
    )
    changes = [f"legacy.{setting}" for setting in numbers.split()] if rules == "legacy" else []
    with pytest.raises(ValueError, match="does not score groups"):
        run_closed_loop(
            build_column_from_text(" ".join([rules, *changes])),
            build_small_plan(),
            Participants(()),
        )


def test_stopped_node_is_drawn_less_often():
    loop = build_small_plan(tasks=1500)
    first_node, *other_nodes = build_honest_node_roles(loop)
    dead = replace(first_node, stops_at=0, failures=0, owner=ATTACKER)
    result = run_closed_loop(build_column_from_text(), loop, Participants([dead, *other_nodes]))
    fair = result.get_owner_result(HONEST_OWNER).start_count // len(other_nodes)
    assert 0 < result.get_owner_result(ATTACKER).start_count < fair // 4


def test_stopped_node_is_kicked_out_after_report_and_veto_delay():
    loop = build_small_plan("veto_delay=600", tasks=2500, nodes=5)
    first_node, *other_nodes = build_honest_node_roles(loop)
    participants = Participants([replace(first_node, stops_at=0, kind="stopped"), *other_nodes])
    result = run_closed_loop(
        build_column_from_text("crynux weight_floor=0.2 penalty=1"), loop, participants
    )
    assert result.kicked_good_nodes == 0
    (out_after,) = result.kickout_delays
    assert out_after is not None
    assert out_after >= loop.economics.report_seconds + loop.economics.veto_delay


def test_nodes_that_share_a_gpu_have_lower_hosting_costs():
    loop = build_small_plan()
    own = build_average_attacker_role(loop)
    apart = run_closed_loop(
        build_column_from_text(), loop, Participants([*build_honest_node_roles(loop), own, own])
    )
    together = [replace(own, gpu=1), replace(own, gpu=1)]
    shared = run_closed_loop(
        build_column_from_text(), loop, Participants([*build_honest_node_roles(loop), *together])
    )
    assert (
        shared.get_owner_result(ATTACKER).money.hosting
        < apart.get_owner_result(ATTACKER).money.hosting * 6 // 10
    )
    assert (
        shared.get_owner_result(ATTACKER).money.profit
        != apart.get_owner_result(ATTACKER).money.profit
    )


def test_good_and_stopped_nodes_are_counted_separately():
    loop = build_small_plan(tasks=1200, nodes=40)
    result = run_closed_loop(build_column_from_text(), loop, build_mixed_participants(loop))
    assert len(result.kickout_delays) == len(result.stay_durations) == 4
    assert 0 < result.wasted < result.tasks // 10
    assert 0 < result.gini < UNIT
    assert result.failed > 0


def test_honest_strategy_does_not_harm_any_node():
    loop = build_small_plan(tasks=1200)
    result = run_closed_loop(build_column_from_text(), loop, BASELINES["honest"](loop))
    assert (result.kicked_good_nodes, result.slashed_good_nodes, result.lies) == (0, 0, 0)
    assert result.get_owner_result(ATTACKER).money.profit > 0
