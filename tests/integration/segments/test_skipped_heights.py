"""Case 15 of tests/faults/ingest/cases.toml: whichever heights a chain skips, the same rows.

This is independent of the size and the ends of windows, and holds across a fork.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults.block_faults import HEADER_METHODS
from devnet.fakechain.requests import FakeRequest
from devnet.fakechain.tree import get_branch
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.errors import TransientError
from oracle.indexer.audit.reverify import reverify_blocks
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.backfill import backfill_block_range
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.queries.index_checks import find_index_gaps
from tests.support.examples import examples
from tests.support.ingest.indexer import FINALITY, Indexer
from tests.support.ingest.skipping import FAR, TURNS, Skipping

# Before each block, the number of skipped heights.
gaps = st.lists(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 5, 9, 14, FAR]), min_size=10, max_size=25)


class ReadOptions(NamedTuple):
    """The heights read at once, the start, the endpoint, and whether it supports tags."""

    blocks: int
    start: int
    endpoints: int
    has_tags: bool


manners = st.builds(
    ReadOptions, st.integers(1, 30), st.integers(0, 9), st.integers(1, 2), st.booleans()
)


class Fork(NamedTuple):
    """The number of replaced blocks, and the blocks in their place."""

    depth: int
    gaps: Sequence[int]


forks = st.none() | st.builds(
    Fork, st.integers(1, 7), gaps.map(lambda skipped: [*skipped, *[0] * (2 * FINALITY)])
)
Open = Callable[..., Indexer]


def hide_blocks_at(heights: range) -> InjectedFault:
    """Return no block at these heights, nor by its hash."""

    def hide_heights(_request: FakeRequest, answer: Any) -> Any:
        return None if answer is not None and int(answer["number"], 16) in heights else answer

    return InjectedFault("lacks", hide_heights, limits={"methods": HEADER_METHODS})


def until_it_fails(indexer: Indexer) -> tuple[list[object], TransientError]:
    """Index until a step fails; return the results and the error."""
    done: list[object] = []
    for _ in range(TURNS):
        try:
            done.append(indexer.step())
        except TransientError as error:
            return done, error
    raise AssertionError(done)


@pytest.mark.nightly
@settings(examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(skipped=gaps, fetch_mode=manners, fork=forks)
@example(
    skipped=[*[0] * 6, 1, 1, 0, 0],
    fetch_mode=ReadOptions(4, 0, 1, has_tags=False),
    fork=Fork(4, [0, 0, 0, FAR, 1, 0, 0, 1, 1, 0, 1, 1, 0, 2, 0, FAR, FAR, *[0] * 2 * FINALITY]),
)
def test_rows_do_not_depend_on_window_size_at_skipped_heights(
    skipping: Callable[[int], Skipping],
    skipped: Sequence[int],
    fetch_mode: ReadOptions,
    fork: Fork | None,
):
    world = skipping(fetch_mode.endpoints)
    for provider in world.chain.providers:
        provider.tag_targets = provider.tag_targets if fetch_mode.has_tags else {}
    world.grow(skipped)
    indexer = world.indexer(fetch_mode.blocks, start_block=fetch_mode.start)
    stored = world.read(indexer)
    if fork is not None:
        world.grow(fork.gaps, on=world.part(fork.depth))
        stored = world.read(indexer)
    at_once = world.indexer(start_block=fetch_mode.start)

    assert stored == world.read(at_once)
    assert indexer.canonical_logs() == at_once.canonical_logs() == world.logs(fetch_mode.start)
    assert indexer.gaps() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_heights_longer_than_a_window_do_not_stall_indexing(
    skipping: Callable[[int], Skipping], workers: int
):
    world = skipping(1)
    world.grow([0] * 60 + [45] + [0] * 30 + [FAR] + [0] * 30)
    indexer = world.indexer(20, workers=workers)

    assert world.read(indexer) == world.read(world.indexer())


def test_block_missing_at_one_endpoint_is_not_treated_as_skipped(
    skipping: Callable[[int], Skipping],
):
    """The endpoint shows none of ten blocks with events; the next block names their hash."""
    world = skipping(1)
    world.grow([0] * 60)
    hole = hide_blocks_at(range(20, 30))
    world.chain.provider.faults.append(hole)
    indexer = world.indexer(5)

    done, error = until_it_fails(indexer)

    assert all(isinstance(window, CommittedWindow) for window in done)
    assert indexer.cursor[0] < 20
    assert hole.hit_count
    assert "not there yet" in str(error)
    world.chain.provider.faults.clear()
    assert world.read(indexer) == world.read(world.indexer())


def test_missing_start_block_is_not_treated_as_skipped(skipping: Callable[[int], Skipping]):
    world = skipping(1)
    world.grow([0] * 60)
    world.chain.provider.faults.append(hide_blocks_at(range(7, 12)))

    done, error = until_it_fails(world.indexer(start_block=7))

    assert done == []
    assert "the parent of block 12 is not available" in str(error)


def test_indexing_halts_if_a_final_block_becomes_a_skipped_height(
    skipping: Callable[[int], Skipping],
):
    world = skipping(1)
    world.grow([0] * 30)
    indexer = world.indexer()
    world.read(indexer)
    final = world.chain.head.number - FINALITY
    below = get_branch(world.chain.head)[final - 1]
    world.grow([3, *[0] * 30], on=below)

    changed = [
        halt_change
        for halt_change in world.turns(indexer, 20)
        if isinstance(halt_change, HaltChanged)
    ]

    assert [halt_change.is_active for halt_change in changed] == [True]
    assert f"block {final} was final here" in changed[0].reason
    assert indexer.canonical_logs() != world.chain.logs()


def test_skipped_heights_are_not_gaps_and_can_be_verified(
    skipping: Callable[[int], Skipping],
):
    world = skipping(2)
    world.grow([0] * 20 + [FAR] + [0] * 20 + [0, 2, 0, 3, 0])
    indexer = world.indexer()
    world.read(indexer)
    at = indexer.cursor[0]

    with indexer.store.read_transaction() as uow:
        gaps = find_index_gaps(uow, indexer.folder.reader)
    assert gaps is not None
    assert not gaps.has_gaps
    for blocks in (BlockRange(0, at), BlockRange(30, 40)):
        context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())
        done = reverify_blocks(context, blocks, VerificationLevel.PROVEN)
        assert not done.difference
        again = backfill_block_range(
            indexer.source, indexer.store, indexer.folder, blocks, RebuildOptions()
        )
        assert not again.has_missing_rows
        assert not again.unserved_count
