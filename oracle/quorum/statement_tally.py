"""Compares other reporters' statements with this reporter's own.

The comparison finds disagreement, equivocation and reports that can no longer get a quorum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from oracle.bindings.qos_roots import RootsStatus
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.report import Report
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import (
    find_unproven_expiry_reason,
    list_round_statements,
)
from oracle.quorum.wire_format import ReportMessage
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement
from oracle.store.report_repository import DISPUTED_PREFIX
from oracle.telemetry import quorum_metrics
from oracle.telemetry.logger import get_logger


@dataclass(frozen=True, slots=True)
class SignerTally:
    """The contract's signers, grouped by their statements about a round."""

    signers: tuple[Address, ...]
    quorum: int
    agreeing: frozenset[Address]
    conflicting: dict[Hash, frozenset[Address]]
    # Signers of any other statement about the round, even of a statement that the contract can no
    # longer accept.
    dissenting: frozenset[Address] = frozenset()

    @property
    def quorum_obstacle(self) -> str | None:
        """Return why the statement cannot get a quorum, or None if it still can."""
        for digest, signers in self.conflicting.items():
            if len(signers) >= self.quorum:
                return (
                    f"{DISPUTED_PREFIX}{_format_signers(signers)} signed {digest}, which is a "
                    "quorum"
                )
        responding_signers = self.agreeing.union(*self.conflicting.values())
        silent_count = len([signer for signer in self.signers if signer not in responding_signers])
        if len(self.agreeing) + silent_count >= self.quorum:
            return None
        conflicting_signers = frozenset[Address]().union(*self.conflicting.values())
        return (
            f"{DISPUTED_PREFIX}{_format_signers(conflicting_signers)} signed otherwise; no "
            f"quorum of {self.quorum} is left"
        )

    def describe_missing_signatures(self, round_number: int) -> str:
        """Describe how many signatures a round has, and which signers disagree or are missing."""
        missing_signers = frozenset(self.signers) - self.agreeing
        signers_by_label = {
            "no statement from": missing_signers - self.dissenting,
            "a different statement from": missing_signers & self.dissenting,
        }
        missing_text = "; ".join(
            f"{label} {_format_signers(labelled_signers)}"
            for label, labelled_signers in signers_by_label.items()
            if labelled_signers
        )
        return (
            f"round {round_number} has {len(self.agreeing)} of {self.quorum} signatures: "
            f"{missing_text}"
        )


def tally_signatures(
    context: QuorumContext, record: SignedStatement, contract_status: RootsStatus
) -> SignerTally:
    """Compare the stored statements with the record, and group the signers accordingly."""
    signers = contract_status.signers
    agreeing_signers: set[Address] = set()
    conflicting_signers_by_digest: dict[Hash, set[Address]] = {}
    dissenting_signers: set[Address] = set()
    with context.account_context.store.read_transaction() as uow:
        for statement in list_round_statements(uow, record.contract, record.round):
            if statement.expiry_reason is not None or statement.signer not in signers:
                continue
            if statement.digest == record.digest:
                agreeing_signers.add(statement.signer)
                continue
            dissenting_signers.add(statement.signer)
            if conflicts_with_own_report(context, uow, statement, contract_status):
                conflicting_signers_by_digest.setdefault(statement.digest, set()).add(
                    statement.signer
                )
    quorum_metrics.init_signer_metrics(signers)
    for signer in signers:
        quorum_metrics.SIGNATURES.labels(signer).set(signer in agreeing_signers)
    frozen_signers_by_digest = {
        digest: frozenset(conflicting_signers)
        for digest, conflicting_signers in conflicting_signers_by_digest.items()
    }
    return SignerTally(
        signers,
        contract_status.head.quorum,
        frozenset(agreeing_signers),
        frozen_signers_by_digest,
        frozenset(dissenting_signers),
    )


def conflicts_with_own_report(
    context: QuorumContext,
    uow: UnitOfWork,
    statement: SignedStatement,
    contract_status: RootsStatus,
) -> bool:
    """Return whether a statement that may be accepted matches none of this reporter's reports.

    A statement conflicts only if it equals none of this reporter's reports of its period. If this
    reporter did not build every report of that period, the statement cannot be compared, and the
    result is False.
    """
    if find_unproven_expiry_reason(uow, statement, contract_status) is not None:
        return False
    as_of_block = statement.as_of_block
    period = _compute_statement_period(context, uow, statement)
    own_reports = uow.reports.list_between(as_of_block, as_of_block)
    if not own_reports and period < uow.reports.get_first_complete_period():
        return False
    return all(
        not _is_statement_about_report(own_report.report, statement) for own_report in own_reports
    )


def differs_from_own_report(
    uow: UnitOfWork, statement: SignedStatement, contract_status: RootsStatus
) -> bool:
    """Return whether a statement, even an expired one, differs from this reporter's report.

    Reports as of the same block are compared. If the statement is about another round, or its
    block is on another fork, it cannot be compared, and the result is False.
    """
    as_of_block = statement.as_of_block
    for own_report in uow.reports.list_between(as_of_block, as_of_block):
        own_block_and_round = own_report.report.as_of.hash, own_report.report.head_round + 1
        # If the contract's configuration differs, the roots may differ for this reason alone.
        has_same_config = statement.config == contract_status.config
        if own_block_and_round == (statement.as_of_hash, statement.round) and has_same_config:
            return own_report.report.root != statement.root
    return False


def log_conflicts(
    context: QuorumContext,
    uow: UnitOfWork,
    statement: SignedStatement,
    message: ReportMessage,
    contract_status: RootsStatus,
) -> None:
    """Log how a statement conflicts with this reporter's report or its signer's other statements.

    `message` is the statement as it was received.
    """
    earlier_statements = [
        earlier_statement
        for earlier_statement in uow.peer_statements.list_for_round(
            statement.contract, statement.round
        )
        if earlier_statement.signer == statement.signer
        and earlier_statement.digest != statement.digest
    ]
    is_alive = find_unproven_expiry_reason(uow, statement, contract_status) is None
    if (
        context.account_context.sender_account.has_signer
        and statement.signer == context.account_context.sender_account.signer.address
    ):
        quorum_metrics.EQUIVOCATION.labels(statement.signer).inc()
        _log_and_journal_conflict(context, uow, "unknown_signature_from_peer", statement, message)
    elif is_alive and any(
        find_unproven_expiry_reason(uow, other_statement, contract_status) is None
        for other_statement in earlier_statements
    ):
        quorum_metrics.EQUIVOCATION.labels(statement.signer).inc()
        earlier_log_fields = {"ours": earlier_statements[0].root}
        _log_and_journal_conflict(
            context, uow, "signer_equivocated", statement, message, earlier_log_fields
        )
    if conflicts_with_own_report(
        context, uow, statement, contract_status
    ) or differs_from_own_report(uow, statement, contract_status):
        quorum_metrics.DISAGREEMENT.labels(statement.signer).inc()
        _log_and_journal_conflict(
            context,
            uow,
            "report_root_mismatch",
            statement,
            message,
            _load_own_report_log_fields(uow, statement),
        )


def _is_statement_about_report(report: Report, statement: SignedStatement) -> bool:
    """Return whether a statement is about this report.

    Equal roots are sufficient, because a root commits to the round and the as-of block.
    """
    return (report.as_of.hash, report.prev, report.deadline, report.root) == (
        statement.as_of_hash,
        statement.prev,
        statement.deadline,
        statement.root,
    )


def _compute_statement_period(
    context: QuorumContext, uow: UnitOfWork, statement: SignedStatement
) -> int:
    """Compute a statement's period, assuming that all reporters have the same settings."""
    block = uow.blocks.find_canonical(statement.as_of_block)
    as_of_time = (
        statement.deadline - context.report_settings.ttl_seconds if block is None else block.time
    )
    return as_of_time // context.report_settings.period_seconds


def _load_own_report_log_fields(
    uow: UnitOfWork, statement: SignedStatement
) -> dict[str, str | int]:
    """Return log fields about this reporter's own report at the same block, if any."""
    own_reports = uow.reports.list_between(statement.as_of_block, statement.as_of_block)
    if not own_reports:
        return {}
    return {"ours": own_reports[0].report.root, "our_period": own_reports[0].report.period}


def _log_and_journal_conflict(
    context: QuorumContext,
    uow: UnitOfWork,
    event_name: str,
    record: SignedStatement,
    message: ReportMessage,
    own_log_fields: Mapping[str, str | int] = MappingProxyType({}),
) -> None:
    own_root = own_log_fields.get("ours", "any own root")
    conflict_text = (
        f"{record.signer} signed root {record.root} for round {record.round}, not {own_root}"
    )
    uow.outbox.journal.write(event_name, context.account_context.stamp, conflict_text)
    get_logger().error(
        event_name,
        signer=record.signer,
        round=record.round,
        theirs=record.root,
        digest=record.digest,
        as_of=record.as_of_block,
        as_of_hash=record.as_of_hash,
        deadline=record.deadline,
        period=message.period,
        **{"ours": "", **own_log_fields},
    )


def _format_signers(signers: frozenset[Address]) -> str:
    return ", ".join(sorted(signers))
