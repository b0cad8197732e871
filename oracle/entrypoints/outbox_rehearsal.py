"""`outbox bump` and `outbox cancel` with `--dry-run`: what they would pay, or what forbids it."""

from oracle.errors import InputError
from oracle.publisher.fees import PLAIN_GAS
from oracle.services.desk import Desk
from oracle.services.sending.bumping import lowest
from oracle.services.sending.offers import offer
from oracle.services.sending.waiting import Waiting, refuse_mined
from oracle.store.outbox_rows import Intent


def rehearsed_bump(desk: Desk, intent: Intent) -> str:
    """Say what the twin of a live call would pay; signs and stores nothing.

    Raises:
        InputError: it would not be bumped: another call is first, it is mined, or a limit forbids.
        TransientError: no endpoint answers.
    """
    with desk.store.reading() as unit:
        waiting = lowest(unit, desk)
    if waiting is None:
        raise InputError(
            f"intent {intent.id} would not be bumped: nothing of it waits for a block"
        )
    if waiting.intent.id != intent.id:
        raise InputError(
            f"intent {intent.id} would not be bumped: intent {waiting.intent.id} waits for nonce "
            f"{waiting.slot.nonce}; bump that first"
        )
    refuse_mined(desk, waiting)
    limit, calldata = waiting.newest.signed.gas_limit, intent.wish.calldata
    found = offer(desk, waiting, limit, calldata, must_land=True)
    if found.fees is None:
        raise InputError(f"intent {intent.id} would not be bumped: {found.why_none}")
    return f"up to {found.fees.max_fee} wei for each gas"


def rehearsed_no_op(desk: Desk, intent: Intent) -> str:
    """Say what a no-op on the nonce of a live call would pay; signs and stores nothing.

    Raises:
        InputError: there would be none: the call is not sent yet, it is mined, or a limit forbids.
        TransientError: no endpoint answers.
    """
    with desk.store.reading() as unit:
        slots = unit.outbox.slots
        slot = None if intent.nonce is None else slots.at(desk.account, intent.nonce)
        attempts = [] if slot is None else slots.attempts(slot)
    if slot is None or not attempts or not attempts[-1].sends or slot.intent_id != intent.id:
        raise InputError(f"intent {intent.id} could not be cancelled: nothing of it waits alone")
    waiting = Waiting(slot, intent, attempts)
    refuse_mined(desk, waiting)
    found = offer(desk, waiting, PLAIN_GAS, "0x")
    if found.fees is None:
        raise InputError(f"no no-op at nonce {slot.nonce} would be signed: {found.why_none}")
    return f"a no-op at nonce {slot.nonce}, up to {found.fees.max_fee} wei for each gas"
