"""The audit of a relay's exclusions also judges nodes without any change of reliability."""

from oracle.chain.feed.feed_client import RelayFigures
from oracle.queries.relay_audit.own_figures import DerivedNode
from oracle.queries.relay_audit.partings import Divergence
from oracle.queries.relay_audit.relay_audit import find_health_divergence
from oracle.queries.relay_audit.relay_watch import Poll, QualityFactors
from oracle.systems.crynux.crynux_rule_sets import RELAY
from tests.support.histories import History, fold_node, make_node_address

NOW = 5_000


def test_exclusion_without_a_reliability_change_is_reported_at_row_0():
    state = fold_node(History().joins("A"), "A", RELAY)
    excluded_figure = RelayFigures(make_node_address("A"), 0.7, 1.0, 0.0, NOW, 0.0)
    poll = Poll({make_node_address("A"): excluded_figure}, 1, 1, NOW)
    derived_node = DerivedNode(make_node_address("A"), state)
    divergence = find_health_divergence(
        derived_node, QualityFactors(0.7, 1.0, NOW, 0.0), 1.0, poll
    )
    assert divergence == Divergence("exclusion", 0, "the relay reports it as excluded")
