"""The combined figures of a node equal those of the individual functions, under all rules."""

import pytest
from hypothesis import given

from oracle.domain.reports.lanes import (
    DO_NOT_SELECT,
    HIGHEST_SCORE,
    compute_lane_with_reliability,
    compute_node_lane_from_scores,
    decode_qos,
)
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_figures import classify_node_state, compute_node_scores
from oracle.domain.scoring.node_scores import (
    compute_exclusion_end_time,
    compute_long_term_score,
    compute_node_qos,
    compute_reliability,
    get_status,
    is_excluded,
    is_kickout_due,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import History, fold_history, fold_node
from tests.support.random_histories import disturbed_histories
from tests.unit.systems.legacy.networks import RULES as LEGACY


@pytest.mark.parametrize("rules", [CRYNUX, RELAY, LEGACY], ids=lambda rules: rules.name)
@examples(60)
@given(history=disturbed_histories())
def test_node_figures_match_individual_functions(rules, history):
    fold, _ = fold_history(history, rules)
    nodes = fold.ledger.nodes
    time = max((event.time for event in history), default=0) + 60
    peers = compute_population_maxima(nodes.values(), time, rules)
    for node in nodes.values():
        node_scores = compute_node_scores(node, time, rules, peers)
        assert (node_scores.status, node_scores.state) == (
            get_status(node),
            classify_node_state(node, compute_reliability(node, time, rules), rules),
        )
        assert node_scores.long_term == compute_long_term_score(node, rules, time)
        assert node_scores.reliability == compute_reliability(node, time, rules)
        assert node_scores.qos == compute_node_qos(node, time, rules, peers)
        assert node_scores.is_excluded == is_excluded(node, time, rules)
        assert node_scores.is_kickout_due == is_kickout_due(node, rules, time)
        assert (node_scores.back_at is None) is not node_scores.is_excluded
        assert compute_node_lane_from_scores(node_scores) == compute_lane_with_reliability(
            node, node_scores.reliability, time, rules, peers
        )


def test_excluded_node_has_a_return_time():
    node = fold_node(History().joins("A"), "A")
    node.base = CRYNUX.exclude_enter - 1
    node_scores = compute_node_scores(node, node.since, CRYNUX)
    assert node_scores.back_at == compute_exclusion_end_time(node.base, node.since, CRYNUX)
    assert (node_scores.state, compute_node_lane_from_scores(node_scores)) == (
        "excluded",
        DO_NOT_SELECT,
    )


def test_lane_without_a_score_has_no_qos():
    assert [decode_qos(lane) for lane in (0, DO_NOT_SELECT)] == [None, None]
    assert decode_qos(HIGHEST_SCORE) == 10**18
