"""The lag of the hot set is measured with rounds that stay in memory."""

from array import array

from oracle.domain.ids import Hash
from oracle.indexer.round_leaves import LeafCache
from oracle.telemetry.outbox_counts import MAX_LAG_ROUNDS


def test_leaf_cache_keeps_the_lanes_of_every_round_within_the_lag():
    cache = LeafCache()
    roots = [Hash(f"0x{number:064x}") for number in range(MAX_LAG_ROUNDS + 1)]
    for root in roots:
        cache.lanes.get_or_make(root, lambda: array("H"))
    assert len(cache.lanes.get_cached(roots)) == len(roots)
