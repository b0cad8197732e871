"""A slow signer: events during its work are seen before its signature is stored."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import update

from oracle.domain.ids import Address
from oracle.errors import FatalError
from oracle.quorum.statements import build_statement_record
from oracle.quorum.wire_format import Board
from oracle.reporting.report_planner import plan_push
from oracle.signing.signer import SignedBytes, Signer, TransactionRequest
from oracle.signing.typed_data import Domain, ReportStatement, SignableStatement
from oracle.store.outbox.records import SignedStatement
from oracle.store.tables.outbox_tables import lease
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.harness import Harness
from tests.support.sending.rounds import flip_lowest_bit


@dataclass
class Slow:
    """A `Signer` that runs `meanwhile` after signing and before returning."""

    signer: Signer
    meanwhile: Callable[[ReportStatement], None]

    @property
    def address(self) -> Address:
        return self.signer.address

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        assert isinstance(statement, ReportStatement)
        signature = self.signer.sign_statement(statement, domain)
        self.meanwhile(statement)
        return signature

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        return self.signer.sign_transaction(transaction)


def delay_signer(harness: Harness, meanwhile: Callable[[ReportStatement], None]) -> Board:
    """Let the harness's key respond late; return the board that others read."""
    keys = harness.testbed.keys
    board = Board()
    assert keys.signer is not None
    slow = ReporterKeys(Slow(keys.signer, meanwhile), keys.transmitter)
    harness.restart(testbed=replace(harness.testbed, keys=slow), equipment={"board": board})
    harness.period()
    harness.index()
    return board


def build_contradicting_statement(harness: Harness, statement: ReportStatement) -> SignedStatement:
    """Return another statement of the same key for the same round, with another root."""
    changed_statement = replace(statement, root=flip_lowest_bit(statement.root))
    signer = harness.testbed.keys.signer
    assert isinstance(signer, Slow)
    signature = signer.signer.sign_statement(
        changed_statement, harness.context.sender_account.domain
    )
    return replace(build_statement_record(harness.quorum, changed_statement), signature=signature)


def list_signed_statements(harness: Harness) -> list[SignedStatement]:
    with harness.store.read_transaction() as uow:
        return uow.statements.list_for_round(harness.testbed.address, 1)


def test_statement_stored_by_another_process_during_signing_wins(
    harness: Harness,
):
    stored_statements: list[SignedStatement] = []

    def meanwhile(statement: ReportStatement) -> None:
        stored_statements.append(build_contradicting_statement(harness, statement))
        with harness.store.transaction() as uow:
            uow.lease._connection.execute(update(lease).values(until_ms=0))
            assert uow.lease.acquire("another", 3600) is not None
            uow.statements.add(stored_statements[0], harness.context.stamp)

    board = delay_signer(harness, meanwhile)
    with pytest.raises(FatalError, match="another process has taken over the lease"):
        harness.repeat(plan_push)
    assert [signed_statement.digest for signed_statement in list_signed_statements(harness)] == [
        stored_statements[0].digest
    ]
    assert board.get_statements(1) == []
    assert harness.intents() == []


def test_live_statement_stored_during_signing_is_kept(harness: Harness):
    stored_statements: list[SignedStatement] = []

    def meanwhile(statement: ReportStatement) -> None:
        stored_statements.append(build_contradicting_statement(harness, statement))
        with harness.context.write_transaction() as uow:
            uow.statements.add(stored_statements[0], harness.context.stamp)

    board = delay_signer(harness, meanwhile)
    assert harness.repeat(plan_push) == []
    assert [signed_statement.digest for signed_statement in list_signed_statements(harness)] == [
        stored_statements[0].digest
    ]
    assert board.get_statements(1) == []
    assert harness.intents() == []


def test_embargo_set_during_signing_discards_signature(harness: Harness):
    def meanwhile(statement: ReportStatement) -> None:
        domain = harness.context.sender_account.domain
        signer = harness.context.sender_account.signer.address
        with harness.context.write_transaction() as uow:
            uow.statements.extend_embargo(
                domain.chain_id,
                domain.contract,
                signer,
                statement.deadline + 3600,
                harness.context.stamp,
            )

    board = delay_signer(harness, meanwhile)
    assert harness.repeat(plan_push) == []
    assert list_signed_statements(harness) == []
    assert board.get_statements(1) == []
