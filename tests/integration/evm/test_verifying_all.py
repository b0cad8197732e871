"""Verifying all draws of a network in one pass equals verifying each alone."""

from web3 import Web3

from oracle.queries.selection.draw_check import (
    AllDrawsAnswer,
    DrawVerdict,
    verify_all_draws,
    verify_draw,
)
from tests.support.evm.fixtures import chain
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    fresh_stage,
    harness,
    testbed,
    to_task_key,
)
from tests.support.txmgr.harness_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "testbed"]


def verified_all(harness: DispatchHarness) -> AllDrawsAnswer:
    assert harness.dispatch is not None
    return verify_all_draws(harness.source, harness.store, harness.folder.reader, harness.dispatch)


def verdict_of(harness: DispatchHarness, task: bytes) -> DrawVerdict:
    assert harness.dispatch is not None
    where = (harness.source, harness.store, harness.folder.reader, harness.dispatch)
    return verify_draw(*where, to_task_key(task)).verdict


def test_network_without_started_tasks_is_reported(harness: DispatchHarness):
    harness.testbed.network.create()
    harness.turn()
    all_draws = verified_all(harness)
    assert (all_draws.verdict, all_draws.started) == (DrawVerdict.NOT_DISPATCHED, 0)


def test_verify_passes_for_tasks_started_on_their_drawn_nodes(harness: DispatchHarness):
    network = harness.testbed.network
    tasks = [network.create(group=b"g" * 32, group_size=3) for _ in range(3)]
    later = network.create()
    harness.turn()
    for _ in range(4):
        harness.block()

    verdicts = [verdict_of(harness, task) for task in (*tasks, later)]
    all_draws = verified_all(harness)
    assert (all_draws.verdict, all_draws.differ) == (DrawVerdict.AGREES, [])
    assert all_draws.started == verdicts.count(DrawVerdict.AGREES) == 3


def test_task_started_on_another_node_is_reported_as_differing(harness: DispatchHarness):
    network = harness.testbed.network
    followed = network.create()
    defied_task = network.create()
    harness.index()
    harness.mine()
    harness.index()
    drawn = harness.standing()
    (stranger,) = [node for node in network.nodes[:3] if node.lower() not in drawn.values()]
    # Another dispatcher takes over, and follows only one of the draws.
    network.by(network.admin, network.does.setDispatcher(network.dispatcher))
    network.start(followed, Web3.to_checksum_address(drawn[to_task_key(followed)]))
    network.start(defied_task, stranger)
    harness.index()

    assert verdict_of(harness, followed) is DrawVerdict.AGREES
    assert verdict_of(harness, defied_task) is DrawVerdict.DIFFERS
    all_draws = verified_all(harness)
    assert (all_draws.verdict, all_draws.started) == (DrawVerdict.DIFFERS, 2)
    (differing,) = all_draws.differ
    assert differing.task == to_task_key(defied_task)
    assert (differing.started_by, differing.drawn) == (
        stranger.lower(),
        drawn[to_task_key(defied_task)],
    )
