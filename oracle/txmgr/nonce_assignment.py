"""Takes many calls a step nearer to the chain (docs/explanation/transactions.md#many-at-once).

The dispatcher's calls are about different tasks and nodes, so they may go together: one batch of
questions, one commit. As for single calls, each commit stands before what it makes possible, and
nothing is signed above a nonce that nothing is signed for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from oracle.bindings.task_network import without_as_of
from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_planner import is_as_wanted, wanted_now
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import AttemptReason, Intent, IntentState, NonceSlot, NonceState
from oracle.txmgr.admission import NOT_WANTED
from oracle.txmgr.broadcaster import send_attempts
from oracle.txmgr.budget import SPENT, kept_from, left, resume_funded, show
from oracle.txmgr.client.fee_quote import Fees
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, count, preflight_all
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import end, wait
from oracle.txmgr.replacement.fee_bump import bump_next
from oracle.txmgr.signing_queue import (
    gas_of_block,
    l1_cost,
    limit_for,
    may_sign,
    resume_refused,
    signed_call,
)

# Endpoints take batches of a hundred.
_AT_ONCE = 100

_Work = tuple[NonceSlot, Intent]


@dataclass(frozen=True, slots=True)
class _Look:
    """What became of a call; `verdict` None: the state that it rests on is gone, or unknown."""

    intent: Intent
    is_blind: bool
    verdict: PreflightResult | None

    @property
    def is_good(self) -> bool:
        """It would work now."""
        return self.verdict is not None and self.verdict.outcome is PreflightOutcome.OK

    @property
    def gas(self) -> int:
        """What it takes, where it works."""
        return 0 if self.verdict is None else self.verdict.gas


def convoy_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Take the most urgent step, with everything that it can be taken with; None: nothing.

    What has a nonce goes first, as in `publishing.publish_next`.
    """
    if context.is_stopped():
        return None
    return (
        resume_funded(context)
        or resume_refused(context)
        or _send_all(context, heads)
        or _sign_all(context, heads)
        or bump_next(context, heads)
        or _assign_all(context, heads)
        or _ready_all(context, heads)
    )


def _ready_all(context: TxContext, heads: Heads) -> StepResult | None:
    with context.store.reading() as uow:
        planned = uow.outbox.intents.in_states(context.account, [IntentState.PLANNED])
    due = [one for one in planned if (one.wish.not_before or 0) <= heads.latest.time]
    if not due:
        return None
    looks = _looks_at(context, due[:_AT_ONCE], heads)
    steps = [_turn_away(context, look, heads) for look in looks if not look.is_good]
    good = [look for look in looks if look.is_good]
    fees = context.fees() if good else None
    if fees is None:
        why = ("fee_cap", "gas costs more than max_fee_per_gas_wei")
        steps += [wait(context, look.intent, heads, why) for look in good]
    else:
        steps += _price(context, good, fees, heads)
    return _first(steps)


def _price(
    context: TxContext, looks: Sequence[_Look], fees: Fees, heads: Heads
) -> list[StepResult | None]:
    """Make ready what the caps and our ether allow; the others wait with the reason."""
    account, most = context.account, context.publisher.caps.cost_per_transaction
    balance = context.balance()
    gas_there_is = gas_of_block(context)
    with context.store.reading() as uow:
        show(uow, context)
        ether = balance - uow.outbox.slots.reserved(account)
        budget = left(uow, context)
    steps: list[StepResult | None] = []
    affordable: list[tuple[Intent, int, int]] = []
    for look in looks:
        calldata = look.intent.wish.calldata
        limit = limit_for(look.gas, calldata, gas_there_is)
        cost = (limit or 0) * fees.max_fee + l1_cost(context, calldata, limit or 0)
        if limit is None:
            why = ("too_big", f"takes {look.gas} gas, and a block has {gas_there_is}")
        elif cost > most:
            why = ("cost_cap", f"up to {cost} wei, above max_cost_per_transaction_wei {most}")
        elif cost > ether:
            why = ("funds", f"{account.address} has {balance} wei: send ether to it")
        elif cost > budget - kept_from(context, look.intent):
            # It stays planned: made ready, it would only be put back, block by block.
            why = SPENT
        else:
            ether, budget = ether - cost, budget - cost
            affordable.append((look.intent, limit, cost))
            continue
        steps.append(wait(context, look.intent, heads, why))
    if affordable:
        steps.insert(0, _made_ready(context, affordable))
    return steps


def _made_ready(context: TxContext, affordable: Sequence[tuple[Intent, int, int]]) -> StepResult:
    stamp = context.stamp
    with context.writing() as uow:
        for intent, limit, cost in affordable:
            uow.outbox.intents.make_ready(intent, limit, cost, stamp)
    return _step("ready", [intent for intent, _, _ in affordable])


def _assign_all(context: TxContext, heads: Heads) -> StepResult | None:
    with context.store.reading() as uow:
        if not _ready(uow, context) or not may_sign(context):
            return None
    balance, stamp = context.balance(), context.stamp
    with context.writing() as uow:
        outbox, account = uow.outbox, context.account
        # Looked at once more, in the commit that gives the nonces.
        ready = _ready(uow, context)
        allowed, ether = left(uow, context), balance - outbox.slots.reserved(account)
        for intent in ready:
            cost = intent.max_cost_wei or 0
            if cost > min(allowed - kept_from(context, intent), ether):
                why = _why_not(cost, ether)
                outbox.intents.postpone(intent, heads.latest.time + 1, why, stamp)
                continue
            allowed, ether = allowed - cost, ether - cost
            vacant = outbox.slots.vacant(account)
            nonce = outbox.senders.take_nonce(account) if vacant is None else vacant.nonce
            outbox.slots.open(intent, nonce, heads.latest.number, stamp)
    return _step("assigned", ready) if ready else None


def _why_not(cost: int, ether: int) -> tuple[str, str]:
    if cost > ether:
        return "funds", f"{ether} wei are left beside what is reserved: send ether"
    return SPENT


def _ready(uow: UnitOfWork, context: TxContext) -> list[Intent]:
    if uow.outbox.senders.paused_because(context.account) is not None:
        return []
    return uow.outbox.intents.in_states(context.account, [IntentState.READY])[:_AT_ONCE]


def _sign_all(context: TxContext, heads: Heads) -> StepResult | None:
    """Sign the lowest nonces that wait for it, up to the first that must not be signed."""
    with context.store.reading() as uow:
        work = _unsigned(uow, context)
        vacant = uow.outbox.slots.vacant(context.account)
    if not work or not may_sign(context):
        return None
    if vacant is not None and vacant.nonce < work[0][0].nonce:
        return _give_back(context, work, heads)
    work = work[:_AT_ONCE]
    looks = _looks_at(context, [intent for _, intent in work], heads)
    cheapest = min(_most_per_gas(context, one) for _, one in work)
    fees = context.fees(cheapest)
    pairs = zip(work, looks, strict=True)
    good = [one for one, look in takewhile(lambda pair: _fits(pair[1]), pairs)]
    if fees is None or not good:
        if not looks[0].is_good:
            return _turn_away(context, looks[0], heads)
        dearer = ("dearer", "gas or fees rose above the reserved cost")
        return wait(context, work[0][1], heads, dearer)
    signed = [(slot, signed_call(context, intent, slot.nonce, fees)) for slot, intent in good]
    stamp = context.stamp
    with context.writing() as uow:
        for slot, call in signed:
            uow.outbox.slots.sign(slot, call, AttemptReason.FIRST, stamp)
    return _step("signed", [intent for _, intent in good])


def _most_per_gas(context: TxContext, intent: Intent) -> int:
    """Return what is reserved for a unit of its gas, beside what a rollup takes for its data."""
    limit = intent.gas_limit or 1
    return ((intent.max_cost_wei or 0) - l1_cost(context, intent.wish.calldata, limit)) // limit


def _fits(look: _Look) -> bool:
    return look.is_good and look.gas <= (look.intent.gas_limit or 0)


def _unsigned(uow: UnitOfWork, context: TxContext) -> list[_Work]:
    """Return what has a nonce and no bytes, the lowest nonce first."""
    assigned = uow.outbox.intents.in_states(context.account, [IntentState.ASSIGNED])
    by_nonce = {intent.nonce: intent for intent in assigned}
    return [
        (slot, by_nonce[slot.nonce])
        for slot in uow.outbox.slots.watched(context.account)
        if slot.state is NonceState.OPEN
        and slot.nonce in by_nonce
        and not uow.outbox.slots.attempts(slot)
    ]


def _give_back(context: TxContext, work: Sequence[_Work], heads: Heads) -> StepResult:
    """Take the nonces back that lie above a vacant one; their calls get the lowest ones anew."""
    why = ("lower_nonce", "a lower nonce became free")
    stamp = context.stamp
    with context.writing() as uow:
        for _, intent in work:
            uow.outbox.intents.postpone(intent, heads.latest.time, why, stamp)
    return _step("gave back", [intent for _, intent in work])


def _send_all(context: TxContext, heads: Heads) -> StepResult | None:
    """Send stored bytes for the first time, and note how it went.

    Whoever dies before the note sends the same bytes once more: same nonces, same hashes.
    """
    with context.store.reading() as uow:
        unsent = [
            (slot, attempt)
            for slot in uow.outbox.slots.watched(context.account)
            for attempt in uow.outbox.slots.attempts(slot)
            if attempt.sends == 0
        ][:_AT_ONCE]
    if not unsent:
        return None
    answers = send_attempts(context, unsent, heads)
    refused = [sent.text for sent in answers if not sent.is_accepted]
    said = f", {len(refused)} not taken: {refused[0]}" if refused else ""
    return StepResult("sent", unsent[0][1].intent_id, f"{len(unsent)} calls{said}")


def _looks_at(context: TxContext, intents: Sequence[Intent], heads: Heads) -> list[_Look]:
    """Look whether each call is still wanted, and what it would do on the newest block."""
    with context.store.reading() as uow:
        is_blind = context.dispatch is None or not context.is_at_head(uow, heads)
        wanted = {} if context.dispatch is None or is_blind else wanted_now(uow, context.dispatch)
    alive = [one for one in intents if is_as_wanted(one, wanted, heads)]
    calls = [_trial(one, heads) for one in alive]
    tried = preflight_all(context.lines(), calls) if calls else []
    verdicts = {one.id: verdict for one, verdict in zip(alive, tried, strict=True)}
    for one in alive:
        count(one.wish.kind, verdicts[one.id])
    return [_Look(one, is_blind, verdicts.get(one.id)) for one in intents]


def _trial(intent: Intent, heads: Heads) -> SimulatedCall:
    """Return what to try: a start as of the newest block without the check of that block."""
    wish = intent.wish
    is_newest = wish.as_of_block is not None and wish.as_of_block >= heads.latest.number
    calldata = without_as_of(wish.calldata) if is_newest else wish.calldata
    return SimulatedCall(wish.account.address, wish.contract, calldata)


def _turn_away(context: TxContext, look: _Look, heads: Heads) -> StepResult | None:
    """End or postpone a call that cannot go now; a nonce that it has is free again then.

    A refusal ends nothing: the fold will see what the contract knows already, and then the call is
    not wanted any more. Ended before, it would be planned anew at once, over and over.
    """
    if look.is_blind:
        return wait(context, look.intent, heads, ("behind", "the database is behind the head"))
    verdict = look.verdict
    if verdict is None:
        return end(context, look.intent, IntentState.SUPERSEDED, NOT_WANTED)
    name = verdict.refusal.name if verdict.refusal is not None else ""
    return wait(context, look.intent, heads, (name or "unknown", verdict.reason))


def _step(did: str, intents: Sequence[Intent]) -> StepResult:
    kinds = [intent.wish.kind.value for intent in intents]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return StepResult(did, intents[0].id, counted)


def _first(steps: Sequence[StepResult | None]) -> StepResult | None:
    return next((step for step in steps if step is not None), None)
