"""Implausible reports are not sent: a fold that lags, a mass drop."""

from dataclasses import replace

import pytest

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.reports.sanity_limits import SanityLimits
from oracle.errors import InputError
from oracle.reporting.readiness import find_first_gap
from oracle.reporting.report_planner import plan_push
from oracle.reporting.sanity_gate import release_held_report
from oracle.store.report_repository import ReportState
from oracle.telemetry import quorum_metrics
from tests.support.evm.groups import score_nodes_in_order
from tests.support.office import FINALITY, SETTINGS, Office

# Three members are enough to judge.
STRICT = SanityLimits(min_members=3)


def held() -> float:
    return float(quorum_metrics.HELD._value.get())


def signatures(office: Office) -> int:
    """Return the number of report statements that were ever signed."""
    address, round_ = office.premises.address, office.premises.round
    with office.store.read_transaction() as uow:
        return sum(
            len(uow.statements.list_for_round(address, round_number))
            for round_number in range(1, round_ + 2)
        )


def ready(office: Office) -> list[str]:
    """Return the index's reasons for which `/readyz` would return 503."""
    watch = DaemonHealth(JobLiveness(lambda: 0.0))
    with office.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        watch.first_gap = find_first_gap(uow)
    assert cursor is not None
    watch.record_folded_block(cursor)
    watch.record_heads(office.source.fetch_heads())
    return [finding.format_line() for finding in watch.build_report().findings]


def test_case_f50_nothing_is_reported_while_fold_is_behind_head(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.index()
    office.mine(20)

    assert office.repeat(plan_push) == []
    assert signatures(office) == 0
    assert ready(office) == ["BEHIND: the index is 20 blocks behind the head"]

    office.index()
    assert [step.action for step in office.repeat(plan_push)] == ["report signed", "push planned"]
    assert ready(office) == []


def test_case_f50_nothing_is_reported_while_fold_has_a_gap(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.index()
    with office.store.transaction() as uow:
        scope, cursor = uow.coverage.get_current_scope(), uow.cursor.get()
        assert scope is not None
        assert cursor is not None
        (span, *_) = uow.coverage.list_spans(scope.id)
        uow.coverage.delete_above(cursor.number - 1)

    assert office.repeat(plan_push) == []
    assert signatures(office) == 0
    assert ready(office) == [
        f"GAP: block {cursor.number} was never read; run `qos-oracle resync gaps`"
    ]

    with office.store.transaction() as uow:
        uow.coverage.store_span(scope.id, span)
    assert [step.action for step in office.repeat(plan_push)] == ["report signed", "push planned"]


def pause_all_good_nodes(office: Office) -> None:
    """Report three good nodes in one round, and then let all three pause."""
    office.reporting = replace(office.reporting, sanity=STRICT)
    office.pushed()
    office.until_final()
    network = office.premises.network
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    office.period()


def test_case_f51_mass_drop_is_held_until_operator_releases_it(sqlite_office: Office):
    office = sqlite_office
    pause_all_good_nodes(office)
    before = signatures(office)

    # The held report does not block the schedule: the next one is examined, and held as well.
    assert [step.action for step in office.tick()] == ["report held", "report held"]
    assert (signatures(office), held()) == (before, 2)
    with office.store.read_transaction() as uow:
        _, gate = uow.holds.list_held()
    assert "3 of 3 members would change by more than 2500 steps" in gate.reason
    assert gate.facts["members"] == 3
    # Nothing is signed or sent, however long it waits; this is reported once.
    office.mine(2)
    assert office.tick() == []
    assert (signatures(office), office.premises.round) == (before, 1)

    with office.context.write_transaction() as uow:
        release_held_report(uow, gate.period, office.context.stamp)
    office.tick()
    office.until_final()
    assert (office.premises.round, held()) == (2, 0)
    with office.store.read_transaction() as uow:
        stored = uow.reports.get(gate.period)
    assert stored is not None
    assert stored.state is ReportState.LANDED


def let_held_report_expire(office: Office) -> None:
    """Let the held report expire, so that a later report is scheduled."""
    office.premises.chain.later(2 * SETTINGS.ttl_seconds)
    office.premises.chain.mine()
    office.period()
    office.tick()


def test_case_f51_report_after_released_report_is_checked_again(
    sqlite_office: Office,
):
    office = sqlite_office
    pause_all_good_nodes(office)
    office.tick()
    let_held_report_expire(office)
    with office.store.read_transaction() as uow:
        first, *_, newest = uow.holds.list_held()
    assert newest.period - first.period >= SETTINGS.ttl_seconds // SETTINGS.period_seconds
    assert office.premises.round == 1

    # Later reports are compared with it even if it lands too late itself.
    with office.context.write_transaction() as uow:
        release_held_report(uow, newest.period, office.context.stamp)
    let_held_report_expire(office)
    office.until_final()
    assert (office.premises.round, held()) == (2, 0)
    with office.store.read_transaction() as uow:
        assert first.period in {gate.period for gate in uow.holds.list_held()}


def test_reports_long_after_released_report_are_compared_with_last_round(sqlite_office: Office):
    """The leaves of a report that expired without landing are deleted."""
    office = sqlite_office
    pause_all_good_nodes(office)
    office.tick()
    let_held_report_expire(office)
    with office.store.read_transaction() as uow:
        newest = uow.holds.list_held()[-1]
    with office.context.write_transaction() as uow:
        release_held_report(uow, newest.period, office.context.stamp)
    let_held_report_expire(office)
    office.until_final()
    assert office.premises.round == 2

    held_before = {step.detail for step in office.steps if step.action == "report held"}
    network = office.premises.network
    for node in network.nodes[3:]:
        network.join(node)
    for number in range(2 * SETTINGS.ttl_seconds // SETTINGS.period_seconds):
        # Each is first at times, so no node is kicked out.
        first = 3 + number % 3
        score_nodes_in_order(
            network, [*network.nodes[first:], *network.nodes[3:first]], 100 + number
        )
        office.pushed()
        office.until_final()
    assert {step.detail for step in office.steps if step.action == "report held"} == held_before


def test_report_released_before_a_long_stop_is_still_the_one_to_compare_with(
    sqlite_office: Office,
):
    office = sqlite_office
    pause_all_good_nodes(office)
    office.tick()
    with office.store.read_transaction() as uow:
        newest = uow.holds.list_held()[-1]
    with office.context.write_transaction() as uow:
        release_held_report(uow, newest.period, office.context.stamp)
    # The daemon is down for longer than a report may land, and finds these blocks final.
    office.premises.chain.later(2 * SETTINGS.ttl_seconds)
    network = office.premises.network
    for node in network.nodes[3:]:
        network.join(node)
    score_nodes_in_order(network, network.nodes[3:], len(network.nodes) - 3)
    for _ in range(2):
        office.period()
        office.mine(FINALITY + 1)

    actions = [step.action for step in office.until_final()]
    assert "report held" not in actions
    assert office.premises.round == 2


def test_report_after_held_report_is_published_once_state_recovers(sqlite_office: Office):
    """The hold of one report does not delay later reports."""
    office, network = sqlite_office, sqlite_office.premises.network
    pause_all_good_nodes(office)
    office.tick()
    assert held() > 0
    for node in network.nodes[:3]:
        network.by(node, network.does.resume())
    score_nodes_in_order(network, network.nodes[:3], 3)

    office.pushed()
    office.until_final()
    assert (office.premises.round, held()) == (2, 0)


def test_release_of_period_that_is_not_held_is_rejected(sqlite_office: Office):
    office = sqlite_office
    with (
        office.context.write_transaction() as uow,
        pytest.raises(InputError, match="held periods: none"),
    ):
        release_held_report(uow, 7, office.context.stamp)


def test_case_f52_all_nodes_that_fall_at_once_are_stated_by_one_round(sqlite_office: Office):
    office, network = sqlite_office, sqlite_office.premises.network
    for node in network.nodes[3:]:
        network.join(node)
    score_nodes_in_order(network, network.nodes[3:], len(network.nodes))
    # The first round states a period that ended before these nodes had their score.
    for _ in range(2):
        office.pushed()
    for node in network.nodes:
        network.by(node, network.does.pause())
    office.pushed()
    with office.store.read_transaction() as uow:
        landed = max(
            (stored.report for stored in uow.reports.list_latest(10) if stored.round == 3),
            key=lambda report: report.period,
        )
    assert landed.change.node_count == len(network.nodes)
