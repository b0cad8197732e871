"""A poll notices a new block soon after it appears, with few requests."""

import pytest

from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree
from oracle.chain.head_tracker import HeadTracker
from oracle.chain.heads import Finality
from tests.pools import pool_of

POLL_SECONDS = 1.0
BLOCKS = 24
# Blocks after which the polls follow the chain.
WARM_UP = 8


@pytest.mark.parametrize(
    ("block_seconds", "mean_delay", "polls_per_block"),
    [(1, 0.1, 4), (2, 0.1, 6), (12, 0.1, 17)],
)
def test_polls_follow_block_time(block_seconds, mean_delay, polls_per_block):
    """Blocks appear up to 0.08 s before or after their time."""
    now = 100.37
    delays = list[float]()
    polls = 0
    tree = BlockTree(31337)
    provider = Provider(tree)
    with serve_endpoint(provider) as served:
        pool = pool_of(served.url)
        tracker = HeadTracker(pool, Finality(64, 0), lambda: now)
        for number in range(1, BLOCKS + 1):
            shown_at = 100 + block_seconds * number + 0.08 * (number % 3 - 1)
            while tracker.newest_number < number:
                if now >= shown_at and provider.head.number < number:
                    provider.head = tree.mine(seconds=block_seconds)
                tracker.fetch_heads()
                polls += number > WARM_UP
                if tracker.newest_number == number and number > WARM_UP:
                    delays.append(now - shown_at)
                wait_seconds = tracker.estimate_poll_wait()
                now += POLL_SECONDS if wait_seconds is None else min(wait_seconds, POLL_SECONDS)
        pool.close()
    assert sum(delays) / len(delays) <= mean_delay
    assert polls / len(delays) <= polls_per_block


@pytest.mark.parametrize("block_seconds", [0, 1])
def test_regular_polls_continue_if_block_time_is_irregular(block_seconds):
    """The block times are unknown or below one second, or the next block is overdue."""
    now = 0.0
    tree = BlockTree(31337)
    provider = Provider(tree)
    with serve_endpoint(provider) as served:
        pool = pool_of(served.url)
        tracker = HeadTracker(pool, Finality(64, 0), lambda: now)
        assert tracker.estimate_poll_wait() is None
        for _ in range(3):
            provider.head = tree.mine(seconds=block_seconds)
            tracker.fetch_heads()
        now += 2.0
        assert tracker.estimate_poll_wait() is None
        pool.close()
