"""The gain of known ways to cheat is limited under the shipped rule sets."""

import pytest

from lab.attack.attack import REASON_BY_FINDING, REASONS_BY_RULE_SET, AttackPlan, simulate_attacks
from lab.attack.strategies import BASELINES, STRATEGIES, get_strategy
from lab.closed_loop import closed_loop
from lab.closed_loop.loop_plan import LoopPlan
from lab.closed_loop.loop_result import LoopResult, finalize_loop
from lab.closed_loop.players import ATTACKER
from lab.closed_loop.running.loop_state import LoopState
from oracle.domain.fixed_point import UNIT
from oracle.domain.incidents import Incident
from oracle.systems.registry import list_rule_set_names
from tests.support.loops import build_column_from_text, simulate_strategy

LIMIT = 10
LOOP = LoopPlan(tasks=4000)
# There are so many strategies that each must be short.
PARTS = 4
# Cheats that cost the cheater at least this part of the fees of honest work.
DEAR = {
    "instant-error": 2 * UNIT,
    "collusion": 2 * UNIT,
    "copy": UNIT // 2,
    "skip-groups": UNIT // 2,
    "silent": UNIT // 2,
    "garbage-first": 2 * UNIT,
    "split-one-gpu": UNIT // 2,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
@pytest.mark.parametrize("rules", ["crynux", "relay"])
def test_no_attack_strategy_exceeds_the_gain_or_harm_limit(rules, part):
    findings = simulate_attacks(
        [build_column_from_text(rules)], AttackPlan(LOOP, STRATEGIES[part::PARTS])
    )
    finding_by_strategy = {finding.strategy.name: finding for finding in findings}
    assert {
        name: finding.list_open_faults(LIMIT) for name, finding in finding_by_strategy.items()
    } == {name: [] for name in finding_by_strategy}
    dear = {name: min_loss for name, min_loss in DEAR.items() if name in finding_by_strategy}
    assert {
        name for name, min_loss in dear.items() if finding_by_strategy[name].gain > -min_loss
    } == set()


@pytest.mark.slow
def test_faking_an_outage_gains_nothing_and_holds_no_kickout(monkeypatch):
    incidents = list[dict[int, Incident]]()

    def summarize_and_keep_incidents(state: LoopState) -> LoopResult:
        incidents.append(state.network.incidents)
        return finalize_loop(state)

    monkeypatch.setattr(closed_loop, "finalize_loop", summarize_and_keep_incidents)
    gated = "crynux kick_incident_share=0.2"
    finding = simulate_strategy("fake-outage", gated, LoopPlan(tasks=10_000))
    (incident,) = [entry for loop_incidents in incidents for entry in loop_incidents.values()]
    assert incident.is_network_outage
    assert finding.gain < 0
    assert [result.get_owner_result(ATTACKER).held_count for result in finding.attacks] == [0]


def test_every_listed_finding_names_simulated_strategy():
    every = [REASON_BY_FINDING, *REASONS_BY_RULE_SET.values()]
    strategies = {strategy for reasons in every for strategy, _ in reasons}
    assert strategies <= {shipped_strategy.name for shipped_strategy in STRATEGIES}
    assert all(len(reason.split()) > 5 for reasons in every for reason in reasons.values())
    assert REASONS_BY_RULE_SET.keys() <= set(list_rule_set_names())


def test_every_strategy_has_baseline_and_description():
    assert {strategy.baseline for strategy in STRATEGIES} == set(BASELINES)
    assert all(len(strategy.description.split()) > 3 for strategy in STRATEGIES)
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES)


def test_unknown_strategy_error_lists_strategies():
    with pytest.raises(
        ValueError, match=r"unknown strategy 'bribe'; expected one of: instant-error, copy"
    ):
        get_strategy("bribe")
