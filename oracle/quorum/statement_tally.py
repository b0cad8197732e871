"""Compares the statements of other reporters with our own.

The comparison finds disagreement, equivocation and reports that can no longer get a quorum.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import structlog

from oracle.bindings.qos_oracle import ContractStatus, get_signers
from oracle.domain.ids import Address, Hash
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import (
    REPORT,
    build_report_statement,
    find_expiry_reason,
    list_round_statements,
)
from oracle.quorum.wire_format import ReportMessage, StatementMessage
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement
from oracle.store.report_repository import DISPUTED_PREFIX, StoredReport
from oracle.telemetry import quorum_metrics


@dataclass(frozen=True, slots=True)
class SignerTally:
    """The statements of the contract's signers about one round that can still land."""

    signers: tuple[Address, ...]
    quorum: int
    agreeing: frozenset[Address]
    conflicting: dict[Hash, frozenset[Address]]
    # The signers of any other statement about the round, even one that can no longer land.
    dissenting: frozenset[Address] = frozenset()

    @property
    def quorum_obstacle(self) -> str | None:
        """Return why our statement cannot get a quorum, or None if it has or may get one."""
        for digest, signers in self.conflicting.items():
            if len(signers) >= self.quorum:
                return (
                    f"{DISPUTED_PREFIX}{_format_signers(signers)} signed {digest}, which is a "
                    "quorum"
                )
        heard_signers = self.agreeing.union(*self.conflicting.values())
        silent_count = len([signer for signer in self.signers if signer not in heard_signers])
        if len(self.agreeing) + silent_count >= self.quorum:
            return None
        conflicting_signers = frozenset[Address]().union(*self.conflicting.values())
        return (
            f"{DISPUTED_PREFIX}{_format_signers(conflicting_signers)} signed otherwise; no "
            f"quorum of {self.quorum} is left"
        )

    def describe_missing(self, round_number: int) -> str:
        """Return the signature count of a round, and the signers that disagree or are missing."""
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
    context: QuorumContext, record: SignedStatement, contract_status: ContractStatus
) -> SignerTally:
    """Return which signers agree with the record, by the stored statements about its round.

    Raises:
        TransientError: no endpoint returns the signers.
    """
    signers = get_signers(
        context.account_context.sender_account.pool_view, record.contract, contract_status.block
    )
    agreeing: set[Address] = set()
    conflicting: dict[Hash, set[Address]] = {}
    dissenting: set[Address] = set()
    with context.account_context.store.read_transaction() as uow:
        for statement in list_round_statements(uow, *record.round_key):
            if statement.expiry_reason is not None or statement.signer not in signers:
                continue
            if statement.digest == record.digest:
                agreeing.add(statement.signer)
                continue
            dissenting.add(statement.signer)
            if conflicts_with_own_report(context, uow, statement, contract_status):
                conflicting.setdefault(statement.digest, set()).add(statement.signer)
    quorum_metrics.init_signer_metrics(signers)
    for signer in signers:
        quorum_metrics.SIGNATURES.labels(signer).set(signer in agreeing)
    frozen_conflicting = {
        digest: frozenset(conflicting_signers)
        for digest, conflicting_signers in conflicting.items()
    }
    return SignerTally(
        signers,
        contract_status.head.quorum,
        frozenset(agreeing),
        frozen_conflicting,
        frozenset(dissenting),
    )


def conflicts_with_own_report(
    context: QuorumContext,
    uow: UnitOfWork,
    statement: SignedStatement,
    contract_status: ContractStatus,
) -> bool:
    """Return whether a report's statement may still land but matches no report that we cut.

    A statement that equals any of our reports is no conflict. A statement from a period in which
    we did not cut every report cannot be compared.
    """
    if statement.kind != REPORT or find_expiry_reason(uow, statement, contract_status) is not None:
        return False
    as_of, period = statement.as_of_block or 0, _compute_period(context, uow, statement)
    own_reports = uow.reports.list_between(as_of, as_of)
    if not own_reports and period < uow.reports.get_first_complete_period():
        return False
    return all(
        _compute_digest(context, own_report, contract_status) != statement.digest
        for own_report in own_reports
    )


def differs_from_own_report(
    context: QuorumContext,
    uow: UnitOfWork,
    statement: SignedStatement,
    contract_status: ContractStatus,
) -> bool:
    """Return whether a statement, even an expired one, differs from our report of the same block.

    A statement that builds on another report, or whose block is on another fork, cannot be
    compared.
    """
    as_of = statement.as_of_block or 0
    for own_report in uow.reports.list_between(as_of, as_of) if statement.kind == REPORT else ():
        own_place = (
            own_report.report.as_of.hash,
            own_report.report.prev,
            own_report.report.head_round + 1,
        )
        digest = _compute_digest(context, own_report, contract_status)
        # If the rules have changed since, our own digest has changed as well.
        is_same_rules = own_report.digest in {None, digest}
        if (
            own_place == (statement.as_of_hash, statement.prev_digest, statement.round)
            and is_same_rules
        ):
            return digest != statement.digest
    return False


def log_conflicts(
    context: QuorumContext,
    uow: UnitOfWork,
    statement: SignedStatement,
    message: StatementMessage,
    contract_status: ContractStatus,
) -> None:
    """Log a statement that conflicts with our report or with its signer's earlier statements.

    `message` is the statement as it was received.
    """
    earlier_statements = [
        earlier_statement
        for earlier_statement in uow.peer_statements.list_for_round(*statement.round_key)
        if earlier_statement.signer == statement.signer
        and earlier_statement.digest != statement.digest
    ]
    is_alive = find_expiry_reason(uow, statement, contract_status) is None
    if (
        context.account_context.sender_account.has_signer
        and statement.signer == context.account_context.sender_account.signer.address
    ):
        quorum_metrics.EQUIVOCATION.labels(statement.signer).inc()
        _record_conflict(context, uow, "unknown_signature_from_peer", statement, message)
    elif is_alive and any(
        find_expiry_reason(uow, other_statement, contract_status) is None
        for other_statement in earlier_statements
    ):
        quorum_metrics.EQUIVOCATION.labels(statement.signer).inc()
        earlier_values = {"ours": earlier_statements[0].digest}
        _record_conflict(context, uow, "signer_equivocated", statement, message, earlier_values)
    if conflicts_with_own_report(
        context, uow, statement, contract_status
    ) or differs_from_own_report(context, uow, statement, contract_status):
        quorum_metrics.DISAGREEMENT.labels(statement.signer).inc()
        _record_conflict(
            context,
            uow,
            "report_digest_mismatch",
            statement,
            message,
            _load_own_values(context, uow, statement, contract_status),
        )


def _compute_digest(
    context: QuorumContext, stored_report: StoredReport, contract_status: ContractStatus
) -> Hash:
    statement = build_report_statement(stored_report.report, contract_status)
    # The report's own round is used, because later rounds may have followed.
    statement = replace(statement, round=stored_report.report.head_round + 1)
    return statement.compute_digest(context.account_context.sender_account.domain)


def _compute_period(context: QuorumContext, uow: UnitOfWork, statement: SignedStatement) -> int:
    """Return the period of a statement, assuming that the other reporter has our settings."""
    block = uow.blocks.get_canonical(statement.as_of_block or 0)
    time = statement.expires_at - context.settings.ttl_seconds if block is None else block.time
    return time // context.settings.period_seconds


def _load_own_values(
    context: QuorumContext,
    uow: UnitOfWork,
    statement: SignedStatement,
    contract_status: ContractStatus,
) -> dict[str, str | int]:
    """Return values of our report of the same block, or an empty dict if there is no report."""
    as_of = statement.as_of_block or 0
    own_reports = uow.reports.list_between(as_of, as_of)
    if not own_reports:
        return {}
    return {
        "ours": _compute_digest(context, own_reports[0], contract_status),
        "our_period": own_reports[0].report.period,
        "our_data_hash": build_report_statement(own_reports[0].report, contract_status).data_hash,
    }


def _record_conflict(
    context: QuorumContext,
    uow: UnitOfWork,
    event: str,
    record: SignedStatement,
    message: StatementMessage,
    own_values: Mapping[str, str | int] = MappingProxyType({}),
) -> None:
    own_digest = own_values.get("ours", "anything of ours")
    detail = (
        f"{record.signer} signed {record.digest} for {record.kind} {record.round}, not "
        f"{own_digest}"
    )
    uow.outbox.journal.write(event, context.account_context.stamp, detail)
    peer_values = (
        {"period": message.period, "data_hash": message.data_hash}
        if isinstance(message, ReportMessage)
        else {}
    )
    structlog.get_logger().error(
        event,
        signer=record.signer,
        kind=record.kind,
        round=record.round,
        theirs=record.digest,
        as_of=record.as_of_block,
        as_of_hash=record.as_of_hash,
        deadline=record.expires_at,
        **peer_values,
        **{"ours": "", **own_values},
    )


def _format_signers(signers: frozenset[Address]) -> str:
    return ", ".join(sorted(signers))
