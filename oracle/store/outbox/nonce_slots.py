"""Nonce slots and the bytes signed for them: one slot per nonce, never reused.

The nonce is assigned only here, in the commit that gives it to an intent. See
docs/explanation/transactions.md#states.
"""

from sqlalchemy import Connection, insert, update

from oracle.domain.ids import Hash
from oracle.errors import FatalError
from oracle.store.outbox.intents import Intents
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.nonce_queries import WatchedNonceQueries, of_account
from oracle.store.outbox.records import (
    NOOP,
    REBUILT,
    Account,
    Attempt,
    AttemptReason,
    CallRequest,
    Intent,
    IntentState,
    JournalSubject,
    Mined,
    NonceSlot,
    NonceState,
    Paid,
    PauseKind,
    SignedCall,
    Stamp,
)
from oracle.store.tables.outbox_tables import pub_attempt, pub_nonce

_NO_RECEIPT: dict[str, None] = dict.fromkeys(
    (
        "won_attempt",
        "block_number",
        "block_hash",
        "receipt_status",
        "gas_used",
        "gas_price_wei",
        "l1_fee_wei",
        "mined_at",
    )
)
# States of intents that may still land on a nonce, beside the winner.
_RIVALS = frozenset({IntentState.ASSIGNED, IntentState.LIVE, IntentState.MINED})


class NonceSlots(WatchedNonceQueries):
    """Write access to the tables pub_nonce and pub_attempt, inside one transaction."""

    def __init__(self, connection: Connection, journal: Journal, intents: Intents) -> None:
        super().__init__(connection)
        self._journal = journal
        self._intents = intents

    def open(self, intent: Intent, nonce: int, block: int, stamp: Stamp) -> None:
        """Assign a nonce to the intent: a new slot, or a vacant one that it takes over.

        `block` is the head's number, because the age of a transaction is counted in blocks.
        """
        account = intent.request.account
        moved = self._connection.execute(
            update(pub_nonce)
            .where(of_account(account), pub_nonce.c.nonce == nonce)
            .values(intent_id=intent.id, opened_at=stamp.at, opened_block=block)
        )
        if moved.rowcount == 0:
            self._connection.execute(
                insert(pub_nonce).values(
                    chain_id=account.chain_id,
                    sender=account.address,
                    nonce=nonce,
                    intent_id=intent.id,
                    state=NonceState.OPEN.value,
                    opened_at=stamp.at,
                    opened_block=block,
                )
            )
        self._intents.move(intent, IntentState.ASSIGNED, stamp, {"nonce": nonce})

    def replace_call(self, slot: NonceSlot, intent: Intent, block: int, stamp: Stamp) -> None:
        """Assign a ready intent to another's nonce that may still land: one of them will.

        The other intent keeps its state until a receipt decides
        (docs/explanation/transactions.md#states).

        Raises:
            FatalError: the slot is mined or final, or changed since it was read.
        """
        if slot.state not in {NonceState.OPEN, NonceState.LIVE}:
            raise FatalError(f"outbox nonce {slot.nonce} is {slot.state}: it is taken")
        self._set(
            slot,
            slot.state,
            intent_id=intent.id,
            last_bump_at=stamp.at,
            last_bump_block=block,
        )
        values = {"nonce": slot.nonce, "replaces": slot.intent_id}
        self._intents.move(intent, IntentState.ASSIGNED, stamp, values)

    def sign(
        self, slot: NonceSlot, signed: SignedCall, reason: AttemptReason, stamp: Stamp
    ) -> int:
        """Store signed bytes before they are sent; return the attempt's id.

        The bytes are for the intent that the slot serves now.
        """
        seq = len(self.attempts(slot))
        written = self._connection.execute(
            insert(pub_attempt)
            .values(
                chain_id=slot.account.chain_id,
                sender=slot.account.address,
                nonce=slot.nonce,
                intent_id=slot.intent_id,
                seq=seq,
                tx_hash=signed.tx_hash,
                raw_tx=signed.raw,
                tx_type=2,
                max_fee_wei=signed.max_fee_wei,
                tip_wei=signed.tip_wei,
                gas_limit=signed.gas_limit,
                lease_epoch=stamp.epoch,
                signed_at=stamp.at,
                sends=0,
                reason=reason.value,
            )
            .returning(pub_attempt.c.id)
        )
        attempt_id = int(written.scalar_one())
        about = JournalSubject(slot.intent_id, slot.nonce, attempt_id)
        if reason is not AttemptReason.FIRST:
            self._set(slot, slot.state, last_bump_at=stamp.at)
        self._journal.write("signed", stamp, about, f"{signed.tx_hash} {reason.value}")
        return attempt_id

    def sent(
        self, slot: NonceSlot, attempt: Attempt, block: int, error: str | None, stamp: Stamp
    ) -> None:
        """Record that the bytes were sent at head `block`, and the endpoints' response.

        `error` is `class: text`, or None if an endpoint accepted them.
        """
        error_class, _, text = (error or "").partition(": ")
        is_first = attempt.sends == 0
        first = {"first_sent_at": stamp.at, "first_sent_block": block} if is_first else {}
        if error is None and attempt.last_error_class == PauseKind.FUNDS.value:
            # No pool accepted them until now: waiting in blocks starts here.
            first = {"first_sent_block": block}
        self._connection.execute(
            update(pub_attempt)
            .where(pub_attempt.c.id == attempt.id)
            .values(
                {
                    **first,
                    "sends": pub_attempt.c.sends + 1,
                    "last_sent_at": stamp.at,
                    "last_sent_block": block,
                    "last_error_class": error_class or None,
                    "last_error_text": text or None,
                }
            )
        )
        about = JournalSubject(attempt.intent_id, slot.nonce, attempt.id)
        self._journal.write("sent", stamp, about, error or "")
        is_bump = is_first and attempt.reason is not AttemptReason.FIRST
        bumped: dict[str, str | int | None] = {"last_bump_block": block} if is_bump else {}
        if slot.state is NonceState.OPEN:
            self._set(slot, NonceState.LIVE, **bumped)
        elif bumped:
            self._set(slot, slot.state, **bumped)
        self._follow(attempt.intent_id, IntentState.ASSIGNED, IntentState.LIVE, stamp)

    def mined(self, slot: NonceSlot, attempt: Attempt, mined: Mined, stamp: Stamp) -> None:
        """Record a receipt, or a new one after a reorg; rival intents of the nonce have lost."""
        self._set(
            slot,
            NonceState.MINED,
            intent_id=attempt.intent_id,
            won_attempt=attempt.id,
            block_number=mined.block_number,
            block_hash=mined.block_hash,
            receipt_status=int(mined.succeeded),
            gas_used=mined.gas_used,
            gas_price_wei=mined.gas_price_wei,
            l1_fee_wei=mined.l1_fee_wei,
            mined_at=stamp.at,
        )
        won = self._named(attempt.intent_id)
        # A call that an operator replaced by a no-op must not be retried.
        is_given_up = won.request.kind == NOOP
        to = IntentState.CANCELLED if is_given_up else IntentState.SUPERSEDED
        # Losers first: the unique index allows one intent per kind.
        for rival in self._intents.bound_to(slot.account, slot.nonce):
            if rival.id != attempt.intent_id and rival.state in _RIVALS:
                lost = {"superseded_by": attempt.intent_id}
                self._intents.move(rival, to, stamp, lost)
        outcome = f"block {mined.block_number}, {'worked' if mined.succeeded else 'failed'}"
        self._intents.note_mined(won, outcome, stamp)

    def unmined(self, slot: NonceSlot, stamp: Stamp) -> None:
        """Record that a reorg removed the receipt: the same bytes are sent again."""
        self._set(slot, NonceState.LIVE, **_NO_RECEIPT)
        intent = self._named(slot.intent_id)
        about = JournalSubject(intent.id, slot.nonce)
        self._journal.write("reorged", stamp, about, f"block {slot.block_number}")
        self._intents.move(intent, IntentState.LIVE, stamp)

    def finalize(
        self, slot: NonceSlot, stamp: Stamp, reason: str | None = None, paid: Paid | None = None
    ) -> None:
        """Close a mined slot for good; `reason` is the revert reason of a failed call.

        `call_cost` is the cost, if it is more certain now than when the call was mined.
        """
        price = {} if paid is None else paid._asdict()
        self._set(slot, NonceState.FINAL, finalised_at=stamp.at, **price)
        to = IntentState.FINAL if slot.succeeded else IntentState.REVERTED
        # The class is the contract's error name, without its arguments.
        why = {"error_class": reason and reason.partition("(")[0], "error_text": reason}
        self._intents.move(self._named(slot.intent_id), to, stamp, why)

    def lose_to_foreign(self, slot: NonceSlot, stamp: Stamp, reason: str | None = None) -> None:
        """Record that a foreign transaction used this nonce: an operator must investigate."""
        why = {"error_class": "foreign", "error_text": reason}
        self._set(slot, NonceState.FOREIGN, finalised_at=stamp.at)
        for intent in self._intents.bound_to(slot.account, slot.nonce):
            if intent.state in {IntentState.ASSIGNED, IntentState.LIVE}:
                self._intents.move(intent, IntentState.HELD, stamp, why)

    def rebuild(
        self, account: Account, nonce: int, tx_hash: Hash | None, mined: Mined | None, stamp: Stamp
    ) -> None:
        """Record a nonce that was used on chain but never assigned by this database.

        The slot is final from the start: nothing is ever signed for it. `tx_hash` and `receipt`
        are None if the transaction was not found, or waits in the pool. An intent that held the
        nonce has lost it.
        """
        request = CallRequest(account, account.address, REBUILT, f"rebuilt:nonce={nonce}", "0x")
        intent = self._named(self._intents.add(request, stamp) or 0)
        found = f"{tx_hash}" if mined is None else f"{tx_hash} in block {mined.block_number}"
        values: dict[str, str | int | None] = {
            "nonce": nonce,
            "error_class": "rebuilt",
            "error_text": tx_hash and found,
        }
        self._intents.move(intent, IntentState.FINAL, stamp, values)
        for rival in self._intents.bound_to(account, nonce):
            # An intent is held if its nonce was found to be foreign.
            if rival.id != intent.id and rival.state in _RIVALS | {IntentState.HELD}:
                lost = {"superseded_by": intent.id}
                self._intents.move(rival, IntentState.SUPERSEDED, stamp, lost)
        self._close_rebuilt(account, nonce, intent.id, (mined, stamp))

    def _close_rebuilt(
        self, account: Account, nonce: int, intent_id: int, seen: tuple[Mined | None, Stamp]
    ) -> None:
        mined, stamp = seen
        row: dict[str, str | int | None] = {
            "intent_id": intent_id,
            "state": NonceState.FINAL.value,
            "finalised_at": stamp.at,
            "opened_at": stamp.at if mined is None or mined.time is None else mined.time,
        }
        if mined is not None:
            row |= {
                "block_number": mined.block_number,
                "block_hash": mined.block_hash,
                "receipt_status": int(mined.succeeded),
                "gas_used": mined.gas_used,
                "gas_price_wei": mined.gas_price_wei,
                "l1_fee_wei": mined.l1_fee_wei,
                "opened_block": mined.block_number,
            }
        mine = of_account(account) & (pub_nonce.c.nonce == nonce)
        if self._connection.execute(update(pub_nonce).where(mine).values(row)).rowcount == 0:
            key = {"chain_id": account.chain_id, "sender": account.address, "nonce": nonce}
            self._connection.execute(insert(pub_nonce).values({**key, **row}))

    def _follow(self, intent_id: int, was: IntentState, to: IntentState, stamp: Stamp) -> None:
        intent = self._named(intent_id)
        if intent.state is was:
            self._intents.move(intent, to, stamp)

    def _named(self, intent_id: int) -> Intent:
        intent = self._intents.named(intent_id)
        if intent is None:
            raise FatalError(f"outbox intent {intent_id} is missing")
        return intent

    def _set(self, slot: NonceSlot, state: NonceState, **values: str | int | None) -> None:
        mine = of_account(slot.account) & (pub_nonce.c.nonce == slot.nonce)
        as_it_was = update(pub_nonce).where(mine, pub_nonce.c.state == slot.state.value)
        changed = self._connection.execute(as_it_was.values({**values, "state": state.value}))
        if changed.rowcount != 1:
            raise FatalError(f"outbox nonce {slot.nonce} is no longer {slot.state}")
