"""The figures of a node are those that each function gives by itself, under all rules."""

import pytest
from hypothesis import given

from oracle.domain.reports.lanes import (
    DO_NOT_SELECT,
    HIGHEST_SCORE,
    decode_qos,
    lane_from_figures,
    lane_of,
)
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_figures import figures_at, state_at
from oracle.domain.scoring.node_scores import (
    compute_long_term,
    compute_reliability,
    exclusion_end_time,
    get_status,
    is_excluded,
    is_kickout_due,
    qos_at,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import History, folded, node_after
from tests.support.random_histories import disturbed_histories
from tests.unit.systems.legacy.networks import RULES as LEGACY


@pytest.mark.parametrize("rules", [CRYNUX, RELAY, LEGACY], ids=lambda rules: rules.name)
@examples(60)
@given(history=disturbed_histories())
def test_figures_match_individual_functions(rules, history):
    fold, _ = folded(history, rules)
    nodes, time = fold.ledger.nodes, max((event.time for event in history), default=0) + 60
    peers = compute_population_maxima(nodes.values(), time, rules)
    for node in nodes.values():
        figures = figures_at(node, time, rules, peers)
        assert (figures.status, figures.state) == (get_status(node), state_at(node, time, rules))
        assert figures.long_term == compute_long_term(node, rules, time)
        assert figures.reliability == compute_reliability(node, time, rules)
        assert figures.qos == qos_at(node, time, rules, peers)
        assert figures.is_excluded == is_excluded(node, time, rules)
        assert figures.is_kickout_due == is_kickout_due(node, rules, time)
        assert (figures.back_at is None) is not figures.is_excluded
        assert lane_from_figures(figures) == lane_of(node, time, rules, peers)


def test_excluded_node_has_a_back_at_time():
    node = node_after(History().joins("A"), "A")
    node.base = CRYNUX.exclude_enter - 1
    figures = figures_at(node, node.since, CRYNUX)
    assert figures.back_at == exclusion_end_time(node.base, node.since, CRYNUX)
    assert (figures.state, lane_from_figures(figures)) == ("excluded", DO_NOT_SELECT)


def test_unscored_lanes_have_no_qos():
    assert [decode_qos(lane) for lane in (0, DO_NOT_SELECT)] == [None, None]
    assert decode_qos(HIGHEST_SCORE) == 10**18
