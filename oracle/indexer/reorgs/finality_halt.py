"""Halts all output while a final block of the index is not on the chain.

The halt is stored in the database. While it is active nothing is folded or sent; the chain is
checked as before, until two endpoints show the final block again, or an operator clears the halt.
See docs/explanation/reorgs.md#below-the-final-block.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.indexer.reorgs.fork_detection import (
    ENOUGH,
    POLL_BLOCKS,
    ForkClaim,
    ForkContext,
    ForkJudgement,
    ForkVerdict,
    OutvotedError,
    block_seconds,
    judge_fork,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.ops.halts import Cleared, HaltEvidence
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import indexer_metrics

FINALITY_VIOLATION = "finality_violation"
# Cleared by: the chain itself showed that the halt may end.
PROOF = "proof"


@dataclass(frozen=True, slots=True)
class HaltChanged:
    """The halt was started or cleared, and why."""

    name: str
    is_closed: bool
    reason: str


def show(store: Store) -> str | None:
    """Set the halt metric at the start of a process.

    Returns why nothing may be sent, or None.
    """
    with store.reading() as uow:
        is_closed, why = uow.halts.closed(FINALITY_VIOLATION) is not None, uow.halts.reason()
    indexer_metrics.FINALITY_VIOLATION.set(is_closed)
    return why


def compare_final(fork_context: ForkContext) -> HaltChanged | None:
    """Compare the indexed final block at all endpoints; judge any other block shown.

    In routine checks a slow endpoint is skipped: it shows its final block when it confirms one.

    Raises:
        TransientError: an endpoint contradicts another, and is quarantined.
        OutvotedError: the same, and two providers show the indexed block.
    """
    with fork_context.store.reading() as uow:
        cursor = uow.cursor.get()
    if cursor is None or cursor.final_number is None:
        return None
    is_routine = not fork_context.fork_watch.final.is_open()
    views = fork_context.chain.witness(cursor.final_number, spares_slow=is_routine)
    seen = [one.block for one in views if one.head.number >= cursor.final_number and one.block]
    other = next((block for block in seen if block.hash != cursor.final_hash), None)
    if other is not None:
        return accuse_final(fork_context, cursor, other)
    if seen:
        # The endpoint that denied the block shows it again.
        fork_context.fork_watch.final.forget()
    return None


def accuse_final(
    fork_context: ForkContext,
    cursor: Cursor,
    theirs: BlockRef,
    on_top: ForkJudgement | None = None,
) -> HaltChanged | None:
    """Judge the claim that the indexed final block is not on the chain; None: undecided.

    `child_judgement`: a block on top of it was judged to be orphaned. `chain_block` may be above
    it, if the other chain skipped its height: no endpoint can show a block there, so the earlier
    judgement counts.

    Raises:
        TransientError: another endpoint shows the indexed block; the one that denies it is
            quarantined, and nothing is changed. OutvotedError: two providers show it.
    """
    if cursor.final_number is None or cursor.final_hash is None:
        return None
    final = cursor.final_number
    is_skipped = on_top is not None and theirs.number > final
    is_sure = on_top is not None and (is_skipped or on_top.deniers < ENOUGH)
    by = next(iter(on_top.against)) if on_top is not None and is_skipped else ""
    accused = ForkClaim(final, cursor.final_hash, theirs.hash, tip=final, endpoint=by)
    judged = judge_fork(fork_context, accused, fork_context.fork_watch.final)
    if judged.verdict is ForkVerdict.STAYS:
        raise _quarantined(fork_context, accused, judged)
    if judged.verdict is ForkVerdict.OPEN and not (is_sure and judged.against):
        return None
    fork_context.fork_watch.final.forget()
    return _close(fork_context.store, cursor, accused, judged)


def recheck_halt(fork_context: ForkContext, now: int) -> HaltChanged | None:
    """Clear the halt if two endpoints show the final block again and none another.

    A single endpoint has to show it as often as it had to deny it. `now` is the chain's time, in
    unix seconds. Returns None if the halt stays active.
    """
    with fork_context.store.reading() as uow:
        cursor = uow.cursor.get()
        pause = POLL_BLOCKS * block_seconds(uow, 0 if cursor is None else cursor.number)
    if (
        cursor is None
        or cursor.final_number is None
        or fork_context.fork_watch.final.seconds_left(fork_context.now)
    ):
        return None
    said = _shown_at(fork_context, cursor.final_number)
    if not _is_proof(fork_context, cursor, said, pause):
        return None
    fork_context.fork_watch.final.forget()
    reason = f"block {cursor.final_number} is {cursor.final_hash} on {' and '.join(said)}"
    with fork_context.store.transaction() as uow:
        clear_halt_if_proven(uow, FINALITY_VIOLATION, Cleared(now, PROOF, reason))
    return HaltChanged(FINALITY_VIOLATION, is_closed=False, reason=reason)


def clear_halt_if_proven(uow: UnitOfWork, name: str, cleared: Cleared) -> bool:
    """Clear a halt; return False if it was not active."""
    is_open = uow.halts.clear(name, cleared)
    if name == FINALITY_VIOLATION:
        indexer_metrics.FINALITY_VIOLATION.set(0)
    return is_open


def _shown_at(fork_context: ForkContext, number: int) -> dict[str, Hash]:
    """Return the hash that each endpoint shows at this height, if its head is that high."""
    return {
        one.endpoint: one.block.hash
        for one in fork_context.chain.witness(number)
        if one.block is not None and one.head.number >= number
    }


def _is_proof(
    fork_context: ForkContext, cursor: Cursor, said: Mapping[str, Hash], pause: float
) -> bool:
    """Return whether enough endpoints show the final block and none denies it."""
    fork_evidence = fork_context.fork_watch.final
    if cursor.final_number is None or cursor.final_hash is None:
        return False
    if set(said.values()) != {cursor.final_hash}:
        fork_evidence.forget()
        return False
    provider = fork_context.chain.providers()
    if len(set(provider.values())) >= ENOUGH:
        return len({provider.get(endpoint, endpoint) for endpoint in said}) >= ENOUGH
    about = cursor.final_number, cursor.final_hash, frozenset(said.values())
    return fork_evidence.is_repeated(about, fork_context.now, pause)


def _close(store: Store, cursor: Cursor, accused: ForkClaim, judged: ForkJudgement) -> HaltChanged:
    theirs = next(iter(judged.against.values()), accused.theirs)
    who = " and ".join(judged.against)
    reason = (
        f"block {accused.number} was final here as {accused.ours}, but {who} now have {theirs}: "
        "nothing was changed, nothing is folded or sent. If the endpoints are wrong, take them "
        "out of [chain] endpoints; if the chain did change, run "
        f"`qos-oracle resync rewind --to-block {max(1, accused.number) - 1}`, which names a lower "
        "block where they part below it"
    )
    evidence = HaltEvidence(accused.number, accused.ours, theirs)
    with store.transaction() as uow:
        uow.halts.close(FINALITY_VIOLATION, (cursor.number, cursor.time), reason, evidence)
    indexer_metrics.FINALITY_VIOLATION.set(1)
    return HaltChanged(FINALITY_VIOLATION, is_closed=True, reason=reason)


def _quarantined(
    fork_context: ForkContext, accused: ForkClaim, judged: ForkJudgement
) -> TransientError:
    indexer_metrics.REJECTED.labels("outvoted").inc()
    words = (
        f"block {accused.number}, final as {accused.ours}, is another one, which "
        f"{', '.join(judged.with_us)} denies"
    )
    for endpoint in judged.liars:
        fork_context.chain.quarantine(
            endpoint, f"says that {words}", (accused.number, accused.ours)
        )
    said = ", ".join(judged.liars) or "an endpoint"
    error = OutvotedError if judged.supporters >= ENOUGH else TransientError
    return error(f"{said} says that {words}: nothing was changed")
