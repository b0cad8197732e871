"""Three reporters with a quorum of two agree on every byte if one lies, is down or restarts."""

from dataclasses import replace

import msgspec
import pytest
from sqlalchemy import delete

from oracle.errors import InputError
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.quorum.collector import fetch_peer_statements
from oracle.quorum.statements import (
    build_report_statement,
    build_statement_record,
    publish_statement,
)
from oracle.quorum.wire_format import Board
from oracle.reporting.report_planner import plan_push
from oracle.reporting.sanity_gate import release_held_report
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import ReportStatement
from oracle.store.outbox.records import ACCUSE, Stamp
from oracle.store.tables.round_tables import report
from oracle.telemetry import quorum_metrics
from oracle.telemetry.metrics import REGISTRY
from tests.integration.evm.test_kickout_on_chain import fill_bad_pool, get_stated_due_since
from tests.support.harness import FINALITY, SETTINGS
from tests.support.sending.reporters import Reporter, ReporterGroup
from tests.support.sending.rounds import flip_lowest_bit

HASH = "0x" + 64 * "5"


def read_disagreement_count(reporter: Reporter) -> float:
    name = "oracle_quorum_disagreements_total"
    labels = {"signer": str(reporter.signer)}
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_reporters_with_different_histories_sign_the_same_reports(
    reporter_trio: ReporterGroup,
):
    for number in range(4):
        reporter_trio.round(restarting=number % 2 == 1)
    reporter_trio.period()
    reporter_trio.tick()

    first, *other_reports = [reporter.reports() for reporter in reporter_trio.reporters]
    assert len(first) >= 5
    assert other_reports == [first, first]
    signed, *others_signed = [reporter.signed() for reporter in reporter_trio.reporters]
    assert set(signed) >= {1, 2, 3, 4}
    assert others_signed == [signed, signed]


def test_quorum_counters_are_initialised_to_zero_per_signer(reporter_trio: ReporterGroup):
    """A counter that appears with 1 shows no increase; admins may replace signers at any time."""
    for counter in (quorum_metrics.EQUIVOCATION, quorum_metrics.DISAGREEMENT):
        counter.clear()
    reporter_trio.round()
    for reporter in reporter_trio.reporters:
        labels = {"signer": str(reporter.signer)}
        for name in ("oracle_quorum_equivocations_total", "oracle_quorum_disagreements_total"):
            assert REGISTRY.get_sample_value(name, labels) == 0


def test_rounds_continue_while_one_reporter_is_down(reporter_trio: ReporterGroup):
    reporter_trio.round()
    reporter_trio.others[1].is_down = True
    for _ in range(2):
        reporter_trio.round()

    assert reporter_trio.testbed.round == 3


def test_returning_reporter_signs_the_same_digests_as_the_others(reporter_trio: ReporterGroup):
    reporter_trio.round()
    late = reporter_trio.others[1]
    late.is_down = True
    for _ in range(3):
        reporter_trio.round()
    late.is_down = False
    for _ in range(2):
        reporter_trio.round()

    signed = reporter_trio.first.signed()
    assert {number: signed[number] for number in late.signed()} == late.signed()
    assert {5, 6} <= set(late.signed())
    assert late.reports() == reporter_trio.first.reports()


def test_case_f66_disagreeing_signer_is_reported(
    reporter_trio: ReporterGroup,
):
    liar = reporter_trio.others[1]
    before = read_disagreement_count(liar)
    reporter_trio.period()
    liar.lie()
    reporter_trio.tick()
    reporter_trio.first.harness.mine()
    reporter_trio.tick()

    assert reporter_trio.testbed.round == 1
    # In the databases of the transmitter and of the signer.
    assert read_disagreement_count(liar) == before + 2
    with reporter_trio.first.harness.store.read_transaction() as uow:
        statements = uow.peer_statements.list_for_round(
            reporter_trio.first.harness.context.sender_account.domain.contract, 1
        )
    digests = {statement.signer: statement.digest for statement in statements}
    assert (
        digests[liar.signer]
        != digests[reporter_trio.others[0].signer]
        == reporter_trio.first.signed()[1]
    )


def test_late_disagreement_is_reported_by_every_other_reporter(
    reporter_trio: ReporterGroup,
):
    signing, liar = reporter_trio.others
    liar.is_down = True
    before = read_disagreement_count(liar)
    reporter_trio.round()
    # Its window is older than the round: it ends at the end of the period.
    liar.is_down = False
    statement = build_contradicting_statement(reporter_trio.first)
    signature = liar.harness.context.sender_account.signer.sign_statement(
        statement, liar.harness.context.sender_account.domain
    )
    record = build_statement_record(liar.harness.quorum, statement)
    publish_statement(liar.harness.quorum, replace(record, signature=signature))
    liar.is_down = True
    for reporter in (reporter_trio.first, signing):
        # The two remaining checks were made during the round.
        assert reporter.harness.quorum.peers is not None
        reporter.harness.quorum.peers._refetches_by_round.clear()
        reporter.tick()

    assert read_disagreement_count(liar) == before + 2


def build_contradicting_statement(reporter: Reporter) -> ReportStatement:
    """Return a reporter's statement for the first round with another root."""
    with reporter.harness.store.read_transaction() as uow:
        report = next(
            stored_report.report
            for stored_report in uow.reports.list_newest(1000)
            if stored_report.round == 1 and stored_report.digest
        )
    changed_report = replace(report, root=flip_lowest_bit(report.root))
    return replace(
        build_report_statement(changed_report, reporter.harness.contract.fetch_status()), round=1
    )


def test_reporter_stops_signing_if_its_key_is_used_elsewhere(
    reporter_trio: ReporterGroup,
):
    first = reporter_trio.first
    other_reporter = reporter_trio.others[0]
    other_reporter.is_down = reporter_trio.others[1].is_down = True
    before = read_equivocation_count(first)
    reporter_trio.period()
    first.tick()
    signed = first.signed()
    context = first.harness.context
    statement = build_contradicting_statement(first)
    record = build_statement_record(first.harness.quorum, statement)
    signature = context.sender_account.signer.sign_statement(
        statement, context.sender_account.domain
    )
    # Another process with this key publishes the statement.
    publish_statement(other_reporter.harness.quorum, replace(record, signature=signature))
    first.tick()

    assert read_equivocation_count(first) == before + 1
    assert first.signed() == signed
    first.tick()
    assert read_equivocation_count(first) == before + 1


def test_reporter_without_a_report_of_the_period_reports_no_disagreement(
    reporter_trio: ReporterGroup,
):
    late = reporter_trio.others[1]
    late.is_down = True
    before = [read_disagreement_count(reporter) for reporter in reporter_trio.reporters]
    reporter_trio.period()
    reporter_trio.tick()
    # For a reporter that starts now this is history, so its reports are not cut.
    late.harness.index()
    with late.harness.store.transaction() as uow:
        uow.reports._connection.execute(delete(report))
        uow.reports.raise_first_complete_period(
            reporter_trio.testbed.chain.time // SETTINGS.period_seconds + 1
        )
    about = build_statement_record(
        late.harness.quorum, build_contradicting_statement(reporter_trio.first)
    )
    assert fetch_peer_statements(late.harness.quorum, about, late.harness.contract.fetch_status())

    assert [read_disagreement_count(reporter) for reporter in reporter_trio.reporters] == before


def read_equivocation_count(reporter: Reporter) -> float:
    name = "oracle_quorum_equivocations_total"
    labels = {"signer": str(reporter.signer)}
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_equivocation_by_a_signer_is_reported(reporter_trio: ReporterGroup):
    first = reporter_trio.first.harness
    twice = reporter_trio.others[1]
    reporter_trio.others[0].is_down = True
    before = read_equivocation_count(twice)
    reporter_trio.period()
    twice.tick()
    (first_message,) = twice.board.get_statements(1)
    # Its key also signs another statement, in a process with an empty database.
    context = twice.harness.context
    with twice.harness.store.read_transaction() as uow:
        report = uow.reports.list_due()[0].report
    changed_report = replace(report, root=flip_lowest_bit(report.root))
    statement = build_report_statement(changed_report, twice.harness.contract.fetch_status())
    record = build_statement_record(twice.harness.quorum, statement)
    signature = context.sender_account.signer.sign_statement(
        statement, context.sender_account.domain
    )
    publish_statement(twice.harness.quorum, replace(record, signature=signature))

    first.index()
    first.repeat(plan_push)
    assert len(twice.board.get_statements(1)) == 2
    assert read_equivocation_count(twice) == before + 1
    # The first statement of the equivocating reporter counts, so the round continues.
    assert [intent.request.digest for intent in first.intents()] == [first_message.digest]


def test_forged_and_unknown_statements_are_ignored(reporter_trio: ReporterGroup):
    first = reporter_trio.first.harness
    liar = reporter_trio.others[1]
    reporter_trio.others[0].is_down = True
    reporter_trio.period()
    liar.tick()
    (message,) = liar.board.get_statements(1)
    Board.__init__(liar.board)
    # Another's name under its signature; other words under its signature.
    liar.board.publish(msgspec.structs.replace(message, signer=reporter_trio.others[0].signer))
    liar.board.publish(msgspec.structs.replace(message, digest=HASH))
    stranger = KeySigner(b"\x07" * 32)
    with liar.harness.store.read_transaction() as uow:
        report = uow.reports.list_due()[0].report
    statement = build_report_statement(report, first.contract.fetch_status())
    signature = stranger.sign_statement(statement, first.context.sender_account.domain)
    liar.board.publish(
        msgspec.structs.replace(
            message,
            signer=stranger.address,
            signature="0x" + signature.hex(),
            digest=message.digest,
        )
    )

    first.index()
    assert [step.action for step in first.repeat(plan_push)] == ["report signed"]
    with first.store.read_transaction() as uow:
        assert uow.peer_statements.list_for_round(reporter_trio.testbed.address, 1) == []


def test_missing_quorum_stops_sending_and_sets_the_metric(reporter_trio: ReporterGroup):
    liar = reporter_trio.others[1]
    reporter_trio.others[0].is_down = True
    reporter_trio.period()
    liar.lie()
    reporter_trio.tick()
    reporter_trio.tick()
    assert reporter_trio.testbed.round == 0
    assert reporter_trio.first.harness.intents() == []

    # The third may still sign: nothing is lost yet.
    with reporter_trio.first.harness.store.read_transaction() as uow:
        assert uow.holds.list_held() == []
    reporter_trio.others[0].is_down = False
    reporter_trio.others[0].lie()
    reporter_trio.tick()

    with reporter_trio.first.harness.store.read_transaction() as uow:
        (gate,) = uow.holds.list_held()
    assert gate.reason.startswith("disagreement")
    assert liar.signer in gate.reason
    assert reporter_trio.first.harness.intents() == []
    # The report is plausible, but it lacks a quorum.
    assert read_quorum_gauges() == (0, 1)

    # The next accepted round ends it.
    reporter_trio.chain.later(2 * SETTINGS.ttl_seconds)
    reporter_trio.chain.mine()
    # Nothing is signed for the round before the deadline of the first statements is final.
    reporter_trio.period()
    reporter_trio.tick(restarting=True)
    reporter_trio.chain.mine(FINALITY)
    reporter_trio.round(restarting=True)
    assert read_quorum_gauges() == (0, 1)
    reporter_trio.first.harness.until_final()
    reporter_trio.first.tick()
    assert read_quorum_gauges() == (0, 0)


@pytest.mark.parametrize("is_refolded", [False, True], ids=["restarted", "refolded"])
def test_false_report_of_an_earlier_process_is_never_signed(
    reporter_trio: ReporterGroup, *, is_refolded: bool
):
    faulty = reporter_trio.others[1]
    reporter_trio.period()
    # The process computes false leaves, and does not sign them before its restart or a repair.
    faulty.lie()
    if is_refolded:
        rebuild_state(faulty.harness.store, faulty.harness.folder, RebuildOptions())
    reporter_trio.tick(restarting=not is_refolded)
    assert faulty.reports().keys() == reporter_trio.first.reports().keys()
    assert faulty.reports() != reporter_trio.first.reports()
    reporter_trio.first.harness.mine()
    reporter_trio.tick()

    assert reporter_trio.testbed.round == 1
    assert faulty.signed() == {}
    with faulty.harness.store.transaction() as uow:
        holds = uow.holds.list_held()
        for hold in holds:
            assert "leaves differ from the nodes" in hold.reason
            with pytest.raises(InputError, match="cannot be released"):
                release_held_report(uow, hold.period, Stamp(0, faulty.harness.epoch))
    assert {hold.period for hold in holds} == set(faulty.reports())
    faulty.tick(restarting=True)
    assert faulty.signed() == {}

    reporter_trio.round()
    assert faulty.signed()[2] == reporter_trio.first.signed()[2]


def test_reporter_with_a_false_report_recovers_after_the_next_round(
    reporter_trio: ReporterGroup,
):
    faulty = reporter_trio.others[1]
    reporter_trio.period()
    faulty.lie()
    reporter_trio.tick()
    reporter_trio.first.harness.mine()
    reporter_trio.tick()
    assert faulty.signed()[1] != reporter_trio.first.signed()[1]

    # The leaves of the accepted round replace those that were stored as of the same block.
    reporter_trio.round(restarting=True)
    assert faulty.signed()[2] == reporter_trio.first.signed()[2]


def read_quorum_gauges() -> tuple[float, float]:
    """Return the number of implausible reports, and whether a report is held for a difference."""
    return quorum_metrics.HELD._value.get(), quorum_metrics.DISPUTED._value.get()


def test_node_is_accused_once_if_two_reporters_sign_its_kickout(reporter_trio: ReporterGroup):
    fill_bad_pool(reporter_trio.first.harness)
    while not get_stated_due_since(reporter_trio.first.harness):
        reporter_trio.round()
    for _ in range(3):
        reporter_trio.first.harness.mine(3)
        reporter_trio.tick()

    (accusation,) = reporter_trio.first.harness.intents(ACCUSE)
    assert accusation.state in {"mined", "final"}
    network = reporter_trio.testbed.network
    assert reporter_trio.testbed.oracle.functions.isKickPending(network.nodes[2]).call()
