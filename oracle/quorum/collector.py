"""Collects a quorum of signatures for the transaction that pushes a report.

The statements of other reporters are fetched, and those by signers of the contract are stored.
"""

from collections.abc import Callable, Collection

from oracle.bindings.qos_roots import RootsStatus
from oracle.domain.ids import Address, Hash
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statement_tally import log_conflicts
from oracle.quorum.statements import list_round_statements
from oracle.quorum.wire_format import MAX_STATEMENTS, ReportMessage
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement
from oracle.store.report_repository import ReportState, StoredReportHeader
from oracle.telemetry.logger import get_logger

# Maximum number of recent rounds whose statements are fetched again.
_MAX_REVIEWED_ROUNDS = 2


def collect_signatures(
    context: QuorumContext, record: SignedStatement, contract_status: RootsStatus
) -> bytes | None:
    """Collect the signatures of a quorum, or return None if there are too few.

    Each signature has 65 bytes. They are ordered by signer.

    A signature counts if it signs exactly `record.digest` and its signer is a current signer of
    the contract. Signatures received from peers count as well, and the peers are queried until
    there are enough signatures.
    """
    signers = contract_status.signers
    signature_by_signer = _load_counted_signatures(context, record, signers)
    if len(signature_by_signer) < contract_status.head.quorum and fetch_peer_statements(
        context, record, contract_status
    ):
        signature_by_signer = _load_counted_signatures(context, record, signers)
    if len(signature_by_signer) < contract_status.head.quorum:
        return None
    return b"".join(
        signature_by_signer[signer]
        for signer in sorted(signature_by_signer)[: contract_status.head.quorum]
    )


def find_unknown_signer_reason(context: QuorumContext, contract_status: RootsStatus) -> str | None:
    """Return why this reporter's signatures do not count.

    The result is None if the contract accepts them.
    """
    own_signer_address = context.account_context.sender_account.signer.address
    if own_signer_address in contract_status.signers:
        return None
    return (
        f"signer {own_signer_address} is not a signer of the contract, so its signatures do not "
        "count"
    )


def _load_counted_signatures(
    context: QuorumContext, record: SignedStatement, signers: Collection[Address]
) -> dict[Address, bytes]:
    with context.account_context.store.read_transaction() as uow:
        signature_by_signer = load_statement_signatures(uow, record)
    return {
        signer: signature_by_signer[signer] for signer in signature_by_signer if signer in signers
    }


def load_statement_signatures(uow: UnitOfWork, record: SignedStatement) -> dict[Address, bytes]:
    """Return all stored signatures of the record's digest, by signer."""
    # Own statements come first. In reverse order, this reporter's own signature therefore replaces
    # a copy that a peer returned.
    return {
        statement.signer: statement.signature
        for statement in reversed(list_round_statements(uow, record.contract, record.round))
        if statement.digest == record.digest and statement.expiry_reason is None
    }


def fetch_peer_statements(
    context: QuorumContext, record: SignedStatement, contract_status: RootsStatus
) -> int:
    """Fetch the peers' statements about a record's round, and return how many were new.

    A statement is stored even if its content differs from this reporter's, provided that its
    signature is valid, that it is about the same contract and round, and that its signer is a
    current signer of the contract. Within a report's time to live, at most `MAX_STATEMENTS`
    different statements by the same signer about the same round are stored. A statement about a
    block that is not indexed yet is left out, and fetched again later.

    Raises:
        FatalError: another process has taken over the lease.
    """
    if context.peers is None:
        return 0
    peer_statements = context.peers.fetch_statements(record.round)
    return _store_peer_statements(
        context, record.round, peer_statements, lambda: contract_status, own_digest=record.digest
    )


def refetch_peer_statements(context: QuorumContext, round_number: int) -> int:
    """Fetch the statements about a settled round again, to find late conflicts.

    `PeerClients` limits how often a round is fetched again. The contract is queried only if a
    statement is new.

    Raises:
        TransientError: a statement is new, and no endpoint answers.
        FatalError: another process has taken over the lease.
    """
    if context.peers is None:
        return 0
    peer_statements = context.peers.refetch_statements(round_number)
    return _store_peer_statements(
        context, round_number, peer_statements, context.fetch_contract_status
    )


def _store_peer_statements(
    context: QuorumContext,
    round_number: int,
    responses: list[tuple[str, ReportMessage]],
    fetch_status: Callable[[], RootsStatus],
    own_digest: Hash | None = None,
) -> int:
    new_messages = _filter_new_messages(context, round_number, responses)
    if not new_messages:
        return 0
    contract_status = fetch_status()
    signers = contract_status.signers
    _warn_about_unknown_signers(
        context,
        [(host, message) for host, message in new_messages if message.signer not in signers],
    )
    signer_messages = [
        (host, message) for host, message in new_messages if message.signer in signers
    ]
    return _store_signatures(context, signer_messages, contract_status, own_digest)


def _warn_about_unknown_signers(
    context: QuorumContext, messages: list[tuple[str, ReportMessage]]
) -> None:
    for host, message in messages:
        signer = Address(message.signer)
        if context.peers is not None and context.peers.record_unknown_signer(host, signer):
            get_logger().warning("statement_from_unknown_signer", host=host, signer=signer)


def _filter_new_messages(
    context: QuorumContext, round_number: int, messages: list[tuple[str, ReportMessage]]
) -> list[tuple[str, ReportMessage]]:
    """Return the messages about this contract and round that are not stored yet.

    Messages about blocks that are not indexed yet are left out.
    """
    domain = context.account_context.sender_account.domain
    with context.account_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        folded_block = -1 if cursor is None else cursor.number
        stored_keys = {
            (statement.signer, statement.digest)
            for statement in list_round_statements(uow, domain.contract, round_number)
        }
    return [
        (host, message)
        for host, message in messages
        if (message.chain_id, message.contract, message.round)
        == (domain.chain_id, domain.contract, round_number)
        and message.as_of < folded_block
        and (message.signer, message.digest) not in stored_keys
    ]


def _store_signatures(
    context: QuorumContext,
    messages: list[tuple[str, ReportMessage]],
    contract_status: RootsStatus,
    own_digest: Hash | None,
) -> int:
    """Store new statements, and return how many were stored.

    After `MAX_STATEMENTS` statements of a signer, only those equal to this reporter's are stored.
    """
    if not messages:
        return 0
    stored_count = 0
    since = context.account_context.stamp.at - context.report_settings.ttl_seconds
    with context.account_context.write_transaction() as uow:
        for host, message in messages:
            signed_statement = build_signed_statement(message)
            is_over_limit = (
                uow.peer_statements.count_received_since(signed_statement, since) >= MAX_STATEMENTS
            )
            if is_over_limit and signed_statement.digest != own_digest:
                continue
            # Compare the statement with earlier ones of its signer before storing it.
            log_conflicts(context, uow, signed_statement, message, contract_status)
            uow.peer_statements.add(signed_statement, host, context.account_context.stamp)
            stored_count += 1
    return stored_count


def build_signed_statement(message: ReportMessage) -> SignedStatement:
    """Convert a message with a verified signature into a statement record."""
    return SignedStatement(
        chain_id=message.chain_id,
        contract=Address(message.contract),
        signer=Address(message.signer),
        round=message.round,
        digest=Hash(message.digest),
        signature=bytes.fromhex(message.signature[2:]),
        config=Hash(message.config),
        prev=Hash(message.prev),
        as_of_block=message.as_of,
        as_of_hash=Hash(message.as_of_hash),
        deadline=message.deadline,
        root=Hash(message.root),
    )


def refetch_recent_statements(
    context: QuorumContext, stored_reports: list[StoredReportHeader]
) -> None:
    """Fetch other reporters' statements about the newest signed or accepted rounds again.

    Raises:
        TransientError: a statement is new, and no endpoint answers.
        FatalError: another process has taken over the lease.
    """
    if context.peers is None:
        return
    rounds = {
        stored_report.header.head_round + 1
        for stored_report in stored_reports
        if stored_report.digest is not None or stored_report.state is ReportState.LANDED
    }
    for round_number in sorted(rounds)[-_MAX_REVIEWED_ROUNDS:]:
        refetch_peer_statements(context, round_number)
