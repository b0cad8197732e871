"""Selects the heights of a range that are sampled if not every header is read."""

from collections.abc import Sequence

from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Log
from oracle.rpc.endpoints.range_sizer import SAMPLED_HEADERS


def select_heights_before_logs(blocks: BlockRange, logs: Sequence[Log]) -> range:
    """Return the heights before the first log, which a pruned endpoint may lack."""
    return range(blocks.first, logs[0].block if logs else blocks.last + 1)


def sample_heights(heights: range) -> set[int]:
    """Return a few of these heights, evenly spread: one of them may have transactions."""
    return set(heights[:: max(1, len(heights) // SAMPLED_HEADERS)])


def select_heights_to_recheck(blocks: BlockRange, logs: Sequence[Log]) -> set[int]:
    """Return heights to fetch again, most of them after the last log: responses lack their end."""
    heights_after_logs = range(logs[-1].block + 1 if logs else blocks.first, blocks.last + 1)
    return sample_heights(heights_after_logs) | sample_heights(
        range(blocks.first, blocks.last + 1)
    )
