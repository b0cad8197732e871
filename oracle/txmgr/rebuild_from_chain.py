"""Rebuilds an account's outbox from the chain after a loss or restore of the database.

The transactions that were sent with the lost database are searched for in the blocks, by nonce. No
nonce is ever assigned a second time. See docs/explanation/transactions.md#crash-points.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oracle.errors import TransientError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import NOOP, Account, CallReceipt, CallRequest, Stamp
from oracle.txmgr.client.chain_nonces import (
    MinedTransaction,
    NonceCounts,
    fetch_nonce_counts,
    fetch_transactions_by_nonce,
    find_agreed_nonce_counts,
)
from oracle.txmgr.context import AccountContext


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The changes that a rebuild of the outbox would write.

    `next_nonce` is the next nonce of the stored account, or None if the account is not stored.
    Each of the `nonces` gets a slot. `transaction_by_nonce` contains the transactions that used
    these nonces, if they were found in the blocks. `nonces_ahead` are nonces of this database that
    were used on chain for other transactions, by the lost database or another program. `dropped`
    are nonces that were rebuilt while pending, and whose transactions are no longer in any pool.
    """

    account: Account
    next_nonce: int | None
    mined: int
    pending: int
    nonces: range
    nonces_ahead: Sequence[int]
    dropped: Sequence[int]
    transaction_by_nonce: Mapping[int, MinedTransaction]

    @property
    def is_empty(self) -> bool:
        """Whether the rebuild has nothing to write."""
        return not self.may_have_lost_calls and not self.dropped

    @property
    def may_have_lost_calls(self) -> bool:
        """Whether the lost database may have recorded calls or signatures that are missing now."""
        return bool(self.nonces or self.nonces_ahead)


def plan_outbox_rebuild(context: AccountContext, max_blocks: int) -> RebuildPlan:
    """Compare the account's nonces with the last `max_blocks` blocks of the chain.

    Raises:
        TransientError: too few witnesses answer, or too few agree on the transaction count.
    """
    account, pool_view = context.account, context.sender_account.pool_view
    nonce_counts = _fetch_agreed_counts(context)
    with context.store.read_transaction() as uow:
        next_nonce = uow.outbox.accounts.find_next_nonce(account)
        open_nonces = [
            (
                slot.nonce,
                {attempt.signed.tx_hash for attempt in uow.outbox.slots.list_attempts(slot)},
            )
            for slot in uow.outbox.slots.list_unfinished(account)
            if slot.nonce < nonce_counts.mined
        ]
        lost_nonces = uow.outbox.slots.list_foreign_nonces(account)
        dropped_nonces = uow.outbox.gaps.list_gaps(account, nonce_counts.pending)
    lowest_nonce = min([next_nonce or 0, *(nonce for nonce, _ in open_nonces), *lost_nonces])
    transaction_by_nonce = fetch_transactions_by_nonce(
        pool_view, account.address, range(lowest_nonce, nonce_counts.mined), max_blocks
    )
    # If the account is not stored, the first nonce is that of the oldest transaction found.
    first_nonce = (
        min(transaction_by_nonce, default=nonce_counts.mined) if next_nonce is None else next_nonce
    )
    nonces = range(first_nonce, max(first_nonce, nonce_counts.pending))
    nonces_ahead = [
        nonce
        for nonce, own_hashes in open_nonces
        if nonce in transaction_by_nonce and transaction_by_nonce[nonce].hash not in own_hashes
    ]
    nonces_ahead += [nonce for nonce in lost_nonces if nonce in transaction_by_nonce]
    return RebuildPlan(
        account=account,
        next_nonce=next_nonce,
        mined=nonce_counts.mined,
        pending=nonce_counts.pending,
        nonces=nonces,
        nonces_ahead=nonces_ahead,
        dropped=dropped_nonces,
        transaction_by_nonce=transaction_by_nonce,
    )


def rebuild_outbox(
    context: AccountContext,
    rebuild_plan: RebuildPlan,
    actor: str,
    write_extra: Callable[[UnitOfWork, Stamp], None] = lambda *_: None,
) -> None:
    """Write the final slots and the next nonce in one commit.

    `write_extra` writes further rows in the same commit. A dropped nonce is assigned to a no-op,
    which the daemon sends. Otherwise no later nonce could be mined.

    Raises:
        TransientError: the database has changed since `plan_outbox_rebuild`.
    """
    stamp = context.stamp._replace(actor=actor)
    account = rebuild_plan.account
    with context.write_transaction() as uow:
        outbox = uow.outbox
        if outbox.accounts.find_next_nonce(account) != rebuild_plan.next_nonce:
            raise TransientError("the outbox has changed in the meantime; run the command again")
        if rebuild_plan.next_nonce is None:
            outbox.accounts.enroll_account(account, rebuild_plan.nonces.start, stamp)
        for nonce in sorted({*rebuild_plan.nonces, *rebuild_plan.nonces_ahead}):
            mined_transaction = rebuild_plan.transaction_by_nonce.get(nonce)
            tx_hash, call_receipt = (
                (None, None)
                if mined_transaction is None
                else (mined_transaction.hash, _build_call_receipt(mined_transaction))
            )
            outbox.slots.record_rebuilt_nonce(account, nonce, tx_hash, call_receipt, stamp)
        for nonce in rebuild_plan.dropped:
            outbox.gaps.reopen_nonce(account, nonce, stamp)
            outbox.intents.add(_build_noop_request(account, nonce), stamp)
        outbox.accounts.raise_next_nonce(
            account, max(rebuild_plan.next_nonce or 0, rebuild_plan.nonces.stop), stamp
        )
        write_extra(uow, stamp)


def _fetch_agreed_counts(context: AccountContext) -> NonceCounts:
    pool_view, address = context.sender_account.pool_view, context.account.address
    counts = fetch_nonce_counts(pool_view, address)
    agreed_counts = find_agreed_nonce_counts(counts, pool_view.quorum)
    if agreed_counts is None:
        reported_counts_text = ", ".join(
            f"{count.endpoint} {count.mined} and {count.pending}" for count in counts
        )
        raise TransientError(
            f"two {pool_view.quorum.witness_kind}s must agree on the mined and the pending nonce "
            f"of {address}; they report: {reported_counts_text}; wait until they agree, or remove "
            "the wrong one from [chain] endpoints"
        )
    return agreed_counts


def _build_noop_request(account: Account, nonce: int) -> CallRequest:
    """Build a transfer of zero wei to the account itself.

    Its only effect is to use up a nonce.
    """
    return CallRequest(
        account=account,
        contract=account.address,
        kind=NOOP,
        dedup_key=f"noop:rebuilt:nonce={nonce}",
        calldata="0x",
        priority=0,
    )


def _build_call_receipt(mined_transaction: MinedTransaction) -> CallReceipt:
    return CallReceipt(
        mined_transaction.block_number,
        mined_transaction.block_hash,
        mined_transaction.succeeded,
        mined_transaction.gas_used,
        mined_transaction.gas_price,
        mined_transaction.time,
        mined_transaction.l1_fee,
    )
