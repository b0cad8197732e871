"""Watches every hash of every open nonce until it is final.

State follows from receipts alone: a timeout, an error or a restart changes nothing. What cannot
be taken back needs two witnesses that agree (docs/explanation/transactions.md#i7); until they do
nothing happens. See docs/explanation/transactions.md#states.
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

# What no pool has in the place of an earlier attempt.
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

# What waits for a second witness is asked for again, so many at a time: while one is down
# they would become more and more.
DECIDED_AT_ONCE = 64

_Watched = tuple[NonceSlot, list[Attempt]]


def confirm(context: TxContext, heads: Heads) -> StepResult | None:
    """Take note of everything that happened to open nonces; None: nothing did.

    Lower nonces come first, so that what fell out of a pool goes back in their order. A receipt
    that is known and not final is not asked for again while its block is the chain's; of those
    that too few witnesses confirm, some at a time.

    Raises:
        TransientError: no endpoint answers.
        InputError: an endpoint is of another chain.
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
    """One look at the open nonces of a context, and what the endpoints show of them."""

    context: TxContext
    heads: Heads
    watched: Sequence[_Watched]
    # Nonces that would be decided, if enough endpoints agreed.
    undecided: int = field(default=0, init=False)
    # Of these, used ones of which no endpoint shows a receipt.
    without_receipt: int = field(default=0, init=False)

    @cached_property
    def seen(self) -> ReceiptQuorum:
        """What the endpoints show of every attempt, in one batch for each."""
        hashes = [one.signed.tx_hash for _, attempts in self.watched for one in attempts]
        lines = self.context.publisher.lines
        return look_for(lines, hashes) if hashes else ReceiptQuorum((), lines.quorum)

    @cached_property
    def used(self) -> int:
        """How many of our nonces are used up at the final block, by the first that answers."""
        account, final = self.context.account, hex(self.heads.final.number)
        return nonce_at(self.context.publisher.lines, account.address, final)

    def show(self, left_out: int = 0) -> None:
        """Let whoever watches know what is not decided; `left_out` waits for its turn."""
        UNDECIDED.labels(self.context.role).set(self.undecided + left_out)
        WITHOUT_RECEIPT.labels(self.context.role).set(self.without_receipt)

    def may_wait(self, slot: NonceSlot, attempts: Sequence[Attempt]) -> bool:
        """Tell whether nothing is to be done about a call that is in the pool, or not sent."""
        if slot.state is NonceState.MINED or self.seen.receipt(_hashes(attempts)) is not None:
            return False
        return not any(self._is_due(one) for one in _in_pools(attempts))

    def look_at(self, slot: NonceSlot, attempts: list[Attempt]) -> StepResult | None:
        """Write down what happened to one nonce, or send it again; None: neither."""
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
        """No receipt: a reorg took it, somebody else used the nonce, or it is in no block yet."""
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
        """A receipt that was there is not any more: a reorg took it, or the endpoints hide it."""
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
        """Send the newest bytes again if they are due, and older ones while those are refused.

        None: nothing was due, or every endpoint answers as it did the last time.
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
        """Tell whether it is to be sent again; a reorg may have put the head below that block."""
        sent_at = attempt.last_sent_block
        wait_blocks = self.context.rebroadcasts.wait_blocks(attempt.id)
        return sent_at is not None and abs(self.heads.latest.number - sent_at) >= wait_blocks

    def _is_gone(self, slot: NonceSlot, attempts: Sequence[Attempt]) -> bool:
        """Tell whether a receipt is really gone: silence, or a node that lags, takes none away.

        Nor do endpoints that show none, while the block is the chain's and has the transaction.
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
    """Return whose receipts to ask for now, by nonce, and how many wait for their turn.

    All that are not to be decided yet; of the others the lowest, and some more by turns: one that
    nobody can decide keeps no other waiting.
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
    """Return the mined slots whose block is still the chain's, and not final."""
    young = [
        one
        for one in slots
        if one.block_number is not None and not context.is_final(one.block_number, heads)
    ]
    numbers = sorted({one.block_number for one in young if one.block_number is not None})
    hashes = block_hashes(context.lines(), numbers) if numbers else {}
    return [one for one in young if hashes.get(one.block_number or 0) == one.block_hash]


def _in_pools(attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    """Yield the newest bytes, and older ones while everything newer was refused.

    A pool that lost the earlier attempt may refuse the more expensive one for ever.
    """
    for attempt in reversed(attempts):
        yield attempt
        if attempt.last_error_class not in _REFUSED:
            return
