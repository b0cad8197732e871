"""Pocket's policies draw on a real chain from outcomes alone, equally for every reader."""

from pathlib import Path

import pytest

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.ids import Address
from oracle.indexer.loop import ingest_next_window
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.queries.selection.draw_check import (
    DrawMadeAgain,
    DrawVerdict,
    verify_all_draws,
    verify_draw,
)
from oracle.store.database import Store
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Status
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    build_dispatch_settings,
    fresh_stage,
    harness,
    testbed,
    to_task_key,
)
from tests.support.txmgr.harness_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "testbed"]

POLICIES = pytest.mark.parametrize("policy", ["article", "portal_api_head"])


def dispatch_with_policy(harness: DispatchHarness, policy: str) -> None:
    harness.restart(dispatch=build_dispatch_settings(harness.testbed.built_at, policy=policy))


def get_verification_arguments(
    harness: DispatchHarness,
) -> tuple[ChainSource, Store, EventReader, DispatchSettings]:
    """Return the arguments of the verification."""
    assert harness.dispatch is not None
    return harness.source, harness.store, harness.folder.reader, harness.dispatch


def last_draw(harness: DispatchHarness, task: bytes) -> DrawMadeAgain:
    """Repeat the draw of a task; check that it went to the drawn node,
    and return its candidates.
    """
    check = verify_draw(*get_verification_arguments(harness), to_task_key(task))
    assert check.verdict is DrawVerdict.AGREES
    return check.draws[-1]


def weight_of(drawing: DrawMadeAgain, node: Address) -> int:
    """Return the weight of a candidate."""
    return next(candidate.weight for candidate in drawing.candidates if candidate.node == node)


def runs(harness: DispatchHarness) -> bytes:
    """Create a task that is started on its drawn node."""
    task = harness.testbed.network.create()
    harness.turn()
    harness.block()
    harness.block()
    assert harness.testbed.network.status(task) is Status.STARTED
    return task


def is_timed_out(harness: DispatchHarness, task: bytes) -> Address:
    """Let the node of the task time out; return the node."""
    network = harness.testbed.network
    network.chain.at(network.time_limit(task) + 1)
    network.time_out(task)
    harness.index()
    return Address(harness.node_of(task))


@POLICIES
def test_drawn_node_gets_the_task_and_its_draw_is_reproducible(
    harness: DispatchHarness, policy: str
):
    dispatch_with_policy(harness, policy)
    task = runs(harness)
    drawing = last_draw(harness, task)
    assert drawing.node == harness.node_of(task)
    # No node has run a task yet.
    assert [candidate.weight for candidate in drawing.candidates] == [10, 10, 10]


@pytest.mark.parametrize(("policy", "tickets"), [("article", 0), ("portal_api_head", 10)])
def test_unresponsive_node_is_excluded_only_by_article_policy(
    harness: DispatchHarness, policy: str, tickets: int
):
    dispatch_with_policy(harness, policy)
    failed = is_timed_out(harness, runs(harness))
    drawing = last_draw(harness, runs(harness))
    assert weight_of(drawing, failed) == tickets
    assert (drawing.node == failed) <= (tickets > 0)


def test_unresponsive_node_has_a_single_ticket_after_six_seconds(
    harness: DispatchHarness,
):
    dispatch_with_policy(harness, "article")
    failed = is_timed_out(harness, runs(harness))
    harness.testbed.chain.later(6)
    assert weight_of(last_draw(harness, runs(harness)), failed) == 1


@POLICIES
def test_ticket_draws_survive_restarts_and_reorgs(
    harness: DispatchHarness, new_sqlite_store: NewStore, tmp_path: Path, policy: str
):
    dispatch_with_policy(harness, policy)
    tasks = []
    for _ in range(3):
        tasks.append(runs(harness))
        is_timed_out(harness, tasks[-1])
    harness.testbed.chain.rpc("anvil_reorg", 1, [])
    tasks += [runs(harness) for _ in range(2)]
    drawn = [harness.draws(task) for task in tasks]
    all_draws = verify_all_draws(*get_verification_arguments(harness))
    assert (all_draws.verdict, all_draws.started) == (DrawVerdict.AGREES, 5)

    for blocks, restarts in ((1000, False), (1, False), (2, True)):
        with new_sqlite_store() as store:
            other_harness = DispatchHarness(harness.testbed, store, tmp_path)
            dispatch_with_policy(other_harness, policy)
            other_harness.ingest.max_blocks = blocks
            while (
                ingest_next_window(
                    other_harness.source, store, other_harness.folder, other_harness.ingest
                )
                is not None
            ):
                if restarts:
                    other_harness.restart()
                other_harness.ingest.max_blocks = blocks
            assert [other_harness.draws(task) for task in tasks] == drawn
            other_harness.close()


def test_rebuild_restores_the_ticket_state(harness: DispatchHarness):
    dispatch_with_policy(harness, "article")
    failed = is_timed_out(harness, runs(harness))
    rebuild_state(harness.store, harness.folder, RebuildOptions())
    assert weight_of(last_draw(harness, runs(harness)), failed) == 0
    assert verify_all_draws(*get_verification_arguments(harness)).verdict is DrawVerdict.AGREES
