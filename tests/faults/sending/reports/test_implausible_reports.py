"""Implausible reports are not sent: a fold that lags, a mass drop."""

from dataclasses import replace

import pytest

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.health import Condition
from oracle.domain.reports.sanity_limits import SanityLimits
from oracle.errors import InputError
from oracle.queries.health import list_database_findings
from oracle.reporting.readiness import find_first_unread_block
from oracle.reporting.report_planner import plan_push
from oracle.reporting.sanity_gate import hold_report, release_held_report
from oracle.store.report_repository import ReportState
from oracle.telemetry import quorum_metrics
from tests.support.evm.groups import score_nodes_in_order
from tests.support.harness import FINALITY, SETTINGS, Harness
from tests.support.sending.reporters import index_with_raised_scores

# Three members are enough to judge.
STRICT = SanityLimits(min_members=3)


def read_held_metric() -> float:
    return float(quorum_metrics.HELD._value.get())


def count_signatures(harness: Harness) -> int:
    """Return the number of report statements that were ever signed."""
    address, round_ = harness.testbed.address, harness.testbed.round
    with harness.store.read_transaction() as uow:
        return sum(
            len(uow.statements.list_for_round(address, round_number))
            for round_number in range(1, round_ + 2)
        )


def list_readiness_findings(harness: Harness) -> list[str]:
    """Return the index's reasons for which `/readyz` would return 503."""
    watch = DaemonHealth(JobLiveness(lambda: 0.0))
    with harness.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        watch.first_gap = find_first_unread_block(uow)
    assert cursor is not None
    watch.record_folded_block(cursor)
    watch.record_heads(harness.source.fetch_heads())
    return [finding.format_line() for finding in watch.build_report().findings]


def test_case_f50_nothing_is_reported_while_the_fold_lags_the_head(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.index()
    harness.mine(20)

    assert harness.repeat(plan_push) == []
    assert count_signatures(harness) == 0
    assert list_readiness_findings(harness) == ["BEHIND: the index is 20 blocks behind the head"]

    harness.index()
    assert [step.action for step in harness.repeat(plan_push)] == ["report signed", "push planned"]
    assert list_readiness_findings(harness) == []


def test_case_f50_nothing_is_reported_while_the_fold_has_a_gap(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.index()
    with harness.store.transaction() as uow:
        scope = uow.coverage.get_current_scope()
        cursor = uow.cursor.get()
        assert scope is not None
        assert cursor is not None
        (span, *_) = uow.coverage.list_intervals(scope.id)
        uow.coverage.delete_above(cursor.number - 1)

    assert harness.repeat(plan_push) == []
    assert count_signatures(harness) == 0
    assert list_readiness_findings(harness) == [
        f"GAP: block {cursor.number} was never read; run `qos-oracle resync gaps`"
    ]

    with harness.store.transaction() as uow:
        uow.coverage.store_interval(scope.id, span)
    assert [step.action for step in harness.repeat(plan_push)] == ["report signed", "push planned"]


def pause_all_good_nodes(harness: Harness) -> None:
    """Report three good nodes in one round, and then let all three pause."""
    harness.reporting = replace(harness.reporting, sanity=STRICT)
    harness.pushed()
    harness.until_final()
    network = harness.testbed.network
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    harness.period()


def test_case_f51_mass_drop_is_held_until_the_operator_releases_it(sqlite_harness: Harness):
    harness = sqlite_harness
    pause_all_good_nodes(harness)
    before = count_signatures(harness)

    # The held report does not block the schedule: the next one is examined, and held as well.
    assert [step.action for step in harness.tick()] == ["report held", "report held"]
    assert (count_signatures(harness), read_held_metric()) == (before, 2)
    with harness.store.read_transaction() as uow:
        _, gate = uow.holds.list_held()
    assert "3 of 3 members would change by more than 2500 steps" in gate.reason
    assert gate.facts["members"] == 3
    # Nothing is signed or sent, however long it waits; this is reported once.
    harness.mine(2)
    assert harness.tick() == []
    assert (count_signatures(harness), harness.testbed.round) == (before, 1)

    with harness.context.write_transaction() as uow:
        release_held_report(uow, gate.period, harness.context.stamp)
    harness.tick()
    harness.until_final()
    assert (harness.testbed.round, read_held_metric()) == (2, 0)
    with harness.store.read_transaction() as uow:
        stored = uow.reports.get(gate.period)
    assert stored is not None
    assert stored.state is ReportState.LANDED


def test_released_report_with_wrong_leaves_is_held_again(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.pushed()
    harness.until_final()
    harness.restart()
    harness.period()
    # This process computes wrong leaves, and its sanity gate holds the report.
    index_with_raised_scores(harness)
    with harness.store.read_transaction() as uow:
        (due,) = uow.reports.list_due()
    hold_report(harness.reporting, due.report, "its changes are too many")
    with harness.context.write_transaction() as uow:
        release_held_report(uow, due.report.period, harness.context.stamp)
    before = count_signatures(harness)

    # The next process compares the leaves before it signs.
    harness.restart()
    steps = harness.tick()

    assert (count_signatures(harness), harness.testbed.round) == (before, 1)
    assert [step.action for step in steps].count("report held") == 1
    assert read_held_metric() == 1
    with harness.context.write_transaction() as uow:
        (hold,) = uow.holds.list_awaiting_operator()
        assert (hold.period, hold.released_at) == (due.report.period, None)
        (finding,) = list_database_findings(uow)
        assert finding.condition is Condition.HELD
        assert "leaves differ from the nodes" in finding.detail
        with pytest.raises(InputError, match="cannot be released"):
            release_held_report(uow, hold.period, harness.context.stamp)
    # The hold neither repeats nor ends with another restart.
    harness.restart()
    assert "report held" not in [step.action for step in harness.tick()]
    assert read_held_metric() == 1

    harness.period()
    harness.until_final()
    assert (harness.testbed.round, read_held_metric()) == (2, 0)


def let_held_report_expire(harness: Harness) -> None:
    """Let the held report expire, so that a later report is scheduled."""
    harness.testbed.chain.later(2 * SETTINGS.ttl_seconds)
    harness.testbed.chain.mine()
    harness.period()
    harness.tick()


def test_case_f51_report_that_follows_a_released_report_is_checked(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    pause_all_good_nodes(harness)
    harness.tick()
    let_held_report_expire(harness)
    with harness.store.read_transaction() as uow:
        first, *_, newest = uow.holds.list_held()
    assert newest.period - first.period >= SETTINGS.ttl_seconds // SETTINGS.period_seconds
    assert harness.testbed.round == 1

    # Later reports are compared with it even if it lands too late itself.
    with harness.context.write_transaction() as uow:
        release_held_report(uow, newest.period, harness.context.stamp)
    let_held_report_expire(harness)
    harness.until_final()
    assert (harness.testbed.round, read_held_metric()) == (2, 0)
    with harness.store.read_transaction() as uow:
        assert first.period in {gate.period for gate in uow.holds.list_held()}


def test_later_reports_are_compared_with_the_last_round(sqlite_harness: Harness):
    """The leaves of a report that expired without landing are deleted."""
    harness = sqlite_harness
    pause_all_good_nodes(harness)
    harness.tick()
    let_held_report_expire(harness)
    with harness.store.read_transaction() as uow:
        newest = uow.holds.list_held()[-1]
    with harness.context.write_transaction() as uow:
        release_held_report(uow, newest.period, harness.context.stamp)
    let_held_report_expire(harness)
    harness.until_final()
    assert harness.testbed.round == 2

    held_before = {step.detail for step in harness.steps if step.action == "report held"}
    network = harness.testbed.network
    for node in network.nodes[3:]:
        network.join(node)
    for number in range(2 * SETTINGS.ttl_seconds // SETTINGS.period_seconds):
        # Each is first at times, so no node is kicked out.
        first = 3 + number % 3
        score_nodes_in_order(
            network, [*network.nodes[first:], *network.nodes[3:first]], 100 + number
        )
        harness.pushed()
        harness.until_final()
    assert {step.detail for step in harness.steps if step.action == "report held"} == held_before


def test_reports_after_an_outage_are_compared_with_the_released_report(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    pause_all_good_nodes(harness)
    harness.tick()
    with harness.store.read_transaction() as uow:
        newest = uow.holds.list_held()[-1]
    with harness.context.write_transaction() as uow:
        release_held_report(uow, newest.period, harness.context.stamp)
    # The daemon is down for longer than a report may land, and finds these blocks final.
    harness.testbed.chain.later(2 * SETTINGS.ttl_seconds)
    network = harness.testbed.network
    for node in network.nodes[3:]:
        network.join(node)
    score_nodes_in_order(network, network.nodes[3:], len(network.nodes) - 3)
    for _ in range(2):
        harness.period()
        harness.mine(FINALITY + 1)

    actions = [step.action for step in harness.until_final()]
    assert "report held" not in actions
    assert harness.testbed.round == 2


def test_report_after_a_held_report_is_pushed_when_the_state_recovers(sqlite_harness: Harness):
    """The hold of one report does not delay later reports."""
    harness, network = sqlite_harness, sqlite_harness.testbed.network
    pause_all_good_nodes(harness)
    harness.tick()
    assert read_held_metric() > 0
    for node in network.nodes[:3]:
        network.by(node, network.does.resume())
    score_nodes_in_order(network, network.nodes[:3], 3)

    harness.pushed()
    harness.until_final()
    assert (harness.testbed.round, read_held_metric()) == (2, 0)


def test_releasing_a_period_that_is_not_held_is_rejected(sqlite_harness: Harness):
    harness = sqlite_harness
    with (
        harness.context.write_transaction() as uow,
        pytest.raises(InputError, match="held periods: none"),
    ):
        release_held_report(uow, 7, harness.context.stamp)


def test_case_f52_simultaneous_drops_are_reported_in_one_round(sqlite_harness: Harness):
    harness, network = sqlite_harness, sqlite_harness.testbed.network
    for node in network.nodes[3:]:
        network.join(node)
    score_nodes_in_order(network, network.nodes[3:], len(network.nodes))
    # The first round states a period that ended before these nodes had their score.
    for _ in range(2):
        harness.pushed()
    for node in network.nodes:
        network.by(node, network.does.pause())
    harness.pushed()
    with harness.store.read_transaction() as uow:
        landed = max(
            (stored.report for stored in uow.reports.list_newest(10) if stored.round == 3),
            key=lambda report: report.period,
        )
    assert landed.change.node_count == len(network.nodes)
