"""Pays more for the transaction that keeps the others waiting (publishing.md 3.6).

The lowest nonce without a receipt gets a dearer twin: same nonce, same call, other fees. What
was signed before is watched as well; one of them lands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.errors import InputError
from oracle.publisher.fees import Fees, bumped, wanted_in
from oracle.publisher.preflight import Outcome, preflight
from oracle.publisher.receipts import balance_of, look_for
from oracle.publisher.sender import Answer
from oracle.publisher.understanding import number_of, understood
from oracle.services.desk import Desk, Step
from oracle.services.sending.broadcasting import send_attempt
from oracle.services.sending.budgets import role, room
from oracle.services.sending.calls import (
    dearest,
    gas_of_block,
    l1_cost,
    limit_for,
    signed_call,
)
from oracle.services.sending.urgency import is_urgent_behind
from oracle.store.outbox_rows import Attempt, AttemptReason, Intent, PauseKind, Slot, SlotState
from oracle.store.store import Unit
from oracle.telemetry.sending_metrics import ATTEMPTS_EXHAUSTED, FEE_CAPPED

# A push that others wait behind is bumped after so many blocks (decided in issue 5, 3.5).
_URGENT_BLOCKS = 2
# Older bytes are tried once more before more is paid for them: the state has moved on.
_OLD_BLOCKS = 10
# A pool has refused the newest bytes for what they pay, or for their gas: no use to wait.
_TOO_LITTLE = frozenset({Answer.UNDERPRICED.value, Answer.UNDERPRICED_REPLACEMENT.value})
_REFUSED = _TOO_LITTLE | {Answer.INTRINSIC.value}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A nonce without a receipt, what it serves, and what was signed for it, oldest first."""

    slot: Slot
    intent: Intent
    attempts: Sequence[Attempt]

    @property
    def newest(self) -> Attempt:
        return self.attempts[-1]

    @property
    def sent_block(self) -> int:
        """The head when the newest bytes were sent first."""
        return self.newest.first_sent_block or 0


def bump_next(desk: Desk, heads: Heads) -> Step | None:
    """Sign a dearer twin for the lowest nonce that waits, once it is due; None: it is not."""
    with desk.store.reading() as unit:
        is_resting = unit.outbox.senders.paused_because(desk.account) is not None
        waiting = None if is_resting else lowest(unit, desk)
        may_bump = waiting is not None and _has_attempts_left(desk, waiting)
        is_urgent = waiting is not None and is_urgent_behind(unit, desk, waiting.intent)
    if waiting is None or not may_bump:
        FEE_CAPPED.labels(role(desk)).set(0)
        if waiting is None and not is_resting:
            ATTEMPTS_EXHAUSTED.labels(role(desk)).set(0)
        return None
    if not _is_due(desk, waiting, heads, is_urgent=is_urgent) or is_mined(desk, waiting):
        return None
    limit = _limit(desk, waiting, heads)
    return None if limit is None else _bump(desk, waiting, limit)


def bump_now(desk: Desk, heads: Heads, intent_id: int) -> Step:
    """Sign and send a dearer twin at once, because an operator says so; the caps hold.

    Raises:
        InputError: there is no such intent, it waits for no receipt or for a lower nonce, it is
            in a block, or a cap, a budget or our ether forbids it.
    """
    with desk.store.reading() as unit:
        waiting = lowest(unit, desk)
        intent = unit.outbox.intents.named(intent_id)
    if intent is None:
        raise InputError(f"there is no intent {intent_id}; `qos-oracle outbox list` shows them")
    if waiting is None or intent.nonce is None or intent.nonce < waiting.slot.nonce:
        raise InputError(f"intent {intent_id} is {intent.state}: nothing of it waits for a block")
    if waiting.intent.id != intent_id:
        raise InputError(
            f"intent {intent_id} waits for nonce {waiting.slot.nonce}: bump intent "
            f"{waiting.intent.id} first"
        )
    refuse_mined(desk, waiting)
    limit = _limit(desk, waiting, heads)
    step = None if limit is None else _bump(desk, waiting, limit)
    if step is None:
        raise InputError(
            f"no cap or budget of [limits], and no ether, is left to pay 10 % more for intent "
            f"{intent_id}"
        )
    return send_newest(desk, waiting.slot, heads) or step


def lowest(unit: Unit, desk: Desk) -> Waiting | None:
    """Return the lowest nonce without a receipt, where its newest bytes were sent."""
    for slot in unit.outbox.slots.watched(desk.account):
        if slot.state is SlotState.MINED:
            continue
        intent = unit.outbox.intents.named(slot.intent_id)
        attempts = unit.outbox.slots.attempts(slot)
        if intent is None or slot.state is SlotState.OPEN or not attempts[-1].sends:
            return None
        return Waiting(slot, intent, attempts)
    return None


def is_mined(desk: Desk, waiting: Waiting) -> bool:
    """Tell whether an endpoint has any of its bytes in a block.

    Whoever was away for an hour finds its nonce overdue, and long used: asked before anything
    more is signed for it.

    Raises:
        TransientError: no endpoint answers.
    """
    hashes = [one.signed.tx_hash for one in waiting.attempts]
    return look_for(desk.publisher.lines, hashes).receipt(hashes) is not None


def refuse_mined(desk: Desk, waiting: Waiting) -> None:
    """Leave a nonce alone that is used: there is nothing to pay more for, or to give up.

    Raises:
        InputError: some of its bytes are in a block.
        TransientError: no endpoint answers.
    """
    if is_mined(desk, waiting):
        raise InputError(
            f"intent {waiting.intent.id} is in a block already: `qos-oracle run` takes note of it"
        )


def send_newest(desk: Desk, slot: Slot, heads: Heads) -> Step | None:
    """Send the bytes that were signed last for a nonce, where they were not sent yet."""
    with desk.store.reading() as unit:
        attempts = unit.outbox.slots.attempts(slot)
    if not attempts or attempts[-1].sends:
        return None
    return send_attempt(desk, slot, attempts[-1], heads)


def _has_attempts_left(desk: Desk, waiting: Waiting) -> bool:
    """Tell whether one more may be signed; else the best of them is sent again and again."""
    is_left = len(waiting.attempts) < desk.sending.max_attempts
    ATTEMPTS_EXHAUSTED.labels(role(desk)).set(int(not is_left))
    return is_left


def _is_due(desk: Desk, waiting: Waiting, heads: Heads, *, is_urgent: bool) -> bool:
    waited, answer = heads.latest.number - waiting.sent_block, waiting.newest.last_error_class
    if answer == Answer.NONCE_TOO_LOW.value:
        # One of the hashes, or somebody else's, has been mined: the watcher will see.
        return False
    if answer in _REFUSED:
        return waited >= 1
    if is_urgent and waited >= _URGENT_BLOCKS:
        return True
    return waited >= desk.sending.bump_blocks and _has_waited_seconds(desk, waiting, heads)


def _has_waited_seconds(desk: Desk, waiting: Waiting, heads: Heads) -> bool:
    """Tell it in the chain's time: our own clock may jump."""
    block = desk.publisher.lines.ask("eth_getBlockByNumber", hex(waiting.sent_block), False)
    if not isinstance(block, dict):
        return False
    with understood("a block"):
        return heads.latest.time - number_of(block["timestamp"]) >= desk.sending.bump_seconds


def _limit(desk: Desk, waiting: Waiting, heads: Heads) -> int | None:
    """Return the gas of the twin; None: it would only fail, and nobody waits behind it.

    The same as before; tried again where the bytes are old, or their gas was refused.
    """
    now, wish = waiting.newest.signed.gas_limit, waiting.intent.wish
    is_refused = waiting.newest.last_error_class == Answer.INTRINSIC.value
    first = waiting.attempts[0].first_sent_block or 0
    if not is_refused and heads.latest.number - first < _OLD_BLOCKS:
        return now
    verdict = preflight(desk.publisher.lines, wish.account.address, wish.contract, wish.calldata)
    if verdict.outcome is Outcome.REFUSED and not _is_in_the_way(desk, waiting):
        # It fails as things are: more money makes it fail sooner. Another call, or a human's
        # `outbox cancel`, takes its nonce; a reorg may make it good again.
        return None
    if verdict.outcome is not Outcome.OK:
        return None if is_refused else now
    most = gas_of_block(desk)
    limit = limit_for(verdict.gas, wish.calldata, most)
    if not is_refused:
        return max(limit or 0, now)
    return _more_gas(desk, waiting, limit, most)


def _more_gas(desk: Desk, waiting: Waiting, limit: int | None, most: int) -> int | None:
    """Return the gas for a call that was refused for it; None: no block takes it."""
    now = waiting.newest.signed.gas_limit
    if limit is not None and limit <= now <= most:
        # The endpoints estimate what their pools refuse.
        limit = min(now + now // 4, most)
    if limit is not None and limit != now:
        return limit
    text = waiting.newest.last_error_text or "refused for its gas"
    reason = f"intent {waiting.intent.id}: {text}; `outbox cancel` frees its nonce"
    with desk.writing() as unit:
        unit.outbox.senders.pause(desk.account, PauseKind.MALFORMED, reason, desk.stamp)
    return None


def _is_in_the_way(desk: Desk, waiting: Waiting) -> bool:
    with desk.store.reading() as unit:
        watched = unit.outbox.slots.watched(desk.account)
    return any(one.nonce > waiting.slot.nonce for one in watched)


def _bump(desk: Desk, waiting: Waiting, limit: int) -> Step | None:
    """Sign the twin, within every cap; None: no cap, budget or ether is left for 10 % more."""
    slot, intent = waiting.slot, waiting.intent
    fees = replacing_fees(desk, waiting, limit, intent.wish.calldata)
    if fees is None:
        FEE_CAPPED.labels(role(desk)).set(1)
        return None
    signed = signed_call(desk, intent, slot.nonce, fees, limit)
    with desk.writing() as unit:
        # Looked at once more, in the commit that reserves.
        if limit * fees.max_fee > room(unit, desk, slot):
            return None
        unit.outbox.slots.sign(slot, signed, AttemptReason.BUMP, desk.stamp)
    FEE_CAPPED.labels(role(desk)).set(0)
    said = f"{signed.tx_hash}, up to {fees.max_fee} wei for each gas"
    return Step(f"{intent.wish.kind} bumped", intent.id, said)


def replacing_fees(desk: Desk, waiting: Waiting, limit: int, calldata: str) -> Fees | None:
    """Return fees that beat everything signed for the nonce; None: a cap forbids 10 % more.

    The caps are those of [limits] for a unit of gas, a transaction, an hour and a day, and our
    ether beside what other open nonces may cost.

    Raises:
        TransientError: no endpoint tells the market or the balance.
    """
    slot, newest, market = waiting.slot, waiting.newest, desk.publisher.market()
    beside = l1_cost(desk, calldata)
    balance = balance_of(desk.publisher.lines, desk.account.address)
    with desk.store.reading() as unit:
        most = room(unit, desk, slot)
        others = unit.outbox.slots.reserved(desk.account) - unit.outbox.slots.cost_of(slot)
    cap = min(desk.publisher.caps.fee_per_gas, (min(most, balance - others) - beside) // limit)
    said = newest.last_error_text if newest.last_error_class in _TOO_LITTLE else None
    return bumped(dearest(waiting.attempts), market, cap, wanted_in(said or ""))
