"""The rule sets that we ship, held to what known ways to cheat may gain under them."""

import pytest

from lab.attack.attack import AttackPlan, find_attacks
from lab.attack.known_findings import REASON_BY_FINDING, REASONS_BY_RULE_SET
from lab.attack.strategies import BASELINES, STRATEGIES, get_strategy
from lab.closed_loop.loop_plan import LoopPlan
from oracle.domain.fixed_point import UNIT
from oracle.systems.registry import list_rule_sets
from tests.support.loops import column

LIMIT = 10
LOOP = LoopPlan(tasks=4000)
# Strategies are played in so many tests, that each stays short.
PARTS = 4
# Cheats that cost whoever tries them at least this part of the fees that honest work brings.
DEAR = {
    "instant-error": 2 * UNIT,
    "collusion": 2 * UNIT,
    "copy": UNIT // 2,
    "skip-groups": UNIT // 2,
    "silent": UNIT // 2,
    "garbage-first": 2 * UNIT,
    "split-one-card": UNIT // 2,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
@pytest.mark.parametrize("rules", ["crynux", "relay"])
def test_no_strategy_gains_or_harms_beyond_limit_except_listed_findings(rules, part):
    findings = find_attacks([column(rules)], AttackPlan(LOOP, STRATEGIES[part::PARTS]))
    found = {each.strategy.name: each for each in findings}
    assert {name: each.list_open_faults(LIMIT) for name, each in found.items()} == {
        name: [] for name in found
    }
    dear = {name: least for name, least in DEAR.items() if name in found}
    assert {name for name, least in dear.items() if found[name].gain > -least} == set()


def test_every_listed_finding_names_played_strategy():
    every = [REASON_BY_FINDING, *REASONS_BY_RULE_SET.values()]
    strategies = {strategy for known in every for strategy, _ in known}
    assert strategies <= {each.name for each in STRATEGIES}
    assert all(len(reason.split()) > 5 for known in every for reason in known.values())
    assert REASONS_BY_RULE_SET.keys() <= set(list_rule_sets())


def test_every_strategy_has_baseline_and_description():
    assert {each.baseline for each in STRATEGIES} == set(BASELINES)
    assert all(len(each.description.split()) > 3 for each in STRATEGIES)
    assert len({each.name for each in STRATEGIES}) == len(STRATEGIES)


def test_unknown_strategy_error_lists_strategies():
    with pytest.raises(ValueError, match=r"no strategy 'bribe' \(there is instant-error, copy"):
        get_strategy("bribe")
