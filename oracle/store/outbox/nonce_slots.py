"""Stores nonce slots and the bytes that were signed for them.

There is one slot per nonce, and a nonce is never reused. Only this module assigns nonces, in the
transaction that stores the nonce in an intent. See docs/explanation/transactions.md#states.
"""

from sqlalchemy import Connection, insert, update

from oracle.domain.ids import Hash
from oracle.errors import FatalError
from oracle.store.outbox.intents import IntentRepository
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.nonce_queries import AttemptQueries, build_account_condition
from oracle.store.outbox.records import (
    NOOP,
    REBUILT,
    Account,
    Attempt,
    AttemptReason,
    CallCost,
    CallReceipt,
    CallRequest,
    Intent,
    IntentState,
    NonceSlot,
    NonceState,
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
# An intent in one of these states competes with the mined intent for a nonce.
_RIVAL_STATES = frozenset({IntentState.ASSIGNED, IntentState.LIVE, IntentState.MINED})


class NonceSlotRepository(AttemptQueries):
    """Write access to the tables pub_nonce and pub_attempt, within one transaction."""

    def __init__(
        self, connection: Connection, journal: Journal, intents: IntentRepository
    ) -> None:
        super().__init__(connection)
        self._journal = journal
        self._intents = intents

    def assign_nonce(self, intent: Intent, nonce: int, block: int, stamp: Stamp) -> None:
        """Assign a nonce to the intent, in a new or a vacant slot.

        `block` is the height of the head; it is stored because a transaction's age is counted in
        blocks.
        """
        account = intent.request.account
        result = self._connection.execute(
            update(pub_nonce)
            .where(build_account_condition(account), pub_nonce.c.nonce == nonce)
            .values(intent_id=intent.id, opened_at=stamp.at, opened_block=block)
        )
        if result.rowcount == 0:
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
        self._intents.change_state(intent, IntentState.ASSIGNED, stamp, {"nonce": nonce})

    def replace_call(self, slot: NonceSlot, intent: Intent, block: int, stamp: Stamp) -> None:
        """Let a ready intent compete with another intent for the same nonce.

        Only one of the two is mined. The other intent keeps its state until a receipt shows which
        intent was mined (docs/explanation/transactions.md#states).

        Raises:
            FatalError: the slot is mined or final, or changed since it was read.
        """
        if slot.state not in {NonceState.OPEN, NonceState.LIVE}:
            raise FatalError(
                f"outbox nonce {slot.nonce} is {slot.state}; expected an open or live nonce"
            )
        self._update_slot(
            slot,
            slot.state,
            intent_id=intent.id,
            last_bump_at=stamp.at,
            last_bump_block=block,
        )
        values = {"nonce": slot.nonce, "replaces": slot.intent_id}
        self._intents.change_state(intent, IntentState.ASSIGNED, stamp, values)

    def store_attempt(
        self, slot: NonceSlot, signed_call: SignedCall, reason: AttemptReason, stamp: Stamp
    ) -> int:
        """Store a signed transaction before it is sent, and return the attempt's id.

        The bytes belong to the intent that uses the slot at present.
        """
        attempt_number = len(self.list_attempts(slot))
        result = self._connection.execute(
            insert(pub_attempt)
            .values(
                chain_id=slot.account.chain_id,
                sender=slot.account.address,
                nonce=slot.nonce,
                intent_id=slot.intent_id,
                seq=attempt_number,
                tx_hash=signed_call.tx_hash,
                raw_tx=signed_call.raw,
                tx_type=2,
                max_fee_wei=signed_call.max_fee_wei,
                tip_wei=signed_call.tip_wei,
                gas_limit=signed_call.gas_limit,
                lease_epoch=stamp.epoch,
                signed_at=stamp.at,
                sends=0,
                reason=reason.value,
            )
            .returning(pub_attempt.c.id)
        )
        attempt_id = int(result.scalar_one())
        if reason is not AttemptReason.FIRST:
            self._update_slot(slot, slot.state, last_bump_at=stamp.at)
        self._journal.write(
            "signed",
            stamp,
            f"{signed_call.tx_hash} {reason.value}",
            intent_id=slot.intent_id,
            nonce=slot.nonce,
            attempt_id=attempt_id,
        )
        return attempt_id

    def record_send(
        self, slot: NonceSlot, attempt: Attempt, block: int, error: str | None, stamp: Stamp
    ) -> None:
        """Record that a transaction was sent at head `block`, and how the endpoints responded.

        `error` is `class: text`, or None if an endpoint accepted the bytes.
        """
        error_class, _, error_text = (error or "").partition(": ")
        is_first_send = attempt.sends == 0
        first_values = (
            {"first_sent_at": stamp.at, "first_sent_block": block} if is_first_send else {}
        )
        if error is None and attempt.last_error_class == PauseKind.FUNDS.value:
            # No mempool had accepted the bytes before. Their age is therefore counted from this
            # block.
            first_values = {"first_sent_block": block}
        self._connection.execute(
            update(pub_attempt)
            .where(pub_attempt.c.id == attempt.id)
            .values(
                {
                    **first_values,
                    "sends": pub_attempt.c.sends + 1,
                    "last_sent_at": stamp.at,
                    "last_sent_block": block,
                    "last_error_class": error_class or None,
                    "last_error_text": error_text or None,
                }
            )
        )
        self._journal.write(
            "sent",
            stamp,
            error or "",
            intent_id=attempt.intent_id,
            nonce=slot.nonce,
            attempt_id=attempt.id,
        )
        is_bump = is_first_send and attempt.reason is not AttemptReason.FIRST
        bump_values: dict[str, str | int | None] = {"last_bump_block": block} if is_bump else {}
        if slot.state is NonceState.OPEN:
            self._update_slot(slot, NonceState.LIVE, **bump_values)
        elif bump_values:
            self._update_slot(slot, slot.state, **bump_values)
        self._advance_intent(attempt.intent_id, IntentState.ASSIGNED, IntentState.LIVE, stamp)

    def record_receipt(
        self, slot: NonceSlot, attempt: Attempt, receipt: CallReceipt, stamp: Stamp
    ) -> None:
        """Record a receipt, and end all other intents of the nonce.

        After a reorg, a new receipt replaces the old one.
        """
        self._update_slot(
            slot,
            NonceState.MINED,
            intent_id=attempt.intent_id,
            won_attempt=attempt.id,
            block_number=receipt.block_number,
            block_hash=receipt.block_hash,
            receipt_status=int(receipt.succeeded),
            gas_used=receipt.gas_used,
            gas_price_wei=receipt.gas_price_wei,
            l1_fee_wei=receipt.l1_fee_wei,
            mined_at=stamp.at,
        )
        mined_intent = self._require_intent(attempt.intent_id)
        # If an operator replaced a call with a no-op, the call must not be retried, so it is
        # cancelled.
        is_noop = mined_intent.request.kind == NOOP
        rival_state = IntentState.CANCELLED if is_noop else IntentState.SUPERSEDED
        # End the other intents first, because the index `one_exclusive_call` permits only one
        # intent per `exclusive_key`.
        for rival in self._intents.list_for_nonce(slot.account, slot.nonce):
            if rival.id != attempt.intent_id and rival.state in _RIVAL_STATES:
                values = {"superseded_by": attempt.intent_id}
                self._intents.change_state(rival, rival_state, stamp, values)
        outcome_text = (
            f"block {receipt.block_number}, {'worked' if receipt.succeeded else 'failed'}"
        )
        self._intents.mark_mined(mined_intent, outcome_text, stamp)

    def mark_reorged(self, slot: NonceSlot, stamp: Stamp) -> None:
        """Record that a reorg removed the receipt, so that the same bytes are sent again."""
        self._update_slot(slot, NonceState.LIVE, **_NO_RECEIPT)
        intent = self._require_intent(slot.intent_id)
        detail = f"block {slot.block_number}"
        self._journal.write("reorged", stamp, detail, intent_id=intent.id, nonce=slot.nonce)
        self._intents.change_state(intent, IntentState.LIVE, stamp)

    def finalize(
        self,
        slot: NonceSlot,
        stamp: Stamp,
        reason: str | None = None,
        call_cost: CallCost | None = None,
    ) -> None:
        """Mark a mined slot as final.

        `reason` is the revert reason of a failed call. If the cost is known more exactly than
        before, `call_cost` replaces the stored cost.
        """
        cost_values = {} if call_cost is None else call_cost._asdict()
        self._update_slot(slot, NonceState.FINAL, finalised_at=stamp.at, **cost_values)
        final_state = IntentState.FINAL if slot.succeeded else IntentState.REVERTED
        # The class is the name of the contract's error, without its arguments.
        error_values = {"error_class": reason and reason.partition("(")[0], "error_text": reason}
        self._intents.change_state(
            self._require_intent(slot.intent_id), final_state, stamp, error_values
        )

    def mark_nonce_foreign(self, slot: NonceSlot, stamp: Stamp, reason: str | None = None) -> None:
        """Record that a foreign transaction used a nonce, and hold the intents of this nonce.

        They are held because an operator must find out who else uses the key.
        """
        error_values = {"error_class": "foreign", "error_text": reason}
        self._update_slot(slot, NonceState.FOREIGN, finalised_at=stamp.at)
        for intent in self._intents.list_for_nonce(slot.account, slot.nonce):
            if intent.state in {IntentState.ASSIGNED, IntentState.LIVE}:
                self._intents.change_state(intent, IntentState.HELD, stamp, error_values)

    def record_rebuilt_nonce(
        self,
        account: Account,
        nonce: int,
        tx_hash: Hash | None,
        receipt: CallReceipt | None,
        stamp: Stamp,
    ) -> None:
        """Record a nonce that was used on chain but not assigned by this database.

        The slot is final from the start, so that nothing is ever signed for it. `tx_hash` and
        `receipt` are None if the transaction was not found; `receipt` is also None if the
        transaction is pending. Other intents of the nonce become superseded. A nonce that was
        rebuilt before and reopened since keeps its intent.
        """
        request = CallRequest(account, account.address, REBUILT, f"rebuilt:nonce={nonce}", "0x")
        intent = self._get_or_add_intent(request, stamp)
        description = (
            f"{tx_hash}" if receipt is None else f"{tx_hash} in block {receipt.block_number}"
        )
        values: dict[str, str | int | None] = {
            "nonce": nonce,
            "error_class": "rebuilt",
            "error_text": tx_hash and description,
        }
        self._intents.change_state(intent, IntentState.FINAL, stamp, values)
        for rival in self._intents.list_for_nonce(account, nonce):
            # Held intents count, too, because an intent is held if a foreign transaction used its
            # nonce.
            if rival.id != intent.id and rival.state in _RIVAL_STATES | {IntentState.HELD}:
                rival_values = {"superseded_by": intent.id}
                self._intents.change_state(rival, IntentState.SUPERSEDED, stamp, rival_values)
        self._finalize_rebuilt_slot(account, nonce, intent.id, receipt, stamp)

    def _finalize_rebuilt_slot(
        self,
        account: Account,
        nonce: int,
        intent_id: int,
        receipt: CallReceipt | None,
        stamp: Stamp,
    ) -> None:
        row: dict[str, str | int | None] = {
            "intent_id": intent_id,
            "state": NonceState.FINAL.value,
            "finalised_at": stamp.at,
            "opened_at": stamp.at if receipt is None or receipt.time is None else receipt.time,
        }
        if receipt is not None:
            row |= {
                "block_number": receipt.block_number,
                "block_hash": receipt.block_hash,
                "receipt_status": int(receipt.succeeded),
                "gas_used": receipt.gas_used,
                "gas_price_wei": receipt.gas_price_wei,
                "l1_fee_wei": receipt.l1_fee_wei,
                "opened_block": receipt.block_number,
            }
        is_this_nonce = build_account_condition(account) & (pub_nonce.c.nonce == nonce)
        if (
            self._connection.execute(update(pub_nonce).where(is_this_nonce).values(row)).rowcount
            == 0
        ):
            key = {"chain_id": account.chain_id, "sender": account.address, "nonce": nonce}
            self._connection.execute(insert(pub_nonce).values({**key, **row}))

    def _advance_intent(
        self, intent_id: int, old_state: IntentState, new_state: IntentState, stamp: Stamp
    ) -> None:
        intent = self._require_intent(intent_id)
        if intent.state is old_state:
            self._intents.change_state(intent, new_state, stamp)

    def _get_or_add_intent(self, request: CallRequest, stamp: Stamp) -> Intent:
        intent_id = self._intents.add(request, stamp)
        intent = (
            self._intents.find_by_dedup_key(request)
            if intent_id is None
            else self._intents.get(intent_id)
        )
        if intent is None:
            raise FatalError(f"outbox intent {request.dedup_key} does not exist")
        return intent

    def _require_intent(self, intent_id: int) -> Intent:
        intent = self._intents.get(intent_id)
        if intent is None:
            raise FatalError(f"outbox intent {intent_id} does not exist")
        return intent

    def _update_slot(self, slot: NonceSlot, state: NonceState, **values: str | int | None) -> None:
        is_this_nonce = build_account_condition(slot.account) & (pub_nonce.c.nonce == slot.nonce)
        update_statement = update(pub_nonce).where(
            is_this_nonce, pub_nonce.c.state == slot.state.value
        )
        result = self._connection.execute(
            update_statement.values({**values, "state": state.value})
        )
        if result.rowcount != 1:
            raise FatalError(
                f"outbox nonce {slot.nonce} is no longer {slot.state}; another process changed it"
            )
