"""Takes many independent calls one step nearer to the chain in one turn (publishing.md 3.3).

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
from oracle.txmgr.budget import SPENT, kept_from, left, show
from oracle.txmgr.client.fee_quote import Fees
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, preflight_all
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.client.trials import count
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import end, wait
from oracle.txmgr.replacement.fee_bump import bump_next
from oracle.txmgr.replenishing import resume_funded
from oracle.txmgr.signing import may_sign, resume_refused
from oracle.txmgr.signing_queue import gas_of_block, l1_cost, limit_for, signed_call

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


def convoy_next(desk: TxContext, heads: Heads) -> StepResult | None:
    """Take the most urgent step, with everything that it can be taken with; None: nothing.

    What has a nonce goes first, as in `publishing.publish_next`.
    """
    if desk.is_stopped():
        return None
    return (
        resume_funded(desk)
        or resume_refused(desk)
        or _send_all(desk, heads)
        or _sign_all(desk, heads)
        or bump_next(desk, heads)
        or _assign_all(desk, heads)
        or _ready_all(desk, heads)
    )


def _ready_all(desk: TxContext, heads: Heads) -> StepResult | None:
    with desk.store.reading() as unit:
        planned = unit.outbox.intents.in_states(desk.account, [IntentState.PLANNED])
    due = [one for one in planned if (one.wish.not_before or 0) <= heads.latest.time]
    if not due:
        return None
    looks = _looks_at(desk, due[:_AT_ONCE], heads)
    steps = [_turn_away(desk, look, heads) for look in looks if not look.is_good]
    good = [look for look in looks if look.is_good]
    fees = desk.fees() if good else None
    if fees is None:
        why = ("fee_cap", "gas costs more than max_fee_per_gas_wei")
        steps += [wait(desk, look.intent, heads, why) for look in good]
    else:
        steps += _price(desk, good, fees, heads)
    return _first(steps)


def _price(
    desk: TxContext, looks: Sequence[_Look], fees: Fees, heads: Heads
) -> list[StepResult | None]:
    """Make ready what the caps and our ether allow; the others wait with the reason."""
    account, most = desk.account, desk.publisher.caps.cost_per_transaction
    balance = desk.balance()
    gas_there_is = gas_of_block(desk)
    with desk.store.reading() as unit:
        show(unit, desk)
        ether = balance - unit.outbox.slots.reserved(account)
        budget = left(unit, desk)
    steps: list[StepResult | None] = []
    affordable: list[tuple[Intent, int, int]] = []
    for look in looks:
        calldata = look.intent.wish.calldata
        limit = limit_for(look.gas, calldata, gas_there_is)
        cost = (limit or 0) * fees.max_fee + l1_cost(desk, calldata, limit or 0)
        if limit is None:
            why = ("too_big", f"takes {look.gas} gas, and a block has {gas_there_is}")
        elif cost > most:
            why = ("cost_cap", f"up to {cost} wei, above max_cost_per_transaction_wei {most}")
        elif cost > ether:
            why = ("funds", f"{account.address} has {balance} wei: send ether to it")
        elif cost > budget - kept_from(desk, look.intent):
            # It stays planned: made ready, it would only be put back, block by block.
            why = SPENT
        else:
            ether, budget = ether - cost, budget - cost
            affordable.append((look.intent, limit, cost))
            continue
        steps.append(wait(desk, look.intent, heads, why))
    if affordable:
        steps.insert(0, _made_ready(desk, affordable))
    return steps


def _made_ready(desk: TxContext, affordable: Sequence[tuple[Intent, int, int]]) -> StepResult:
    stamp = desk.stamp
    with desk.writing() as unit:
        for intent, limit, cost in affordable:
            unit.outbox.intents.make_ready(intent, limit, cost, stamp)
    return _step("ready", [intent for intent, _, _ in affordable])


def _assign_all(desk: TxContext, heads: Heads) -> StepResult | None:
    with desk.store.reading() as unit:
        if not _ready(unit, desk) or not may_sign(desk):
            return None
    balance, stamp = desk.balance(), desk.stamp
    with desk.writing() as unit:
        outbox, account = unit.outbox, desk.account
        # Looked at once more, in the commit that gives the nonces.
        ready = _ready(unit, desk)
        allowed, ether = left(unit, desk), balance - outbox.slots.reserved(account)
        for intent in ready:
            cost = intent.max_cost_wei or 0
            if cost > min(allowed - kept_from(desk, intent), ether):
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


def _ready(unit: UnitOfWork, desk: TxContext) -> list[Intent]:
    if unit.outbox.senders.paused_because(desk.account) is not None:
        return []
    return unit.outbox.intents.in_states(desk.account, [IntentState.READY])[:_AT_ONCE]


def _sign_all(desk: TxContext, heads: Heads) -> StepResult | None:
    """Sign the lowest nonces that wait for it, up to the first that must not be signed."""
    with desk.store.reading() as unit:
        work = _unsigned(unit, desk)
        vacant = unit.outbox.slots.vacant(desk.account)
    if not work or not may_sign(desk):
        return None
    if vacant is not None and vacant.nonce < work[0][0].nonce:
        return _give_back(desk, work, heads)
    work = work[:_AT_ONCE]
    looks = _looks_at(desk, [intent for _, intent in work], heads)
    cheapest = min(_most_per_gas(desk, one) for _, one in work)
    fees = desk.fees(cheapest)
    pairs = zip(work, looks, strict=True)
    good = [one for one, look in takewhile(lambda pair: _fits(pair[1]), pairs)]
    if fees is None or not good:
        if not looks[0].is_good:
            return _turn_away(desk, looks[0], heads)
        dearer = ("dearer", "gas or fees rose above the reserved cost")
        return wait(desk, work[0][1], heads, dearer)
    signed = [(slot, signed_call(desk, intent, slot.nonce, fees)) for slot, intent in good]
    stamp = desk.stamp
    with desk.writing() as unit:
        for slot, call in signed:
            unit.outbox.slots.sign(slot, call, AttemptReason.FIRST, stamp)
    return _step("signed", [intent for _, intent in good])


def _most_per_gas(desk: TxContext, intent: Intent) -> int:
    """Return what is reserved for a unit of its gas, beside what a rollup takes for its data."""
    limit = intent.gas_limit or 1
    return ((intent.max_cost_wei or 0) - l1_cost(desk, intent.wish.calldata, limit)) // limit


def _fits(look: _Look) -> bool:
    return look.is_good and look.gas <= (look.intent.gas_limit or 0)


def _unsigned(unit: UnitOfWork, desk: TxContext) -> list[_Work]:
    """Return what has a nonce and no bytes, the lowest nonce first."""
    assigned = unit.outbox.intents.in_states(desk.account, [IntentState.ASSIGNED])
    by_nonce = {intent.nonce: intent for intent in assigned}
    return [
        (slot, by_nonce[slot.nonce])
        for slot in unit.outbox.slots.watched(desk.account)
        if slot.state is NonceState.OPEN
        and slot.nonce in by_nonce
        and not unit.outbox.slots.attempts(slot)
    ]


def _give_back(desk: TxContext, work: Sequence[_Work], heads: Heads) -> StepResult:
    """Take the nonces back that lie above a vacant one; their calls get the lowest ones anew."""
    why = ("lower_nonce", "a lower nonce became free")
    stamp = desk.stamp
    with desk.writing() as unit:
        for _, intent in work:
            unit.outbox.intents.postpone(intent, heads.latest.time, why, stamp)
    return _step("gave back", [intent for _, intent in work])


def _send_all(desk: TxContext, heads: Heads) -> StepResult | None:
    """Send stored bytes for the first time, and note how it went.

    Whoever dies before the note sends the same bytes once more: same nonces, same hashes.
    """
    with desk.store.reading() as unit:
        unsent = [
            (slot, attempt)
            for slot in unit.outbox.slots.watched(desk.account)
            for attempt in unit.outbox.slots.attempts(slot)
            if attempt.sends == 0
        ][:_AT_ONCE]
    if not unsent:
        return None
    answers = send_attempts(desk, unsent, heads)
    refused = [sent.text for sent in answers if not sent.is_accepted]
    said = f", {len(refused)} not taken: {refused[0]}" if refused else ""
    return StepResult("sent", unsent[0][1].intent_id, f"{len(unsent)} calls{said}")


def _looks_at(desk: TxContext, intents: Sequence[Intent], heads: Heads) -> list[_Look]:
    """Look whether each call is still wanted, and what it would do on the newest block."""
    with desk.store.reading() as unit:
        is_blind = desk.dispatch is None or not desk.is_at_head(unit, heads)
        wanted = {} if desk.dispatch is None or is_blind else wanted_now(unit, desk.dispatch)
    alive = [one for one in intents if is_as_wanted(one, wanted, heads)]
    calls = [_trial(one, heads) for one in alive]
    tried = preflight_all(desk.lines(), calls) if calls else []
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


def _turn_away(desk: TxContext, look: _Look, heads: Heads) -> StepResult | None:
    """End or postpone a call that cannot go now; a nonce that it has is free again then.

    A refusal ends nothing: the fold will see what the contract knows already, and then the call is
    not wanted any more. Ended before, it would be planned anew at once, over and over.
    """
    if look.is_blind:
        return wait(desk, look.intent, heads, ("behind", "the database is behind the head"))
    verdict = look.verdict
    if verdict is None:
        return end(desk, look.intent, IntentState.SUPERSEDED, NOT_WANTED)
    name = verdict.refusal.name if verdict.refusal is not None else ""
    return wait(desk, look.intent, heads, (name or "unknown", verdict.reason))


def _step(did: str, intents: Sequence[Intent]) -> StepResult:
    kinds = [intent.wish.kind.value for intent in intents]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return StepResult(did, intents[0].id, counted)


def _first(steps: Sequence[StepResult | None]) -> StepResult | None:
    return next((step for step in steps if step is not None), None)
