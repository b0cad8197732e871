"""R, P, B and the payments of a group under legacy rules,
from the events of the reference network.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.reports.report import ReportSettings
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folder import EventFolder
from oracle.queries.explain import explain_score, resolve_block
from oracle.queries.node_models import LegacyScore
from oracle.queries.population import load_all_nodes
from oracle.queries.report_models import compute_report_detail
from oracle.store.database import Store
from oracle.systems.legacy.trio_selection import compute_submission_speeds
from oracle.systems.registry import build_rules
from tests.support.answers import build_explanation_json
from tests.support.evm.fixtures import chain
from tests.support.evm.groups import compare_answers, create_member_tasks
from tests.support.evm.network import ETHER, encode_word
from tests.support.harness import Harness, OracleTestbed
from tests.support.txmgr.harness_fixtures import fresh_chain, fresh_testbed, testbed

__all__ = ["chain", "fresh_chain", "fresh_testbed", "testbed"]

RULES = build_rules(
    "legacy",
    {
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        "legacy.kickout_below": "7",
        "legacy.kickout_tasks": "3",
        "legacy.window_seconds": "31536000",
    },
)
FEES = 3 * ETHER


@pytest.fixture
def harness(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[Harness]:
    """Yield a daemon that folds by legacy rules."""
    with Store.open(sqlite_url) as opened:
        harness = Harness(testbed, opened, tmp_path / "evidence")
        harness.folder = EventFolder(RULES, harness.folder.reader, [])
        yield harness
        harness.close()


def run_race(testbed: OracleTestbed) -> list[Address]:
    """Let three nodes promise 60, 180 and 300 seconds, and answer a group in reverse order."""
    network = testbed.network
    network.by(network.admin, network.does.setPayment(True))
    nodes = network.nodes[:3]
    for node, seconds in zip(nodes, (60, 180, 300), strict=True):
        network.by(node, network.does.pause())
        network.by(node, network.does.setTimeout(seconds))
        network.by(node, network.does.resume())
    tasks = create_member_tasks(network, group=encode_word(501))
    for task, node in zip(tasks, nodes, strict=True):
        network.start(task, node)
    for task, node in reversed(list(zip(tasks, nodes, strict=True))):
        network.chain.later(10)
        network.commit(task, node, encode_word(9))
    for task in reversed(tasks):
        network.reveal(task)
    compare_answers(network, tasks, encode_word(501))
    return [Address(node.lower()) for node in nodes]


def legacy_scores(harness: Harness) -> dict[str, LegacyScore]:
    """Return the legacy scores of every node, as `nodes` lists them."""
    page = load_all_nodes(harness.store, RULES, {}, 0)
    assert page is not None
    return {row.node: row.legacy for row in page.nodes if row.legacy is not None}


def test_legacy_factors_are_computed_from_network_events(testbed: OracleTestbed, harness: Harness):
    first, second, third = run_race(testbed)
    harness.index()
    scores = legacy_scores(harness)
    ranked = [scores[node] for node in (first, second, third)]

    assert [score.P for score in ranked] == [UNIT, UNIT // 2, 0]
    assert [score.R for score in ranked] == [UNIT] * 3
    means = [score.node_score or 0 for score in ranked]
    assert means == sorted(means)
    assert means[0] < means[2]
    assert all(0 < (score.incentive_share or 0) < UNIT for score in ranked)
    with harness.store.read_transaction() as uow:
        nodes = list(uow.nodes.iterate_all())
        cursor = uow.cursor.get()
    assert cursor is not None
    weights = compute_submission_speeds(nodes, cursor.time, RULES, use_equal_weights=False)
    assert weights[third].weight == UNIT > weights[first].weight


def test_explanation_contains_the_earnings_of_each_rank(testbed: OracleTestbed, harness: Harness):
    nodes = run_race(testbed)
    harness.index()
    as_of = resolve_block(lambda: harness.source, harness.store, None)
    archive = EventArchive(harness.store, harness.folder.reader, RULES)
    explanations = [build_explanation_json(explain_score(archive, node, as_of)) for node in nodes]
    earned = [explanation["pool"]["entries"][-1]["earned"] for explanation in explanations]

    assert [(earning["points"], earning["of_points"]) for earning in earned] == [
        (4, 34),
        (10, 34),
        (20, 34),
    ]
    assert [earning["paid"] for earning in earned] == [earning["by_points"] for earning in earned]
    assert sum(int(earning["paid"]) for earning in earned) == FEES


def test_report_shows_the_incentive_share_of_each_node(testbed: OracleTestbed, harness: Harness):
    nodes = run_race(testbed)
    harness.index()
    computed_shares = {
        name: score.incentive_share for name, score in legacy_scores(harness).items()
    }
    head = resolve_block(lambda: harness.source, harness.store, None)
    report_detail = compute_report_detail(
        harness.store, harness.folder.reader, RULES, ReportSettings(), head
    )

    share_by_node = {lane.node: lane.incentive_share for lane in report_detail.lanes}
    assert {node: share_by_node[node] for node in nodes} == {
        node: computed_shares[node] for node in nodes
    }
    assert sum(share for share in share_by_node.values() if share) > UNIT - len(share_by_node)
