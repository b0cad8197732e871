"""Watches every transaction of an open nonce until the nonce is final.

The state of a nonce changes only because of receipts, and never because of a timeout, an error or
a restart. Irreversible changes need two witnesses that agree
(docs/explanation/transactions.md#i7). See docs/explanation/transactions.md#states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.store.outbox.records import Attempt, NonceSlot, NonceState
from oracle.telemetry.tracing import start_span
from oracle.telemetry.txmgr_metrics import UNDECIDED, WITHOUT_RECEIPT
from oracle.txmgr.attribution import attribute_used_nonce, record_missing_receipt
from oracle.txmgr.broadcaster import build_trace_attributes, rebroadcast_attempt
from oracle.txmgr.client.receipts import (
    Receipt,
    ReceiptQuorum,
    fetch_block_hashes,
    fetch_receipt_quorum,
    fetch_transaction_count,
    is_block_reorged,
    is_in_block,
)
from oracle.txmgr.client.send_raw import SendOutcome
from oracle.txmgr.context import AccountContext, StepResult, merge_results
from oracle.txmgr.finalizer import finalize_nonce, record_mined_receipt, record_reorged_receipt
from oracle.txmgr.unconfirmed import find_canonical_receipt

# Error classes after which the pool still contains the nonce's earlier attempt.
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

# Maximum number of final nonces that are checked per pass. While no second witness is available,
# more and more nonces wait.
MAX_DECISIONS_PER_PASS = 64

_WatchedSlot = tuple[NonceSlot, list[Attempt]]


def confirm_transactions(context: AccountContext, heads: Heads) -> StepResult | None:
    """Record the changes of all open nonces, or return None if nothing has changed.

    The lowest nonces are processed first, so that transactions that a pool has dropped are sent
    again in order. A known receipt that is not final is not requested again while its block is
    canonical. Nonces that too few witnesses confirm take turns to be checked.

    Raises:
        TransientError: no endpoint answers.
        InputError: an endpoint serves another chain.
    """
    context.sender_account.pool_view.check_chain(context.sender_account.domain.chain_id)
    if not context.sender_account.has_payer:
        return None
    with context.store.read_transaction() as uow:
        slots = uow.outbox.slots.list_unfinished(context.account)
    settled_nonces = {
        candidate.nonce for candidate in _find_slots_awaiting_finality(context, slots, heads)
    }
    selected_slots, deferred_count = _select_slots_to_check(
        context, [candidate for candidate in slots if candidate.nonce not in settled_nonces], heads
    )
    with context.store.read_transaction() as uow:
        attempts_by_slot = uow.outbox.slots.load_attempts(selected_slots)
    confirmation_pass = _ConfirmationPass(context, heads, attempts_by_slot)
    step_results: list[StepResult] = []
    for slot, attempts in attempts_by_slot:
        if slot.nonce < confirmation_pass.used_nonce_count or not confirmation_pass.can_skip_slot(
            slot, attempts
        ):
            with start_span("confirm", **build_trace_attributes(attempts)) as span:
                step_result = confirmation_pass.process_slot(slot, attempts)
                span.record_result({} if step_result is None else {"did": step_result.action})
            step_results += [step_result] if step_result is not None else []
    confirmation_pass.update_metrics(deferred_count)
    return merge_results("confirmed", step_results)


@dataclass
class _ConfirmationPass:
    """One pass over an account's open nonces, with the receipts of all endpoints."""

    context: AccountContext
    heads: Heads
    watched: Sequence[_WatchedSlot]
    # Number of nonces that could be closed if enough endpoints agreed.
    undecided_count: int = field(default=0, init=False)
    # Number of these nonces that the chain has used although no endpoint returns a receipt.
    missing_receipt_count: int = field(default=0, init=False)

    @cached_property
    def receipt_quorum(self) -> ReceiptQuorum:
        """The receipts of every attempt, requested in one batch from each endpoint."""
        hashes = [attempt.signed.tx_hash for _, attempts in self.watched for attempt in attempts]
        pool_view = self.context.sender_account.pool_view
        if hashes:
            return fetch_receipt_quorum(pool_view, hashes)
        return ReceiptQuorum((), pool_view.quorum)

    @cached_property
    def used_nonce_count(self) -> int:
        """The number of nonces used at the final block.

        It is requested from the first endpoint that answers.
        """
        account = self.context.account
        final_block = hex(self.heads.final.number)
        return fetch_transaction_count(
            self.context.sender_account.pool_view, account.address, final_block
        )

    def update_metrics(self, deferred_count: int = 0) -> None:
        """Set the metrics of undecided nonces.

        `deferred_count` is the number of nonces that were not checked.
        """
        UNDECIDED.labels(self.context.role).set(self.undecided_count + deferred_count)
        WITHOUT_RECEIPT.labels(self.context.role).set(self.missing_receipt_count)

    def can_skip_slot(self, slot: NonceSlot, attempts: Sequence[Attempt]) -> bool:
        """Return whether a nonce has no receipt and its attempts need no rebroadcast yet."""
        if (
            slot.state is NonceState.MINED
            or self.receipt_quorum.find_receipt(_get_transaction_hashes(attempts)) is not None
        ):
            return False
        return not any(
            self._is_rebroadcast_due(attempt) for attempt in _iter_pool_attempts(attempts)
        )

    def process_slot(self, slot: NonceSlot, attempts: list[Attempt]) -> StepResult | None:
        """Record a change of a nonce, or rebroadcast its attempts.

        Return None if neither is due.
        """
        receipt = find_canonical_receipt(
            self.context, self.receipt_quorum, _get_transaction_hashes(attempts), slot.block_hash
        )
        if receipt is None:
            return self._process_missing_receipt(slot, attempts)
        mined_attempt = next(
            attempt for attempt in attempts if attempt.signed.tx_hash == receipt.hash
        )
        if not _is_receipt_recorded(slot, mined_attempt, receipt):
            return record_mined_receipt(self.context, slot, mined_attempt, receipt)
        if not self.context.is_final(receipt.block_number, self.heads):
            return None
        if not self.receipt_quorum.has_agreement_on(receipt):
            self.undecided_count += 1
            return None
        return finalize_nonce(self.context, slot, mined_attempt, receipt)

    def _process_missing_receipt(
        self, slot: NonceSlot, attempts: list[Attempt]
    ) -> StepResult | None:
        """Handle a nonce without a receipt.

        The nonce was reorged, is used by a foreign transaction, or is unmined.
        """
        if slot.state is NonceState.MINED:
            return self._process_lost_receipt(slot, attempts)
        if self.used_nonce_count > slot.nonce:
            step_result = attribute_used_nonce(
                self.context, slot, attempts, self.receipt_quorum, self.heads
            )
            if step_result is not None:
                return step_result
            self.undecided_count += 1
            self.missing_receipt_count += 1
        if slot.state is not NonceState.LIVE or self.context.is_halted():
            return None
        return self._rebroadcast_due_attempts(slot, attempts)

    def _process_lost_receipt(self, slot: NonceSlot, attempts: list[Attempt]) -> StepResult | None:
        """Handle a receipt that disappeared.

        A reorg removed the receipt, or the endpoints lack it.
        """
        if self._is_receipt_reorged(slot, attempts):
            for attempt in attempts:
                self.context.rebroadcast_backoff.reset_wait(attempt.id)
            return record_reorged_receipt(self.context, slot)
        if not self.context.is_final(slot.block_number or 0, self.heads):
            return None
        self.undecided_count += 1
        self.missing_receipt_count += 1
        return record_missing_receipt(self.context, slot)

    def _rebroadcast_due_attempts(
        self, slot: NonceSlot, attempts: Sequence[Attempt]
    ) -> StepResult | None:
        """Rebroadcast the attempts of a nonce that are due.

        These are the newest attempt, and older ones if all newer ones were refused. The result is
        None if no rebroadcast was due, or if the results equal the previous ones.
        """
        steps: list[StepResult] = []
        for attempt in _iter_pool_attempts(attempts):
            if not self._is_rebroadcast_due(attempt):
                continue
            outcome, step_result = rebroadcast_attempt(self.context, slot, attempt, self.heads)
            steps += [] if step_result is None else [step_result]
            if outcome.value not in _REFUSED:
                break
        return merge_results("sent", steps)

    def _is_rebroadcast_due(self, attempt: Attempt) -> bool:
        """Return whether an attempt is due for a rebroadcast.

        If a reorg has lowered the head since the last broadcast, the attempt is due at once.
        """
        sent_block = attempt.last_sent_block
        wait_blocks = self.context.rebroadcast_backoff.get_wait_blocks(attempt.id)
        return sent_block is not None and abs(self.heads.latest.number - sent_block) >= wait_blocks

    def _is_receipt_reorged(self, slot: NonceSlot, attempts: Sequence[Attempt]) -> bool:
        """Return whether a reorg removed the receipt from the chain.

        An endpoint that does not answer or that lags behind is no evidence of a reorg. The receipt
        also stays valid while any endpoint returns its block with the transaction in it.
        """
        block_number, block_hash = slot.block_number, slot.block_hash
        if block_number is None or block_hash is None:
            return False
        pool_view = self.context.sender_account.pool_view
        hashes = _get_transaction_hashes(attempts)
        if len(self.receipt_quorum.list_endpoints_without_receipt(hashes)) == len(
            pool_view.callers
        ):
            return not is_in_block(pool_view, (block_number, block_hash), hashes)
        return is_block_reorged(self.context.get_synced_pool_view(), block_number, block_hash)


def _is_receipt_recorded(slot: NonceSlot, mined_attempt: Attempt, receipt: Receipt) -> bool:
    return (slot.state, slot.won_attempt, slot.block_hash, slot.succeeded) == (
        NonceState.MINED,
        mined_attempt.id,
        receipt.block_hash,
        receipt.succeeded,
    )


def _get_transaction_hashes(attempts: Sequence[Attempt]) -> list[Hash]:
    return [attempt.signed.tx_hash for attempt in attempts]


def _select_slots_to_check(
    context: AccountContext, slots: Sequence[NonceSlot], heads: Heads
) -> tuple[list[NonceSlot], int]:
    """Select the slots to check in this pass, and count those that have to wait.

    The receipts of the selected slots are requested. All slots that are not final are selected. Of
    the final slots, the lowest are selected, and some of the others in turn, so that a nonce that
    cannot be closed does not block later ones.
    """
    final_slots = [
        slot
        for slot in slots
        if slot.block_number is not None and context.is_final(slot.block_number, heads)
    ]
    if len(final_slots) <= MAX_DECISIONS_PER_PASS:
        return list(slots), 0
    half_limit = MAX_DECISIONS_PER_PASS // 2
    remaining_slots = final_slots[half_limit:]
    start_index = heads.latest.number * half_limit % len(remaining_slots)
    selected_nonces = {
        slot.nonce
        for slot in (
            *final_slots[:half_limit],
            *(remaining_slots[start_index:] + remaining_slots[:start_index])[:half_limit],
        )
    }
    deferred_nonces = {slot.nonce for slot in final_slots} - selected_nonces
    return [slot for slot in slots if slot.nonce not in deferred_nonces], len(deferred_nonces)


def _find_slots_awaiting_finality(
    context: AccountContext, slots: list[NonceSlot], heads: Heads
) -> list[NonceSlot]:
    """Find the mined slots whose block is canonical but not final."""
    recent_slots = [
        slot
        for slot in slots
        if slot.block_number is not None and not context.is_final(slot.block_number, heads)
    ]
    block_numbers = sorted(
        {slot.block_number for slot in recent_slots if slot.block_number is not None}
    )
    hashes = (
        fetch_block_hashes(context.get_synced_pool_view(), block_numbers) if block_numbers else {}
    )
    return [slot for slot in recent_slots if hashes.get(slot.block_number or 0) == slot.block_hash]


def _iter_pool_attempts(attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    """Yield the attempts that a pool may accept, from the newest to older ones.

    An older attempt is yielded only if the pools refused all newer ones. If a pool has lost an
    earlier attempt and keeps refusing the more expensive one, the earlier attempt must be sent
    again.
    """
    for attempt in reversed(attempts):
        yield attempt
        if attempt.last_error_class not in _REFUSED:
            return
