"""Puts another call on a nonce that waits (publishing.md 3.3): at most one of the two lands.

A push whose statement can no longer land makes room for the next one, and one whose signatures
count no more for the same statement with others. A no-op, which does nothing, takes the nonce of
a call that an operator cancels.
"""

from dataclasses import replace

from oracle.bindings.qos_oracle import ContractStatus
from oracle.chain.heads import Heads
from oracle.errors import FatalError, InputError
from oracle.quorum.dying import why_dead
from oracle.quorum.resigning import refused, statement_behind
from oracle.reporting.renewing import is_renewed_by
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    AttemptReason,
    CallRequest,
    Intent,
    IntentKind,
    IntentState,
    NonceState,
    SignedCall,
)
from oracle.telemetry.sending_metrics import FEE_CAPPED
from oracle.txmgr.budget import role, room
from oracle.txmgr.client.fee_quote import PLAIN_GAS, gas_limit
from oracle.txmgr.client.preflight import PreflightOutcome, preflight
from oracle.txmgr.client.trials import count
from oracle.txmgr.confirmation.unconfirmed import UnconfirmedNonce, is_mined, refuse_mined
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import close_report, end
from oracle.txmgr.inclusion_time import why_too_late
from oracle.txmgr.replacement.fee_bump import send_newest
from oracle.txmgr.replacement.replacement_offer import Replacement, offer
from oracle.txmgr.signing_queue import gas_of_block, limit_for, signed_call

_WITHOUT_NONCE = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.HELD})


def retarget_next(desk: TxContext, heads: Heads) -> StepResult | None:
    """Put the push that is ready on the nonce of one that can no longer land; None: none is."""
    with desk.store.reading() as unit:
        if unit.outbox.senders.paused_because(desk.account) is not None:
            return None
        fresh = _ready_push(unit, desk)
        waiting = None if fresh is None else stuck_push(unit, desk)
    if fresh is None or waiting is None:
        return None
    standing = desk.standing()
    with desk.store.reading() as unit:
        reason = why_hopeless(unit, waiting.intent, standing)
        late = why_too_late(desk, unit, fresh.wish.deadline, heads.latest.time)
    if late is not None:
        return end(desk, fresh, IntentState.EXPIRED, late)
    may_land = reason is None and not is_renewed_by(waiting.intent, fresh)
    if may_land or is_mined(desk, waiting):
        return None
    return _retarget(desk, waiting, fresh, heads)


def stuck_push(unit: UnitOfWork, desk: TxContext) -> UnconfirmedNonce | None:
    """Return the push that waits for a receipt; None: none does."""
    for slot in unit.outbox.slots.watched(desk.account):
        if slot.state is not NonceState.LIVE:
            continue
        intent = unit.outbox.intents.named(slot.intent_id)
        attempts = unit.outbox.slots.attempts(slot)
        is_sent = bool(attempts) and attempts[-1].sends > 0
        if intent is not None and intent.wish.kind is IntentKind.PUSH and is_sent:
            return UnconfirmedNonce(slot, intent, attempts)
    return None


def why_hopeless(unit: UnitOfWork, push: Intent, standing: ContractStatus) -> str | None:
    """Tell why a push that was sent can no longer land; None: it may, or it has landed."""
    wish = push.wish
    accepted = unit.rounds.accepted_round(wish.round or 0)
    ours = (wish.digest, wish.account.address)
    if accepted is not None and (accepted.digest, accepted.transmitter) == ours:
        return None
    return why_dead(unit, statement_behind(unit, push, standing), standing)


def cancel(desk: TxContext, heads: Heads, intent_id: int) -> StepResult:
    """Give a call up, because an operator says so: by a no-op on its nonce where it has one.

    Either may still land; which did shows in the outbox. The no-op pays within the same caps.

    Raises:
        InputError: there is no such intent, or see `prepared_no_op`.
        TransientError: no endpoint answers.
    """
    with desk.store.reading() as unit:
        intent = _named(unit, intent_id)
    if intent.nonce is not None or intent.state not in _WITHOUT_NONCE:
        return displace(desk, prepared_no_op(desk, intent_id), heads)
    with desk.writing() as unit:
        unit.outbox.intents.cancel(intent, "cancelled by an operator", desk.stamp)
    return StepResult(f"{intent.wish.kind} cancelled", intent.id)


def prepared_no_op(desk: TxContext, intent_id: int) -> Replacement:
    """Return the no-op that may take the nonce of a call that was sent; writes nothing.

    Raises:
        InputError: there is no such intent, it is mined or over, it was not sent yet, or a cap,
            a budget or our ether forbids the no-op.
        TransientError: no endpoint answers.
    """
    account = desk.account
    desk.publisher.lines.check_chain(account.chain_id)
    with desk.store.reading() as unit:
        intent = _named(unit, intent_id)
        slot = None if intent.nonce is None else unit.outbox.slots.at(account, intent.nonce)
        attempts = [] if slot is None else unit.outbox.slots.attempts(slot)
    if slot is None or slot.state is not NonceState.LIVE or intent.id != slot.intent_id:
        raise InputError(f"intent {intent_id} is {intent.state}: there is nothing to cancel")
    if not attempts or not attempts[-1].sends:
        raise InputError(f"intent {intent_id} is about to be sent: try again once it was")
    waiting = UnconfirmedNonce(slot, intent, attempts)
    refuse_mined(desk, waiting)
    verdict = preflight(desk.publisher.lines, account.address, account.address, "0x")
    # Some rollups count their data as gas.
    limit = PLAIN_GAS if verdict.gas <= PLAIN_GAS else gas_limit(verdict.gas)
    found = offer(desk, waiting, limit, "0x")
    if found.fees is None:
        raise InputError(f"no no-op at nonce {slot.nonce}: {found.why_none}")
    return Replacement(waiting, limit, found.fees, found.beside)


def _named(unit: UnitOfWork, intent_id: int) -> Intent:
    intent = unit.outbox.intents.named(intent_id)
    if intent is None:
        raise InputError(f"there is no intent {intent_id}; `qos-oracle outbox list` shows them")
    return intent


def _retarget(
    desk: TxContext, waiting: UnconfirmedNonce, fresh: Intent, heads: Heads
) -> StepResult | None:
    wish, slot = fresh.wish, waiting.slot
    verdict = preflight(desk.lines(), wish.account.address, wish.contract, wish.calldata)
    count(wish.kind, verdict)
    if verdict.outcome is not PreflightOutcome.OK:
        return refused(desk, fresh, verdict, heads)
    limit = limit_for(verdict.gas, wish.calldata, gas_of_block(desk))
    found = None if limit is None else offer(desk, waiting, limit, wish.calldata)
    if limit is None or found is None or found.fees is None:
        FEE_CAPPED.labels(role(desk)).set(1)
        return None
    twin = Replacement(waiting, limit, found.fees, found.beside)
    signed = signed_call(desk, fresh, slot.nonce, found.fees, limit)
    with desk.writing() as unit:
        # Looked at once more, in the commit that reserves and gives the nonce.
        is_same = _ready_push(unit, desk) == fresh and stuck_push(unit, desk) == waiting
        if not is_same or twin.cost > room(unit, desk, slot):
            return None
        unit.outbox.intents.reserve(fresh, twin.cost)
        _take_over(unit, desk, waiting, (fresh, signed, AttemptReason.RETARGET), heads)
    FEE_CAPPED.labels(role(desk)).set(0)
    said = f"nonce {slot.nonce} of intent {waiting.intent.id}"
    return StepResult(f"{wish.kind} retargeted", fresh.id, said)


def displace(desk: TxContext, no_op: Replacement, heads: Heads) -> StepResult:
    """Sign and send what `prepared_no_op` allows: one of the two lands.

    Raises:
        InputError: somebody has used up the budgets since.
    """
    account, waiting, limit, fees = desk.account, no_op.waiting, no_op.gas_limit, no_op.fees
    slot = waiting.slot
    wish = CallRequest(
        account=account,
        # To ourselves, of nothing.
        contract=account.address,
        kind=IntentKind.NOOP,
        dedup_key=f"noop:nonce={slot.nonce}:after={len(waiting.attempts)}",
        calldata="0x",
        priority=0,
    )
    planned = _planned(wish)
    signed = signed_call(desk, planned, slot.nonce, fees, limit)
    with desk.writing() as unit:
        intents = unit.outbox.intents
        if no_op.cost > room(unit, desk, slot):
            raise InputError(f"the budgets of [limits] do not allow a no-op at nonce {slot.nonce}")
        noop = intents.named(intents.add(wish, desk.stamp) or 0)
        if noop is None:
            raise FatalError(f"a no-op at nonce {slot.nonce} is there already")
        intents.make_ready(noop, limit, no_op.cost, desk.stamp)
        ready = replace(noop, state=IntentState.READY)
        _take_over(unit, desk, waiting, (ready, signed, AttemptReason.NOOP), heads)
    return send_newest(desk, slot, heads) or StepResult("no-op signed", noop.id, signed.tx_hash)


def _take_over(
    unit: UnitOfWork,
    desk: TxContext,
    waiting: UnconfirmedNonce,
    new: tuple[Intent, SignedCall, AttemptReason],
    heads: Heads,
) -> None:
    """Give the nonce to another intent together with its bytes: it is never without any."""
    intent, signed, reason = new
    slots = unit.outbox.slots
    slots.retarget(waiting.slot, intent, heads.latest.number, desk.stamp)
    slots.sign(replace(waiting.slot, intent_id=intent.id), signed, reason, desk.stamp)
    if not is_renewed_by(waiting.intent, intent):
        # Should it land all the same, the fold will see it.
        close_report(unit, waiting.intent, f"{reason} of nonce {waiting.slot.nonce}")


def _ready_push(unit: UnitOfWork, desk: TxContext) -> Intent | None:
    ready = unit.outbox.intents.in_states(desk.account, [IntentState.READY])
    return next((one for one in ready if one.wish.kind is IntentKind.PUSH), None)


def _planned(wish: CallRequest) -> Intent:
    """Return the intent that a wish is about to become, to sign its bytes before the commit."""
    return Intent(
        id=0,
        wish=wish,
        state=IntentState.PLANNED,
        nonce=None,
        gas_limit=None,
        max_cost_wei=None,
        error_class=None,
        error_text=None,
        superseded_by=None,
        created_at=0,
        updated_at=0,
        replaces=None,
    )
