"""Rebuilds the outbox of an account from the chain after the database was lost or restored.

The transactions that the lost database sent are read from the blocks, by nonce. No nonce is ever
assigned again. See docs/explanation/transactions.md#crash-points.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oracle.errors import TransientError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import NOOP, Account, CallRequest, Mined, Stamp
from oracle.txmgr.client.chain_nonces import Count, Spent, agreed_count, counts_of, spent_nonces
from oracle.txmgr.context import TxContext


@dataclass(frozen=True, slots=True)
class RecoveryFindings:
    """The changes that a rebuild would write; `next_nonce` is None if the account is not stored.

    `nonces` get a slot each, and `spent` holds the transactions that used them, if the blocks have
    them. `nonces_ahead` are nonces of calls of this database that the lost database or another
    program used for something else. `dropped` nonces were rebuilt while pending, and no pool has
    them any more.
    """

    account: Account
    known: int | None
    mined: int
    pending: int
    nonces: range
    nonces_ahead: Sequence[int]
    dropped: Sequence[int]
    spent: Mapping[int, Spent]

    @property
    def is_nothing(self) -> bool:
        """Whether the database has everything that the chain has."""
        return not self.may_have_lost_more and not self.dropped

    @property
    def may_have_lost_more(self) -> bool:
        """The lost database did what this one does not know: signatures may be lost as well."""
        return bool(self.nonces or self.nonces_ahead)


def compare_with_chain(context: TxContext, most_blocks: int) -> RecoveryFindings:
    """Compare the account's nonces with the chain, back to at most `max_blocks` blocks.

    Raises:
        TransientError: too few witnesses answer, or agree on the transaction count.
    """
    account, lines = context.account, context.publisher.lines
    count = _fetch_agreed_count(context)
    with context.store.reading() as uow:
        known = uow.outbox.accounts.next_nonce(account)
        open_nonces = [
            (
                slot.nonce,
                {attempt.signed.tx_hash for attempt in uow.outbox.slots.attempts(slot)},
            )
            for slot in uow.outbox.slots.watched(account)
            if slot.nonce < count.mined
        ]
        lost = uow.outbox.slots.lost(account)
        dropped = uow.outbox.gaps.of(account, count.pending)
    lowest = min([known or 0, *(nonce for nonce, _ in open_nonces), *lost])
    spent = spent_nonces(lines, account.address, range(lowest, count.mined), most_blocks)
    # If the whole database was lost, transactions below the searched blocks are not written.
    first = min(spent, default=count.mined) if known is None else known
    nonces = range(first, max(first, count.pending))
    nonces_ahead = [
        nonce
        for nonce, own_hashes in open_nonces
        if nonce in spent and spent[nonce].hash not in own_hashes
    ]
    nonces_ahead += [nonce for nonce in lost if nonce in spent]
    return RecoveryFindings(
        account=account,
        known=known,
        mined=count.mined,
        pending=count.pending,
        nonces=nonces,
        nonces_ahead=nonces_ahead,
        dropped=dropped,
        spent=spent,
    )


def rebuild_outbox(
    context: TxContext,
    found: RecoveryFindings,
    actor: str,
    also: Callable[[UnitOfWork, Stamp], None] = lambda *_: None,
) -> None:
    """Write the findings in one commit: final slots, the next nonce, and what `write_extra` adds.

    A nonce that no pool has any more is given to a no-op, which the daemon sends, because no later
    nonce could land.

    Raises:
        TransientError: the database has changed since `compare_with_chain`.
    """
    stamp, account = context.stamp._replace(actor=actor), found.account
    with context.writing() as uow:
        outbox = uow.outbox
        if outbox.accounts.next_nonce(account) != found.known:
            raise TransientError("the outbox changed meanwhile; run the command again")
        if found.known is None:
            outbox.accounts.enroll(account, found.nonces.start, stamp)
        for nonce in sorted({*found.nonces, *found.nonces_ahead}):
            spent = found.spent.get(nonce)
            tx_hash, mined = (None, None) if spent is None else (spent.hash, _mined(spent))
            outbox.slots.rebuild(account, nonce, tx_hash, mined, stamp)
        for nonce in found.dropped:
            outbox.gaps.reopen(account, nonce, stamp)
            outbox.intents.add(_noop(account, nonce), stamp)
        outbox.accounts.rebuild(account, max(found.known or 0, found.nonces.stop), stamp)
        also(uow, stamp)


def _fetch_agreed_count(context: TxContext) -> Count:
    lines, address = context.publisher.lines, context.account.address
    counts = counts_of(lines, address)
    agreed = agreed_count(counts, lines.quorum)
    if agreed is None:
        reported = ", ".join(
            f"{count.endpoint} {count.mined} and {count.pending}" for count in counts
        )
        raise TransientError(
            f"two {lines.quorum.witness_kind}s have to agree on how many transactions of "
            f"{address} are in blocks, and with the pool's; they report: {reported}; wait until "
            "they are in step, or take the one that is wrong out of [chain] endpoints"
        )
    return agreed


def _noop(account: Account, nonce: int) -> CallRequest:
    """Return a no-op call to the account itself, to fill a nonce."""
    return CallRequest(
        account=account,
        contract=account.address,
        kind=NOOP,
        dedup_key=f"noop:rebuilt:nonce={nonce}",
        calldata="0x",
        priority=0,
    )


def _mined(spent: Spent) -> Mined:
    return Mined(
        spent.block_number,
        spent.block_hash,
        spent.succeeded,
        spent.gas_used,
        spent.gas_price,
        spent.time,
        spent.l1_fee,
    )
