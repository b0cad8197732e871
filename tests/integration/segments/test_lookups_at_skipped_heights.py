"""Requests by height or time, at heights that the chain has skipped."""

from collections.abc import Callable

import pytest

from devnet.fakechain.tree import get_branch
from oracle.dispatch.redraw import HeaderReader
from oracle.domain.blocks import BlockRef
from oracle.errors import InputError
from oracle.indexer.feed_events import FeedHeadLimit
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.queries.explain import resolve_block
from oracle.reporting.recompute import find_last_block_of_period
from oracle.store.raw.feed_repository import FeedCursor
from tests.support.ingest.indexer import Indexer
from tests.support.ingest.skipping import FAR, Skipping

# After block 20, far more heights than a binary search halves away; near the head, short gaps.
GAPS = [0] * 20 + [FAR] + [0] * 20 + [0, 2, 0, 3, 0, 0, 1, 0]


@pytest.fixture
def world(skipping: Callable[[int], Skipping]) -> Skipping:
    world = skipping(1)
    world.grow(GAPS)
    return world


@pytest.fixture
def indexer(world: Skipping) -> Indexer:
    indexer = world.indexer()
    world.read(indexer)
    return indexer


def up_to(world: Skipping, height: int) -> int:
    """Return the number of the block at a height, or of the last one before it."""
    return max(block.number for block in get_branch(world.chain.head) if block.number <= height)


@pytest.mark.parametrize("below_head", [2, 7, 60])
def test_rewind_to_skipped_height_ends_at_previous_block(
    world: Skipping, indexer: Indexer, below_head: int
):
    blocks = {block.number for block in get_branch(world.chain.head)}
    height = world.chain.head.number - below_head
    assert height not in blocks

    rewind_to_block(indexer.source, indexer.store, indexer.folder, height, RebuildOptions())

    assert indexer.cursor[0] == up_to(world, height)
    assert world.read(indexer) == world.read(world.indexer())


def test_rewind_before_start_block_is_rejected(world: Skipping):
    first = up_to(world, 20) + FAR + 1
    indexer = world.indexer(start_block=first)
    world.read(indexer)

    with pytest.raises(InputError, match=f"skipped block {first - 1}; choose block {first}"):
        rewind_to_block(indexer.source, indexer.store, indexer.folder, first - 1, RebuildOptions())


@pytest.mark.parametrize("seconds", [7, 60, 300])
def test_last_block_of_a_period_is_found_among_skipped_heights(
    world: Skipping, indexer: Indexer, seconds: int
):
    blocks = get_branch(world.chain.head)
    periods = range(blocks[1].time // seconds, world.chain.head.time // seconds)
    last_block_by_period = {
        period: find_last_block_of_period(indexer.source, indexer.store, period, seconds).number
        for period in periods
    }
    assert last_block_by_period == {
        period: max(block.number for block in blocks if block.time < (period + 1) * seconds)
        for period in periods
    }


def test_lagging_feed_limits_the_head_to_its_settled_time(world: Skipping):
    indexer = world.indexer()
    limit = FeedHeadLimit(indexer.store)
    read = []
    numbers = [block.number for block in get_branch(world.chain.head)]
    for polls, block in enumerate(get_branch(world.chain.head)):
        with indexer.store.transaction() as uow:
            uow.feed.move_cursor(FeedCursor(settled_to=block.time), polls)
        read.append(limit.get_heads(indexer.source).latest.number)
    assert read == numbers


def test_skipped_height_is_resolved_to_previous_block(world: Skipping, indexer: Indexer):
    numbers = range(world.chain.head.number + 1)
    resolved_numbers = [
        resolve_block(lambda: indexer.source, indexer.store, number).number for number in numbers
    ]
    assert resolved_numbers == [up_to(world, number) for number in numbers]


def test_skipped_height_has_no_header_and_no_seed_block(world: Skipping, indexer: Indexer):
    blocks = {block.number: block.hash for block in get_branch(world.chain.head)}
    last = world.chain.head.number
    headers = HeaderReader(indexer.source, dict[int, BlockRef](), last)
    header_by_number = {number: headers.get_header(number) for number in range(last + 1)}
    assert {
        number: header.hash for number, header in header_by_number.items() if header is not None
    } == blocks
    assert headers.get_header_at_or_below(60).number == up_to(world, 60)
