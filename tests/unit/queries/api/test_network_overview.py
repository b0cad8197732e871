"""The distribution of scores in the network's overview equals that of the listed nodes."""

from fractions import Fraction

from oracle.domain.fixed_point import UNIT
from oracle.queries.api.network_view import build_network_overview
from oracle.queries.api.node_list import NodeListQuery, list_nodes
from oracle.queries.api.source import open_snapshot
from tests.support.api import IndexedHistory
from tests.support.histories import History

# Bounds of bins, values between them, and a new node.
SCORES = ((), (0,), (5,), (10,), (5, 2), (10, 5), (2, 2, 2), (10, 10, 2), (0, 10), (5, 0))


def test_histogram_and_quartiles_match_the_listed_members(store):
    history = History()
    for number, scores in enumerate(SCORES):
        history.joins(f"n{number}").scores(f"n{number}", *scores)
    history.joins("left").scores("left", 10).quits("left")
    indexed = IndexedHistory(store).whole(history.after(7))
    with open_snapshot(indexed.source) as snapshot:
        overview = build_network_overview(snapshot)
        rows = list_nodes(snapshot, NodeListQuery()).nodes
    members = sorted(Fraction(row.qos, UNIT) for row in rows if row.qos is not None)
    assert len(members) == overview.members == len(SCORES)
    bins = [0] * len(overview.histogram)
    for qos in members:
        bins[min(len(bins) - 1, int(qos * len(bins)))] += 1
    assert overview.histogram == bins
    assert list(map(Fraction, overview.quartiles)) == [
        members[(len(members) - 1) * quarter // 4] for quarter in range(5)
    ]
