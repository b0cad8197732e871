"""Fetches the statements of other reporters, and stores those of the contract's signers."""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from oracle.bindings.oracle_views import signers_of
from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash
from oracle.quorum.board import place_of
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statement_tally import compare
from oracle.quorum.statements import KICK, REPORT
from oracle.quorum.wire_format import MOST_STATEMENTS, Told, ToldReport
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement
from oracle.store.reports.report_repository import ReportState, StoredCut


class ReceivedStatements(NamedTuple):
    """A statement from a peer: the host, the message, and the record to store."""

    host: str
    told: Told
    said: SignedStatement


def ask_peers(
    context: QuorumContext, about: SignedStatement, contract_status: ContractStatus
) -> int:
    """Ask what others signed of this round and subject; return how much of it was new.

    Kept is what is genuine, about the same contract, round and subject, by one who is a signer
    of the contract at this moment; whatever it says, but not more of one signer about one round
    in a report's time to live than an answer holds. What is ahead of us is left for later.

    Raises:
        TransientError: no endpoint says who the signers are.
        FatalError: another process has taken over the lease.
    """
    if context.peers is None:
        return 0
    place = _place(about)
    return _take_in(context, about, context.peers.ask(f"/v1/{place}"), lambda: contract_status)


def ask_again(context: QuorumContext, about: SignedStatement) -> int:
    """Fetch statements of a settled round again, a few times, to find later conflicts.

    The contract is queried only if something is new. Raises as `fetch_peer_statements` does.
    """
    if context.peers is None:
        return 0
    received = context.peers.ask_again(f"/v1/{_place(about)}")
    return _take_in(context, about, received, context.contract_status)


def _take_in(
    context: QuorumContext,
    about: SignedStatement,
    answers: list[tuple[str, Told]],
    look: Callable[[], ContractStatus],
) -> int:
    place = _place(about)
    new = _unknown(
        context,
        [
            ReceivedStatements(host, told, _statement(told, about))
            for host, told in answers
            if place_of(told) == place and _is_here(told, about)
        ],
    )
    if not new:
        return 0
    contract_status = look()
    signers = signers_of(context.tx.publisher.lines, about.contract, contract_status.block)
    _warn_of_unknown_signers(context, [one for one in new if one.said.signer not in signers])
    theirs = [one for one in new if one.said.signer in signers]
    return _store_signatures(context, theirs, contract_status, about.digest)


def _warn_of_unknown_signers(
    context: QuorumContext, unknown_signers: list[ReceivedStatements]
) -> None:
    for one in unknown_signers:
        if context.peers is not None and context.peers.is_news(one.host, one.said.signer):
            structlog.get_logger().warning(
                "statement_from_unknown_signer", host=one.host, signer=one.said.signer
            )


def _unknown(
    context: QuorumContext, received: list[ReceivedStatements]
) -> list[ReceivedStatements]:
    """Return statements of others that are not stored yet and whose block is indexed."""
    with context.tx.store.reading() as uow:
        cursor = uow.cursor.get()
        height = -1 if cursor is None else cursor.number
        return [
            one
            for one in received
            if (one.said.as_of_block or 0) < height
            and all(
                (known.signer, known.digest) != (one.said.signer, one.said.digest)
                for known in _known(uow, one.said)
            )
        ]


def _known(uow: UnitOfWork, said: SignedStatement) -> list[SignedStatement]:
    about = (said.contract, said.kind, said.round, said.subject)
    return [*uow.peer_statements.of(*about), *uow.statements.of_round(*about)]


def _store_signatures(
    context: QuorumContext,
    new: list[ReceivedStatements],
    contract_status: ContractStatus,
    ours: Hash,
) -> int:
    """Store new statements and return their number; a flood keeps only those that equal ours."""
    if not new:
        return 0
    kept, since = 0, context.tx.stamp.at - context.settings.ttl_seconds
    with context.tx.writing() as uow:
        for host, told, said in new:
            is_much = uow.peer_statements.told_since(said, since) >= MOST_STATEMENTS
            if is_much and said.digest != ours:
                continue
            # Before it is kept: what its signer said until now.
            compare(context, uow, (said, told), contract_status)
            uow.peer_statements.add(said, host, context.tx.stamp)
            kept += 1
    return kept


def _place(about: SignedStatement) -> str:
    return f"report/{about.round}" if about.kind == REPORT else f"kick/{about.subject}"


def _is_here(told: Told, about: SignedStatement) -> bool:
    """Return whether a message is about our contract, round and subject."""
    subject = "" if isinstance(told, ToldReport) else told.node
    here = (told.chain_id, told.contract, told.round, subject)
    return here == (about.chain_id, about.contract, about.round, about.subject)


def _statement(told: Told, about: SignedStatement) -> SignedStatement:
    is_report = isinstance(told, ToldReport)
    return SignedStatement(
        chain_id=told.chain_id,
        contract=Address(told.contract),
        signer=Address(told.signer),
        kind=REPORT if is_report else KICK,
        round=told.round,
        subject=about.subject,
        digest=Hash(told.digest),
        signature=bytes.fromhex(told.signature[2:]),
        expires_at=told.deadline,
        prev_digest=Hash(told.prev if isinstance(told, ToldReport) else told.report),
        as_of_block=told.as_of if isinstance(told, ToldReport) else None,
        as_of_hash=Hash(told.as_of_hash) if isinstance(told, ToldReport) else None,
        config=Hash(told.config),
    )


# Rounds that are asked about again.
_ROUNDS = 2


def review(context: QuorumContext, cuts: list[StoredCut]) -> None:
    """Fetch the statements of the newest signed or accepted rounds from the other reporters.

    Raises:
        TransientError: a statement is new, and no endpoint answers.
        FatalError: another process has taken over the lease.
    """
    if context.peers is None:
        return
    rounds = {
        one.cut.head_round + 1
        for one in cuts
        if one.digest is not None or one.state is ReportState.LANDED
    }
    for number in sorted(rounds)[-_ROUNDS:]:
        ask_again(context, _about(context, number))


def _about(context: QuorumContext, number: int) -> SignedStatement:
    """Return a record that identifies a round; its other fields are empty."""
    return SignedStatement(
        chain_id=context.tx.publisher.domain.chain_id,
        contract=context.tx.publisher.domain.contract,
        signer=ZERO_ADDRESS,
        kind=REPORT,
        round=number,
        subject="",
        digest=ZERO_HASH,
        signature=b"",
        expires_at=0,
    )
