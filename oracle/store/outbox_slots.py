"""Nonces and the bytes signed for them (publishing.md 3.3): one slot a nonce, never reused.

The nonce is counted here, in the commit that gives it to an intent, and nowhere else.
"""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, insert, select, update

from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError
from oracle.store.outbox_intents import Intents
from oracle.store.outbox_journal import Journal
from oracle.store.outbox_rows import (
    About,
    Account,
    Attempt,
    Intent,
    IntentState,
    Mined,
    SignedCall,
    Slot,
    SlotState,
    Stamp,
)
from oracle.store.outbox_tables import pub_attempt, pub_intent, pub_slot

_NO_RECEIPT: dict[str, None] = dict.fromkeys(
    ("won_attempt", "block_number", "block_hash", "receipt_status", "gas_used", "gas_price_wei")
)
_WATCHED = (SlotState.OPEN, SlotState.LIVE, SlotState.MINED)


class Slots:
    """The tables pub_slot and pub_attempt, inside one transaction."""

    def __init__(self, connection: Connection, journal: Journal, intents: Intents) -> None:
        self._connection = connection
        self._journal = journal
        self._intents = intents

    def watched(self, account: Account) -> list[Slot]:
        """Return every slot that is not final, by nonce."""
        chosen = (
            select(pub_slot)
            .where(
                _of(account),
                pub_slot.c.state.in_([state.value for state in _WATCHED]),
            )
            .order_by(pub_slot.c.nonce)
        )
        return [_slot(row) for row in self._connection.execute(chosen)]

    def at(self, account: Account, nonce: int) -> Slot | None:
        """Return the slot of one nonce, final ones too."""
        chosen = select(pub_slot).where(_of(account), pub_slot.c.nonce == nonce)
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else _slot(row)

    def attempts(self, slot: Slot) -> list[Attempt]:
        """Return the bytes signed for a nonce, in the order of signing."""
        chosen = (
            select(pub_attempt)
            .where(
                pub_attempt.c.chain_id == slot.account.chain_id,
                pub_attempt.c.sender == slot.account.address,
                pub_attempt.c.nonce == slot.nonce,
            )
            .order_by(pub_attempt.c.seq)
        )
        return [_attempt(row) for row in self._connection.execute(chosen)]

    def vacant(self, account: Account) -> Slot | None:
        """Return the lowest nonce that nothing was ever signed for and no intent holds now."""
        signed = exists().where(
            pub_attempt.c.chain_id == pub_slot.c.chain_id,
            pub_attempt.c.sender == pub_slot.c.sender,
            pub_attempt.c.nonce == pub_slot.c.nonce,
        )
        chosen = (
            select(pub_slot)
            .join(pub_intent, pub_intent.c.id == pub_slot.c.intent_id)
            .where(
                _of(account),
                pub_slot.c.state == SlotState.OPEN.value,
                (pub_intent.c.state != IntentState.ASSIGNED.value)
                | (pub_intent.c.nonce != pub_slot.c.nonce),
                ~signed,
            )
            .order_by(pub_slot.c.nonce)
            .limit(1)
        )
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else _slot(row)

    def open(self, intent: Intent, nonce: int, stamp: Stamp) -> None:
        """Give the intent a nonce, from now on: a new slot, or a vacant one that it takes over."""
        account = intent.wish.account
        moved = self._connection.execute(
            update(pub_slot)
            .where(_of(account), pub_slot.c.nonce == nonce)
            .values(intent_id=intent.id, opened_at=stamp.at)
        )
        if moved.rowcount == 0:
            self._connection.execute(
                insert(pub_slot).values(
                    chain_id=account.chain_id,
                    sender=account.address,
                    nonce=nonce,
                    intent_id=intent.id,
                    state=SlotState.OPEN.value,
                    opened_at=stamp.at,
                )
            )
        self._intents.move(intent, IntentState.ASSIGNED, stamp, {"nonce": nonce})

    def sign(self, slot: Slot, signed: SignedCall, stamp: Stamp) -> int:
        """Store signed bytes before anything is sent; return the attempt's id."""
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
            )
            .returning(pub_attempt.c.id)
        )
        attempt_id = int(written.scalar_one())
        about = About(slot.intent_id, slot.nonce, attempt_id)
        self._journal.write("signed", stamp, about, signed.tx_hash)
        return attempt_id

    def sent(
        self, slot: Slot, attempt: Attempt, block: int, error: str | None, stamp: Stamp
    ) -> None:
        """Note that the bytes were sent at head `block`, and how the endpoints took it."""
        first = {"first_sent_at": stamp.at} if attempt.sends == 0 else {}
        self._connection.execute(
            update(pub_attempt)
            .where(pub_attempt.c.id == attempt.id)
            .values(
                {
                    **first,
                    "sends": pub_attempt.c.sends + 1,
                    "last_sent_at": stamp.at,
                    "last_sent_block": block,
                    "last_error_class": error,
                }
            )
        )
        about = About(attempt.intent_id, slot.nonce, attempt.id)
        self._journal.write("sent", stamp, about, error or "")
        if slot.state is SlotState.OPEN:
            self._set(slot, SlotState.LIVE)
            self._follow(attempt.intent_id, IntentState.ASSIGNED, IntentState.LIVE, stamp)

    def mined(self, slot: Slot, attempt: Attempt, mined: Mined, stamp: Stamp) -> None:
        """Note a receipt, or a new one after a reorg; another payload of the nonce has lost."""
        self._set(
            slot,
            SlotState.MINED,
            intent_id=attempt.intent_id,
            won_attempt=attempt.id,
            block_number=mined.block_number,
            block_hash=mined.block_hash,
            receipt_status=int(mined.succeeded),
            gas_used=mined.gas_used,
            gas_price_wei=mined.gas_price_wei,
        )
        if slot.intent_id != attempt.intent_id:
            self._lose(slot.intent_id, attempt.intent_id, stamp)
        outcome = f"block {mined.block_number}, {'worked' if mined.succeeded else 'failed'}"
        self._intents.note_mined(self._named(attempt.intent_id), outcome, stamp)

    def unmined(self, slot: Slot, stamp: Stamp) -> None:
        """Note that a reorg took the receipt away: the same bytes are sent again."""
        self._set(slot, SlotState.LIVE, **_NO_RECEIPT)
        intent = self._named(slot.intent_id)
        about = About(intent.id, slot.nonce)
        self._journal.write("reorged", stamp, about, f"block {slot.block_number}")
        self._intents.move(intent, IntentState.LIVE, stamp)

    def settle(self, slot: Slot, stamp: Stamp, reason: str | None = None) -> None:
        """Close a mined slot for good; `reason`: why the call failed, where it did."""
        self._set(slot, SlotState.FINAL, finalised_at=stamp.at)
        to = IntentState.FINAL if slot.succeeded else IntentState.REVERTED
        # The contract's own word, without its arguments, is the class.
        why = {"error_class": reason and reason.partition("(")[0], "error_text": reason}
        self._intents.move(self._named(slot.intent_id), to, stamp, why)

    def lose_to_foreign(self, slot: Slot, stamp: Stamp) -> None:
        """Note that somebody else used this nonce of the key: a human has to look at it."""
        self._set(slot, SlotState.FOREIGN, finalised_at=stamp.at)
        intent = self._named(slot.intent_id)
        if intent.state in {IntentState.ASSIGNED, IntentState.LIVE}:
            self._intents.move(intent, IntentState.HELD, stamp, {"error_class": "foreign"})

    def reserved(self, account: Account) -> int:
        """Return what the open slots may still cost at most, in wei."""
        live = pub_slot.c.state.in_([SlotState.OPEN.value, SlotState.LIVE.value])
        return sum(cost or 0 for cost, _, _ in self._costs(_of(account) & live))

    def committed_since(self, account: Account, time: int) -> int:
        """Return what slots opened since `time` (unix seconds) cost, or may cost, in wei."""
        total = 0
        for most, gas_used, price in self._costs(_of(account) & (pub_slot.c.opened_at >= time)):
            total += (most or 0) if gas_used is None else gas_used * price
        return total

    def gas_spent(self) -> tuple[int, int]:
        """Return (gas, wei) of everything that is final."""
        rows = self._connection.execute(
            select(pub_slot.c.gas_used, pub_slot.c.gas_price_wei).where(
                pub_slot.c.state == SlotState.FINAL.value
            )
        )
        spent = [(row[0], row[0] * row[1]) for row in rows]
        return sum(gas for gas, _ in spent), sum(wei for _, wei in spent)

    def _costs(self, where: ColumnElement[bool]) -> list[tuple[Any, ...]]:
        rows = self._connection.execute(
            select(pub_intent.c.max_cost_wei, pub_slot.c.gas_used, pub_slot.c.gas_price_wei)
            .join(pub_intent, pub_intent.c.id == pub_slot.c.intent_id)
            # The intent of a vacant slot has lost its nonce: it costs nothing.
            .where(where, pub_intent.c.nonce == pub_slot.c.nonce)
        )
        return [tuple(row) for row in rows]

    def _lose(self, loser: int, winner: int, stamp: Stamp) -> None:
        intent = self._named(loser)
        self._intents.move(intent, IntentState.SUPERSEDED, stamp, {"superseded_by": winner})

    def _follow(self, intent_id: int, was: IntentState, to: IntentState, stamp: Stamp) -> None:
        intent = self._named(intent_id)
        if intent.state is was:
            self._intents.move(intent, to, stamp)

    def _named(self, intent_id: int) -> Intent:
        intent = self._intents.named(intent_id)
        if intent is None:
            raise FatalError(f"outbox intent {intent_id} is missing")
        return intent

    def _set(self, slot: Slot, state: SlotState, **values: str | int | None) -> None:
        mine = and_(
            _of(slot.account),
            pub_slot.c.nonce == slot.nonce,
            pub_slot.c.state == slot.state.value,
        )
        changed = self._connection.execute(
            update(pub_slot).where(mine).values({**values, "state": state.value})
        )
        if changed.rowcount != 1:
            raise FatalError(f"outbox nonce {slot.nonce} is no longer {slot.state}")


def _of(account: Account) -> ColumnElement[bool]:
    return and_(pub_slot.c.chain_id == account.chain_id, pub_slot.c.sender == account.address)


def _slot(row: Row[Any]) -> Slot:
    return Slot(
        account=Account(row.chain_id, Address(row.sender)),
        nonce=row.nonce,
        intent_id=row.intent_id,
        state=SlotState(row.state),
        won_attempt=row.won_attempt,
        block_number=row.block_number,
        block_hash=None if row.block_hash is None else Hash(row.block_hash),
        succeeded=None if row.receipt_status is None else bool(row.receipt_status),
        gas_used=row.gas_used,
        gas_price_wei=row.gas_price_wei,
    )


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(
        id=row.id,
        nonce=row.nonce,
        intent_id=row.intent_id,
        seq=row.seq,
        signed=SignedCall(
            Hash(row.tx_hash), bytes(row.raw_tx), row.max_fee_wei, row.tip_wei, row.gas_limit
        ),
        sends=row.sends,
        last_sent_block=row.last_sent_block,
        last_error_class=row.last_error_class,
    )
