"""Detects accepted rounds signed with this reporter's key that are not in its database.

The contract emits the signers of each round. A signature without a stored statement means that the
key was stolen, or that a database was lost. A statement from a lost database may still be accepted
on chain, and conflict with a new statement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.quorum.quorum_context import QuorumContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.telemetry import quorum_metrics
from oracle.telemetry.logger import get_logger
from oracle.txmgr.budget import DAY_SECONDS
from oracle.txmgr.context import StepResult

# Bookmark of the block of the first check, and of the root of the newest round checked.
_BOOKMARK = "own_key_seen"
_MAX_SCANNED_ROUNDS = 50


def check_for_foreign_signatures(context: QuorumContext, heads: Heads) -> StepResult | None:
    """Check new rounds for signatures made with this reporter's key outside this database.

    Such a signature starts an embargo: the key signs nothing for a report's time to live. The
    embargo is stored, and every further such signature starts it again. Rounds from before the
    first check at the head are ignored, because the database may have been created after them.
    The result is None if no embargo was started.
    """
    if not context.account_context.sender_account.has_signer:
        return None
    with context.account_context.store.read_transaction() as uow:
        newest_root = uow.rounds.find_newest_root() or ""
        bookmark = uow.bookmarks.get(_BOOKMARK)
        first_bookmark = (
            _format_initial_bookmark(context, uow, heads) if bookmark is None else None
        )
        since_block, _, last_root = (bookmark or "").partition(" ")
        has_new_rounds = bookmark is not None and last_root != newest_root
        foreign_rounds = (
            _list_foreign_rounds(context, uow, int(since_block), last_root)
            if has_new_rounds
            else []
        )
    if first_bookmark is not None:
        with context.account_context.write_transaction() as uow:
            uow.bookmarks.set(_BOOKMARK, first_bookmark)
    if not has_new_rounds:
        return None
    with context.account_context.write_transaction() as uow:
        embargoing_rounds = [
            accepted_round
            for accepted_round in foreign_rounds
            if _extend_signing_embargo(context, uow, accepted_round.time)
        ]
        uow.bookmarks.set(_BOOKMARK, f"{since_block} {newest_root}")
    return _log_foreign_signatures(context, embargoing_rounds) if embargoing_rounds else None


def _format_initial_bookmark(context: QuorumContext, uow: UnitOfWork, heads: Heads) -> str | None:
    cursor = uow.cursor.get()
    if cursor is None or not context.account_context.is_at_head(uow, heads):
        return None
    return f"{cursor.number} {uow.rounds.find_newest_root() or ''}"


def _list_foreign_rounds(
    context: QuorumContext, uow: UnitOfWork, since_block: int, last_root: str
) -> list[RoundAccepted]:
    """Return the rounds after `last_root` that this key signed outside this database.

    If a reorg removed the round of `last_root`, all rounds since the first check are checked.
    """
    rounds = [
        accepted_round
        for accepted_round in uow.rounds.list_accepted(_MAX_SCANNED_ROUNDS)
        if accepted_round.at.block > since_block
    ]
    roots = [accepted_round.root for accepted_round in rounds]
    new_rounds = rounds[roots.index(Hash(last_root)) + 1 :] if last_root in roots else rounds
    signer_address = context.account_context.sender_account.signer.address
    return [
        accepted_round
        for accepted_round in new_rounds
        if signer_address in uow.rounds.list_round_signers(accepted_round)
        and not _was_signed_locally(context, uow, accepted_round)
    ]


def _was_signed_locally(
    context: QuorumContext, uow: UnitOfWork, accepted_round: RoundAccepted
) -> bool:
    sender_account = context.account_context.sender_account
    statements = uow.statements.list_for_round(
        sender_account.domain.contract, accepted_round.round
    )
    return any(
        (statement.signer, statement.as_of_hash, statement.root)
        == (sender_account.signer.address, accepted_round.as_of_hash, accepted_round.root)
        for statement in statements
    )


def _extend_signing_embargo(context: QuorumContext, uow: UnitOfWork, since: int) -> bool:
    """Forbid signing for the lifetime of a report, counted from `since`.

    `since` is in unix seconds. Return False if an earlier embargo already covers this time.
    """
    domain = context.account_context.sender_account.domain
    signer_address = context.account_context.sender_account.signer.address
    statements = uow.statements
    earlier_embargo_end = statements.find_embargo_end(
        domain.chain_id, domain.contract, signer_address
    )
    embargo_end = since + context.report_settings.ttl_seconds
    statements.extend_embargo(
        domain.chain_id,
        domain.contract,
        signer_address,
        embargo_end,
        context.account_context.stamp,
    )
    return earlier_embargo_end is None or since > earlier_embargo_end


def _log_foreign_signatures(
    context: QuorumContext, foreign_rounds: Sequence[RoundAccepted]
) -> StepResult:
    signer_address = context.account_context.sender_account.signer.address
    for foreign_round in foreign_rounds:
        quorum_metrics.SIGNED_ELSEWHERE.inc()
        get_logger().critical(
            "unknown_signature_on_chain",
            signer=signer_address,
            round=foreign_round.round,
            root=foreign_round.root,
            embargoed_until=foreign_round.time + context.report_settings.ttl_seconds,
            act="the key was stolen, or the database with this signature was lost; unless you know"
            " that the database was lost, let the pauser pause the oracle and strike the round,"
            " and the admin replace the signer (`setSigners`)",
        )
    rounds_text = ", ".join(
        f"round {accepted_round.round}, root {accepted_round.root}"
        for accepted_round in foreign_rounds
    )
    return StepResult("signs nothing", None, f"{signer_address} signed elsewhere: {rounds_text}")


@dataclass(frozen=True, slots=True)
class SignerEmbargo:
    """The contract's head, and the chain time until which the signer must not sign.

    After the loss of its database, a signer is embargoed, because statements that were stored only
    in the lost database may still be accepted on chain. `embargoed_until` is in unix seconds, or
    None if there is no signer.
    """

    round: int
    last_root: Hash
    embargoed_until: int | None


def build_signing_embargo(context: QuorumContext) -> SignerEmbargo:
    """Build an embargo that starts now and lasts for one report lifetime.

    The embargo starts at the later of the newest block and this machine's time, because an
    endpoint may return an old block.

    Raises:
        TransientError: no endpoint answers, or the clock is more than a day ahead of the newest
            block. An embargo is never shortened, so a clock years in the future would end all
            signing. If the chain has halted, nothing can land until its next blocks.
    """
    contract_status = context.fetch_contract_status()
    account_context = context.account_context
    block_time, clock_time = contract_status.block.time, int(account_context.clock())
    if clock_time > block_time + DAY_SECONDS:
        raise TransientError(
            f"the clock of this machine is at {clock_time}, more than a day after the newest "
            f"block, which is of {block_time}; nothing is signed: correct the clock, use an "
            "endpoint that is not behind, or, if the chain has halted, wait for its next blocks"
        )
    started_at = max(block_time, clock_time)
    embargo_end = started_at + context.report_settings.ttl_seconds
    has_signer = account_context.sender_account.has_signer
    head = contract_status.head
    return SignerEmbargo(
        head.round, contract_status.last_root, embargo_end if has_signer else None
    )


def store_signing_embargo(
    context: QuorumContext, signer_embargo: SignerEmbargo, actor: str | None
) -> None:
    """Store the embargo of a signer whose database was lost (see `SignerEmbargo`)."""
    with context.account_context.write_transaction() as uow:
        build_embargo_writer(context, signer_embargo)(
            uow, context.account_context.stamp._replace(actor=actor)
        )


def build_embargo_writer(
    context: QuorumContext | None, signer_embargo: SignerEmbargo | None
) -> Callable[[UnitOfWork, Stamp], None]:
    """Return a callback that stores the embargo in the caller's transaction.

    The callback does nothing if there is no embargo.
    """

    def write_embargo(uow: UnitOfWork, stamp: Stamp) -> None:
        if context is None or signer_embargo is None or signer_embargo.embargoed_until is None:
            return
        domain = context.account_context.sender_account.domain
        signer_address = context.account_context.sender_account.signer.address
        uow.statements.extend_embargo(
            domain.chain_id, domain.contract, signer_address, signer_embargo.embargoed_until, stamp
        )

    return write_embargo
