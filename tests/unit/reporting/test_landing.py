"""A report has landed if the round that it was signed for has its root, and not otherwise."""

from types import SimpleNamespace
from typing import Any

import pytest

from oracle.bindings.contract_errors import decode_refusal
from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.report import ReportSettings
from oracle.quorum.quorum_context import QuorumContext
from oracle.reporting.landing import (
    is_report_accepted,
    mark_landed_reports,
    mark_missed_reports,
)
from oracle.reporting.reporting_context import ReportingContext
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.report_repository import ReportState, StoredReportHeader
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.context import AccountContext
from tests.support.rounds import build_accepted_round, make_address
from tests.unit.store.samples import block, make_hash
from tests.unit.store.test_reports import report

SIGNED = report(1)
ROUND = SIGNED.head_round + 1
CONFIRMATIONS = 2
FINAL = Heads(block(ROUND + CONFIRMATIONS), None, block(ROUND))
NOT_FINAL = Heads(block(ROUND + CONFIRMATIONS), None, block(ROUND - 1))


@pytest.fixture
def context(store: Store) -> ReportingContext:
    """Store a signed report; the sender needs no chain."""
    with store.transaction() as uow:
        epoch = uow.lease.acquire("test", 3600)
        assert epoch is not None
        uow.reports.add(SIGNED)
        uow.reports.set_signed_round(SIGNED.period, ROUND, make_hash(6))
    sender_account: Any = SimpleNamespace(
        domain=Domain(1, make_address(0xFFFF)), sender=make_address(0xAA), has_payer=True
    )
    account_context = AccountContext(
        store=store,
        sender_account=sender_account,
        registry=CallRegistry(decode_refusal),
        epoch=epoch,
        clock=lambda: 0.0,
        confirmations=CONFIRMATIONS,
        finality_depth=CONFIRMATIONS,
    )
    quorum = QuorumContext(account_context, ReportSettings())
    return ReportingContext(quorum, make_hash(7), KickoutPolicy(CRYNUX))


def accept(context: ReportingContext, root: Hash) -> list[StoredReportHeader]:
    """Store the round with this root, and return the reports."""
    with context.account_context.write_transaction() as uow:
        uow.rounds.save_changes(ContractChanges(accepted=[build_accepted_round(ROUND, root=root)]))
        return uow.reports.list_headers_since(0)


def load_outcome(context: ReportingContext) -> tuple[ReportState, str | None]:
    with context.account_context.store.read_transaction() as uow:
        stored = uow.reports.get(SIGNED.period)
    assert stored is not None
    return stored.state, stored.reason


def test_report_lands_when_its_round_is_final(context):
    cuts = accept(context, SIGNED.root)
    with context.account_context.store.read_transaction() as uow:
        assert is_report_accepted(uow, cuts[0])
    assert mark_missed_reports(context, cuts) is None
    assert mark_landed_reports(context, NOT_FINAL, cuts) is None
    assert load_outcome(context) == (ReportState.DUE, None)

    assert mark_landed_reports(context, FINAL, cuts) is not None
    assert load_outcome(context) == (ReportState.LANDED, None)


def test_report_is_missed_when_another_root_is_final(context):
    cuts = accept(context, make_hash(99))
    with context.account_context.store.read_transaction() as uow:
        assert not is_report_accepted(uow, cuts[0])
    assert mark_landed_reports(context, FINAL, cuts) is None
    assert mark_missed_reports(context, cuts) is None

    with context.account_context.write_transaction() as uow:
        uow.blocks.save([block(ROUND)])
        uow.cursor.move_to(block(ROUND), block(ROUND), 0)
    assert mark_missed_reports(context, cuts) is not None
    assert load_outcome(context) == (
        ReportState.MISSED,
        f"another report became round {ROUND}",
    )
