"""A signer that signs another statement at each request does not fill the database."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.domain.ids import Hash
from oracle.quorum.collector import fetch_peer_statements
from oracle.quorum.statements import (
    build_report_statement,
    build_statement_record,
    publish_statement,
)
from oracle.quorum.wire_format import Board
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import SignedStatement
from tests.support.harness import SETTINGS, OracleTestbed
from tests.support.sending.reporters import Reporter, ReporterGroup, run_reporter_group
from tests.support.txmgr.stores import NewStore

MAX_STATEMENTS = 8


@pytest.fixture
def reporter_trio(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[ReporterGroup]:
    """Yield three reporters, the first of which transmits."""
    with ExitStack() as until_the_end:
        stores = [until_the_end.enter_context(new_sqlite_store()) for _ in range(3)]
        yield until_the_end.enter_context(run_reporter_group(testbed, stores, tmp_path))


def test_number_of_stored_statements_per_signer_is_limited(
    reporter_trio: ReporterGroup,
):
    (second, liar), first = reporter_trio.others, reporter_trio.first.harness
    reporter_trio.period()
    for reporter in (second, liar):
        reporter.harness.index()
    first.index()
    for turn in range(5):
        _publish_statements(liar, range(turn * MAX_STATEMENTS, (turn + 1) * MAX_STATEMENTS))
        first.repeat(plan_push)
    assert len(_list_stored_statements(reporter_trio.first, liar)) == MAX_STATEMENTS

    # Another reporter's statements are kept as before, and a round is pushed.
    second.tick()
    first.tick()
    first.mine()
    assert reporter_trio.testbed.round == 1


def test_agreeing_statement_of_a_flooding_signer_is_accepted(
    reporter_trio: ReporterGroup,
):
    liar = reporter_trio.others[1]
    first = reporter_trio.first.harness
    reporter_trio.period()
    liar.harness.index()
    first.index()
    _publish_statements(liar, range(MAX_STATEMENTS))
    first.repeat(plan_push)
    own_statement = _get_own_statement(reporter_trio.first)
    # Time passes by our own clock alone.
    now = reporter_trio.chain.time
    first.context = replace(first.context, clock=lambda: now + SETTINGS.ttl_seconds // 2)
    _publish_statements(liar, range(MAX_STATEMENTS, MAX_STATEMENTS + 1))
    assert fetch_peer_statements(first.quorum, own_statement, first.contract.fetch_status()) == 0

    liar.tick()
    assert fetch_peer_statements(first.quorum, own_statement, first.contract.fetch_status()) == 1
    assert len(_list_stored_statements(reporter_trio.first, liar)) == MAX_STATEMENTS + 1
    first.context = replace(first.context, clock=lambda: now + SETTINGS.ttl_seconds + 1)
    assert fetch_peer_statements(first.quorum, own_statement, first.contract.fetch_status()) == 1
    assert len(_list_stored_statements(reporter_trio.first, liar)) == MAX_STATEMENTS + 2


def _get_own_statement(reporter: Reporter) -> SignedStatement:
    with reporter.harness.store.read_transaction() as uow:
        (statement,) = uow.statements.list_for_round(reporter.harness.testbed.address, 1)
    return statement


def _publish_statements(liar: Reporter, numbers: range) -> None:
    """Publish a new statement for each number, and no earlier one."""
    Board.__init__(liar.board)
    context, quorum = liar.harness.context, liar.harness.quorum
    with liar.harness.store.read_transaction() as uow:
        report = uow.reports.list_due()[0].report
    for number in numbers:
        changed_report = replace(report, root=Hash(f"0x{number:064x}"))
        statement = build_report_statement(changed_report, liar.harness.contract.fetch_status())
        signature = context.sender_account.signer.sign_statement(
            statement, context.sender_account.domain
        )
        publish_statement(
            quorum, replace(build_statement_record(quorum, statement), signature=signature)
        )


def _list_stored_statements(reporter: Reporter, whose: Reporter) -> list[SignedStatement]:
    with reporter.harness.store.read_transaction() as uow:
        statements = uow.peer_statements.list_for_round(reporter.harness.testbed.address, 1)
    return [statement for statement in statements if statement.signer == whose.signer]
