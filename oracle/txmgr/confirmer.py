"""Watches every transaction hash of every open nonce until it is final.

State follows from receipts alone: a timeout, an error or a restart changes nothing. Irreversible
changes need two witnesses that agree (docs/explanation/transactions.md#i7). See
docs/explanation/transactions.md#states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.store.outbox.records import Attempt, NonceSlot, NonceState
from oracle.telemetry.tracing import span
from oracle.telemetry.txmgr_metrics import UNDECIDED, WITHOUT_RECEIPT
from oracle.txmgr.attribution import attribute, note_hidden
from oracle.txmgr.broadcaster import ids_of, rebroadcast
from oracle.txmgr.client.receipts import (
    Receipt,
    ReceiptQuorum,
    block_hashes,
    is_block_gone,
    is_in_block,
    look_for,
    nonce_at,
)
from oracle.txmgr.client.send_raw import SendOutcome
from oracle.txmgr.context import StepResult, TxContext, as_one
from oracle.txmgr.finalizer import finalize, note_mined, note_taken_back
from oracle.txmgr.unconfirmed import receipt_that_stands

# Send errors after which the earlier attempt is still the one in the pool.
_REFUSED = frozenset(
    answer.value
    for answer in (
        SendOutcome.UNDERPRICED,
        SendOutcome.UNDERPRICED_REPLACEMENT,
        SendOutcome.FUNDS,
        SendOutcome.CAP,
        SendOutcome.INTRINSIC,
    )
)

# The maximum number of final nonces that are checked in one pass: while a second witness is down,
# more and more of them wait.
DECIDED_AT_ONCE = 64

_Watched = tuple[NonceSlot, list[Attempt]]


def confirm(context: TxContext, heads: Heads) -> StepResult | None:
    """Record everything that happened to open nonces; return None if nothing did.

    Lower nonces come first, so that transactions dropped from a pool are sent again in order. A
    known receipt that is not final is not requested again while its block is canonical. Nonces
    that too few witnesses confirm are checked in turns.

    Raises:
        TransientError: no endpoint answers.
        InputError: an endpoint serves another chain.
    """
    context.publisher.lines.check_chain(context.publisher.domain.chain_id)
    if not context.publisher.has_payer:
        return None
    with context.store.reading() as uow:
        slots = uow.outbox.slots.watched(context.account)
    settled = {one.nonce for one in _still_there(context, slots, heads)}
    chosen, left_out = _chosen(context, [one for one in slots if one.nonce not in settled], heads)
    with context.store.reading() as uow:
        watched = uow.outbox.slots.with_attempts(chosen)
    watch = _Pass(context, heads, watched)
    done: list[StepResult] = []
    for slot, attempts in watched:
        if slot.nonce < watch.used or not watch.may_wait(slot, attempts):
            with span("confirm", **ids_of(attempts)) as traced:
                step = watch.look_at(slot, attempts)
                traced.did({} if step is None else {"did": step.did})
            done += [step] if step is not None else []
    watch.show(left_out)
    return as_one("confirmed", done)


@dataclass
class _Pass:
    """One pass over the open nonces of a context, with the receipts that the endpoints show."""

    context: TxContext
    heads: Heads
    watched: Sequence[_Watched]
    # Nonces that would be decided if enough endpoints agreed.
    undecided: int = field(default=0, init=False)
    # The part of these whose nonce is used although no endpoint shows a receipt.
    without_receipt: int = field(default=0, init=False)

    @cached_property
    def seen(self) -> ReceiptQuorum:
        """The receipts of every attempt, requested in one batch from each endpoint."""
        hashes = [one.signed.tx_hash for _, attempts in self.watched for one in attempts]
        lines = self.context.publisher.lines
        return look_for(lines, hashes) if hashes else ReceiptQuorum((), lines.quorum)

    @cached_property
    def used(self) -> int:
        """The number of used nonces at the final block, from the first endpoint that answers."""
        account, final = self.context.account, hex(self.heads.final.number)
        return nonce_at(self.context.publisher.lines, account.address, final)

    def show(self, left_out: int = 0) -> None:
        """Set the metrics of undecided nonces; `left_out` of them were not checked in this pass."""
        UNDECIDED.labels(self.context.role).set(self.undecided + left_out)
        WITHOUT_RECEIPT.labels(self.context.role).set(self.without_receipt)

    def may_wait(self, slot: NonceSlot, attempts: Sequence[Attempt]) -> bool:
        """Return whether a call needs no action: it is in the pool, or was not sent."""
        if slot.state is NonceState.MINED or self.seen.receipt(_hashes(attempts)) is not None:
            return False
        return not any(self._is_due(one) for one in _in_pools(attempts))

    def look_at(self, slot: NonceSlot, attempts: list[Attempt]) -> StepResult | None:
        """Record what happened to one nonce, or send it again; return None if neither."""
        receipt = receipt_that_stands(self.context, self.seen, _hashes(attempts), slot.block_hash)
        if receipt is None:
            return self._missing(slot, attempts)
        won = next(one for one in attempts if one.signed.tx_hash == receipt.hash)
        if not _is_known(slot, won, receipt):
            return note_mined(self.context, slot, won, receipt)
        if not self.context.is_final(receipt.block_number, self.heads):
            return None
        if not self.seen.has_agreement_on(receipt):
            self.undecided += 1
            return None
        return finalize(self.context, slot, won, receipt)

    def _missing(self, slot: NonceSlot, attempts: list[Attempt]) -> StepResult | None:
        """Handle a nonce without a receipt.

        It was reorged, used by a foreign transaction, or is unmined.
        """
        if slot.state is NonceState.MINED:
            return self._hidden(slot, attempts)
        if self.used > slot.nonce:
            step = attribute(self.context, slot, attempts, self.seen, self.heads)
            if step is not None:
                return step
            self.undecided += 1
            self.without_receipt += 1
        if slot.state is not NonceState.LIVE or self.context.is_stopped():
            return None
        return self._send_again(slot, attempts)

    def _hidden(self, slot: NonceSlot, attempts: list[Attempt]) -> StepResult | None:
        """Handle a receipt that disappeared.

        A reorg removed it, or the endpoints do not show it.
        """
        if self._is_gone(slot, attempts):
            for attempt in attempts:
                self.context.rebroadcasts.reset_wait(attempt.id)
            return note_taken_back(self.context, slot)
        if not self.context.is_final(slot.block_number or 0, self.heads):
            return None
        self.undecided += 1
        self.without_receipt += 1
        return note_hidden(self.context, slot)

    def _send_again(self, slot: NonceSlot, attempts: Sequence[Attempt]) -> StepResult | None:
        """Rebroadcast the newest attempt if it is due, and older ones while newer ones are refused.

        The result is None if nothing was due, or every endpoint answered as the last time.
        """
        steps: list[StepResult] = []
        for attempt in _in_pools(attempts):
            if not self._is_due(attempt):
                continue
            answer, step = rebroadcast(self.context, slot, attempt, self.heads)
            steps += [] if step is None else [step]
            if answer.answer.value not in _REFUSED:
                break
        return as_one("sent", steps)

    def _is_due(self, attempt: Attempt) -> bool:
        """Return whether an attempt is due for a rebroadcast; a reorg may have lowered the head."""
        sent_at = attempt.last_sent_block
        wait_blocks = self.context.rebroadcasts.wait_blocks(attempt.id)
        return sent_at is not None and abs(self.heads.latest.number - sent_at) >= wait_blocks

    def _is_gone(self, slot: NonceSlot, attempts: Sequence[Attempt]) -> bool:
        """Return whether a reorg removed the receipt.

        A missing answer or a lagging node does not count.

        The receipt also stays while an endpoint shows the block with the transaction in it.
        """
        number, block_hash = slot.block_number, slot.block_hash
        if number is None or block_hash is None:
            return False
        lines, hashes = self.context.publisher.lines, _hashes(attempts)
        if len(self.seen.without(hashes)) == len(lines.all):
            return not is_in_block(lines, (number, block_hash), hashes)
        return is_block_gone(self.context.lines(), number, block_hash)


def _is_known(slot: NonceSlot, won: Attempt, receipt: Receipt) -> bool:
    return (slot.state, slot.won_attempt, slot.block_hash, slot.succeeded) == (
        NonceState.MINED,
        won.id,
        receipt.block_hash,
        receipt.succeeded,
    )


def _hashes(attempts: Sequence[Attempt]) -> list[Hash]:
    return [one.signed.tx_hash for one in attempts]


def _chosen(
    context: TxContext, slots: Sequence[NonceSlot], heads: Heads
) -> tuple[list[NonceSlot], int]:
    """Return the slots whose receipts to request now, by nonce, and how many wait for a later pass.

    All slots that are not final are selected. Of the others the lowest are selected, and some more
    in turns, so that a nonce that cannot be decided blocks no other.
    """
    late = [
        one
        for one in slots
        if one.block_number is not None and context.is_final(one.block_number, heads)
    ]
    if len(late) <= DECIDED_AT_ONCE:
        return list(slots), 0
    half = DECIDED_AT_ONCE // 2
    others = late[half:]
    start = heads.latest.number * half % len(others)
    now = {one.nonce for one in (*late[:half], *(others[start:] + others[:start])[:half])}
    waiting = {one.nonce for one in late} - now
    return [one for one in slots if one.nonce not in waiting], len(waiting)


def _still_there(context: TxContext, slots: list[NonceSlot], heads: Heads) -> list[NonceSlot]:
    """Return the mined slots whose block is canonical and not final."""
    young = [
        one
        for one in slots
        if one.block_number is not None and not context.is_final(one.block_number, heads)
    ]
    numbers = sorted({one.block_number for one in young if one.block_number is not None})
    hashes = block_hashes(context.lines(), numbers) if numbers else {}
    return [one for one in young if hashes.get(one.block_number or 0) == one.block_hash]


def _in_pools(attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    """Yield the newest attempt, and older ones while every newer one was refused.

    A pool that lost the earlier attempt may refuse the more expensive one for ever.
    """
    for attempt in reversed(attempts):
        yield attempt
        if attempt.last_error_class not in _REFUSED:
            return
