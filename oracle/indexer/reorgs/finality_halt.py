"""Halts folding and sending while a final block of the index is not on the chain.

The halt is stored in the database. While it is active, nothing is folded, signed or sent, but the
chain is still checked. The halt ends when two endpoints return the final block again, or when an
operator clears it. See docs/explanation/reorgs.md#below-the-final-block.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.indexer.reorgs.fork_detection import (
    BLOCKS_BETWEEN_POLLS,
    MIN_PROVIDERS,
    ForkClaim,
    ForkContext,
    ForkJudgement,
    ForkVerdict,
    OutvotedError,
    compute_average_block_seconds,
    count_providers,
    fetch_hashes_by_endpoint,
    judge_fork,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.halts import HaltClearRecord, HaltEvidence
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import indexer_metrics

FINALITY_VIOLATION = "finality_violation"
# This value of `cleared_by` means that the halt ended because endpoints returned the final block
# again.
CLEARED_BY_PROOF = "proof"


@dataclass(frozen=True, slots=True)
class HaltChanged:
    """A halt that was started or cleared, with the reason."""

    name: str
    is_active: bool
    reason: str


def init_halt_metric(store: Store) -> str | None:
    """Set the metric of the halt when a process starts.

    Returns the reason of an active halt, or None if no halt is active.
    """
    with store.read_transaction() as uow:
        is_active = uow.halts.find_open_halt(FINALITY_VIOLATION) is not None
        reason = uow.halts.find_halt_reason()
    indexer_metrics.FINALITY_VIOLATION.set(is_active)
    return reason


def compare_final_block(fork_context: ForkContext) -> HaltChanged | None:
    """Compare the indexed final block with all endpoints, and act on a difference.

    Slow endpoints are not queried; their final block is compared when they confirm a block.

    Raises:
        TransientError: an endpoint contradicts another endpoint, and was quarantined.
        OutvotedError: an endpoint contradicts two providers that have the indexed block.
    """
    with fork_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    if cursor is None or cursor.final_number is None:
        return None
    is_routine = not fork_context.fork_watch.final.is_pending()
    witness_views = fork_context.chain.fetch_witnesses(
        cursor.final_number, skip_slow_endpoints=is_routine
    )
    shown_blocks = [
        view.block
        for view in witness_views
        if view.head.number >= cursor.final_number and view.block
    ]
    conflicting_block = next(
        (block for block in shown_blocks if block.hash != cursor.final_hash), None
    )
    if conflicting_block is not None:
        return judge_final_block(fork_context, cursor, conflicting_block)
    if shown_blocks:
        # The endpoint that lacked the block has it now.
        fork_context.fork_watch.final.reset()
    return None


def judge_final_block(
    fork_context: ForkContext,
    cursor: Cursor,
    chain_block: BlockRef,
    child_judgement: ForkJudgement | None = None,
) -> HaltChanged | None:
    """Determine whether the final block has left the chain, and start a halt if it has.

    The result is None if this is undecided. `chain_block` is the block that an endpoint returned
    instead of the final block. `child_judgement` is the judgement that a block on top of the final
    block was orphaned, if any. It decides if `chain_block` is above the height of the final block,
    because the other chain then has no block at this height.

    Raises:
        TransientError: another endpoint has the indexed block; the endpoint that does not have it
            was quarantined, and nothing else was changed.
        OutvotedError: the same, but two providers have the indexed block.
    """
    if cursor.final_number is None or cursor.final_hash is None:
        return None
    final_number = cursor.final_number
    is_skipped = child_judgement is not None and chain_block.number > final_number
    is_child_orphaned = child_judgement is not None and (
        is_skipped or child_judgement.denier_count < MIN_PROVIDERS
    )
    accusing_endpoint = (
        next(iter(child_judgement.hash_by_denier))
        if child_judgement is not None and is_skipped
        else ""
    )
    claim = ForkClaim(
        final_number,
        cursor.final_hash,
        chain_block.hash,
        tip=final_number,
        endpoint=accusing_endpoint,
    )
    judgement = judge_fork(fork_context, claim, fork_context.fork_watch.final)
    if judgement.verdict is ForkVerdict.CANONICAL:
        raise _quarantine_outvoted_endpoints(fork_context, claim, judgement)
    if judgement.verdict is ForkVerdict.UNDECIDED and not (
        is_child_orphaned and judgement.hash_by_denier
    ):
        return None
    fork_context.fork_watch.final.reset()
    return _start_finality_halt(fork_context.store, cursor, claim, judgement)


def recheck_finality_halt(fork_context: ForkContext, now: int) -> HaltChanged | None:
    """Clear the halt if the endpoints confirm the final block again.

    Two endpoints must return the final block, and none another block. If there is only one
    provider, its endpoints have to return the block repeatedly, as often as they had to return
    another block before the halt. `now` is the block time in unix seconds. Returns None if the
    halt stays active.
    """
    with fork_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        pause_seconds = BLOCKS_BETWEEN_POLLS * compute_average_block_seconds(
            uow, 0 if cursor is None else cursor.number
        )
    if (
        cursor is None
        or cursor.final_number is None
        or fork_context.fork_watch.final.get_seconds_until_poll(fork_context.now)
    ):
        return None
    hash_by_endpoint = fetch_hashes_by_endpoint(fork_context.chain, cursor.final_number)
    if not _is_final_block_confirmed(fork_context, cursor, hash_by_endpoint, pause_seconds):
        return None
    fork_context.fork_watch.final.reset()
    cleared_reason = (
        f"block {cursor.final_number} is {cursor.final_hash} on {' and '.join(hash_by_endpoint)}"
    )
    with fork_context.store.transaction() as uow:
        clear_stored_halt(
            uow, FINALITY_VIOLATION, HaltClearRecord(now, CLEARED_BY_PROOF, cleared_reason)
        )
    return HaltChanged(FINALITY_VIOLATION, is_active=False, reason=cleared_reason)


def clear_stored_halt(uow: UnitOfWork, name: str, clear_record: HaltClearRecord) -> bool:
    """Clear a halt, or return False if it was not active."""
    was_active = uow.halts.clear(name, clear_record)
    if name == FINALITY_VIOLATION:
        indexer_metrics.FINALITY_VIOLATION.set(0)
    return was_active


def _is_final_block_confirmed(
    fork_context: ForkContext,
    cursor: Cursor,
    hash_by_endpoint: Mapping[str, Hash],
    pause_seconds: float,
) -> bool:
    """Return whether enough endpoints have the final block, and none has another one."""
    fork_evidence = fork_context.fork_watch.final
    if cursor.final_number is None or cursor.final_hash is None:
        return False
    if set(hash_by_endpoint.values()) != {cursor.final_hash}:
        fork_evidence.reset()
        return False
    if count_providers(fork_context.chain) >= MIN_PROVIDERS:
        provider_by_endpoint = fork_context.chain.get_providers()
        return (
            len({provider_by_endpoint.get(endpoint, endpoint) for endpoint in hash_by_endpoint})
            >= MIN_PROVIDERS
        )
    evidence_key = cursor.final_number, cursor.final_hash, frozenset(hash_by_endpoint.values())
    return fork_evidence.record_fork_report(evidence_key, fork_context.now, pause_seconds)


def _start_finality_halt(
    store: Store, cursor: Cursor, claim: ForkClaim, judgement: ForkJudgement
) -> HaltChanged:
    chain_hash = next(iter(judgement.hash_by_denier.values()), claim.claimed_hash)
    endpoints_text = " and ".join(judgement.hash_by_denier)
    halt_reason = (
        f"block {claim.number} was final here as {claim.indexed_hash}, but {endpoints_text} now "
        f"have {chain_hash}: nothing was changed, nothing is folded or sent. If the endpoints are "
        "wrong, take them out of [chain] endpoints; if the chain did change, run `qos-oracle "
        f"resync rewind --to-block {max(1, claim.number) - 1}`, which names a lower block where "
        "they part below it"
    )
    evidence = HaltEvidence(claim.number, claim.indexed_hash, chain_hash)
    with store.transaction() as uow:
        uow.halts.open_halt(
            FINALITY_VIOLATION,
            halt_reason,
            evidence,
            since_block=cursor.number,
            since_time=cursor.time,
        )
    indexer_metrics.FINALITY_VIOLATION.set(1)
    return HaltChanged(FINALITY_VIOLATION, is_active=True, reason=halt_reason)


def _quarantine_outvoted_endpoints(
    fork_context: ForkContext, claim: ForkClaim, judgement: ForkJudgement
) -> TransientError:
    indexer_metrics.REJECTED.labels("outvoted").inc()
    claim_text = (
        f"reported that block {claim.number} is not {claim.indexed_hash}, which is final and "
        f"shown by {', '.join(judgement.supporting_endpoints)}"
    )
    for endpoint in judgement.outvoted_endpoints:
        fork_context.chain.quarantine(endpoint, claim_text, (claim.number, claim.indexed_hash))
    outvoted_text = ", ".join(judgement.outvoted_endpoints) or "an endpoint"
    error_class = OutvotedError if judgement.supporter_count >= MIN_PROVIDERS else TransientError
    return error_class(f"{outvoted_text} {claim_text}; nothing was changed")
