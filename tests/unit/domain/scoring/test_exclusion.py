"""The maximum time for which a timeout can exclude a node."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import compute_max_exclusion_seconds, heal_reliability
from oracle.domain.scoring.reliability import remove_reliability_decreases
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY


def test_timeout_excludes_node_for_max_135_seconds_under_crynux():
    # 1800 s x ln(0.97 / 0.9) = 134.8 s
    assert compute_max_exclusion_seconds(CRYNUX) == 135


def test_node_is_selectable_after_computed_exclusion():
    seconds = compute_max_exclusion_seconds(RELAY)
    base = RELAY.penalty * RELAY.exclude_enter // UNIT
    assert heal_reliability(base, 0, seconds - 1, RELAY) < RELAY.exclude_exit
    assert heal_reliability(base, 0, seconds, RELAY) >= RELAY.exclude_exit


def test_no_node_is_excluded_if_every_factor_is_1():
    assert compute_max_exclusion_seconds(remove_reliability_decreases(CRYNUX)) == 0
