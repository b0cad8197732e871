"""A planned call is tried on the newest block, priced, and held to the caps: planned -> ready."""

from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_planner import STARTS, is_unwanted
from oracle.kickouts.kick_calls import AGAINST, why_not_against
from oracle.quorum.resigning import refused
from oracle.reporting.submission import why_not_worth
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, IntentKind, IntentState
from oracle.telemetry.txmgr_metrics import TOO_BIG
from oracle.txmgr.budget import role, room, show, why_not, why_poor
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, count, preflight
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import end, wait, wait_until
from oracle.txmgr.inclusion_time import why_too_late
from oracle.txmgr.replacement.call_replacement import stuck_push
from oracle.txmgr.signing_queue import gas_of_block, l1_cost, limit_for
from oracle.txmgr.yielding import until_when_left, why_not_our_turn

_AGAINST = frozenset(AGAINST)
_KICKS = _AGAINST | {IntentKind.CANCEL_KICK}
# Why a call of the dispatcher is given up.
NOT_WANTED = "overtaken(the draw, or the place in the queue, is no longer so)"


def _look_again(
    context: TxContext, intent: Intent, heads: Heads
) -> tuple[PreflightResult, None] | tuple[None, StepResult | None]:
    """Tell what the call would do now; else end or postpone it, and return that step.

    A nonce that it has is free again then: what nothing was signed for keeps nobody waiting.
    """
    obstacle = _overtaken(context, intent, heads)
    if obstacle is not None:
        return None, end(context, intent, *obstacle)
    rest = _why_rest(context, intent, heads) or why_not_our_turn(context, intent, heads)
    if rest is not None:
        return None, wait(context, intent, heads, rest)
    wish = intent.wish
    verdict = preflight(context.lines(), wish.account.address, wish.contract, wish.calldata)
    count(wish.kind, verdict)
    if verdict.outcome is not PreflightOutcome.OK:
        return None, refused(context, intent, verdict, heads)
    return verdict, None


def _overtaken(context: TxContext, intent: Intent, heads: Heads) -> tuple[IntentState, str] | None:
    """Tell why the call must never go; None: it still may.

    A kickout may have waited for ether, a cap or a human while its node recovered, a start while
    its draw fell.
    """
    wish = intent.wish
    with context.store.reading() as uow:
        late = why_too_late(context, uow, wish.deadline, heads.latest.time)
    if late is not None:
        return IntentState.EXPIRED, late
    if wish.kind is IntentKind.PUSH:
        with context.store.reading() as uow:
            if _is_taken(uow, wish):
                return IntentState.SUPERSEDED, f"round {wish.round} is taken"
    if wish.kind in STARTS:
        with context.store.reading() as uow:
            if is_unwanted(context, uow, intent):
                return IntentState.SUPERSEDED, NOT_WANTED
    if wish.kind in _AGAINST:
        with context.store.reading() as uow:
            reason = why_not_against(context, uow, wish)
        if reason is not None:
            return IntentState.SUPERSEDED, reason
    return None


def _is_too_late(wish: CallRequest, now: int) -> bool:
    return wish.deadline is not None and now > wish.deadline


def _is_taken(uow: UnitOfWork, wish: CallRequest) -> bool:
    """Tell whether a report became the push's round, ours or another: by what was folded."""
    return wish.round is not None and uow.rounds.accepted_round(wish.round) is not None


def _why_rest(context: TxContext, intent: Intent, heads: Heads) -> tuple[str, str] | None:
    """Tell why a call that rests on the state waits, as (class, text); None: it need not."""
    kind = intent.wish.kind
    with context.store.reading() as uow:
        if kind is IntentKind.PUSH:
            return why_not_worth(context, uow, intent, heads.latest.time)
        if kind in _KICKS | STARTS and not context.is_at_head(uow, heads):
            return "behind", "the database is behind the head"
        return _why_nobody(uow, heads) if kind in _AGAINST else None


def _why_nobody(uow: UnitOfWork, heads: Heads) -> tuple[str, str] | None:
    """Tell why nobody is kicked out now; None: somebody may be."""
    if heads.stalled:
        return "stalled", "the chain stands still"
    # Scores look wrong: nobody is kicked out on them before a human has looked.
    return ("gated", "a report is held for a human") if uow.gates.is_any() else None


def ready_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Make the most urgent planned call ready; None: none can be now."""
    with context.store.reading() as uow:
        waiting = uow.outbox.intents.in_states(context.account, [IntentState.PLANNED])
        for intent in waiting:
            context.turns.began(intent.id, heads.latest.number)
        planned = [
            intent for intent in waiting if _is_to_look_at(uow, intent.wish, heads.latest.time)
        ]
    steps = (_ready(context, intent, heads) for intent in planned)
    return next((step for step in steps if step is not None), None)


def _is_to_look_at(uow: UnitOfWork, wish: CallRequest, now: int) -> bool:
    """Tell whether a call's time has come, or its end: that is not waited for.

    A pause may have been lifted before its time; and whoever left the others a head start would
    else be late for the next round too.
    """
    is_over = wish.kind is IntentKind.PUSH and _is_taken(uow, wish)
    return (wish.not_before or 0) <= now or _is_too_late(wish, now) or is_over


def _ready(context: TxContext, intent: Intent, heads: Heads) -> StepResult | None:
    verdict, step = look_around(context, intent, heads)
    if verdict is None:
        return step
    most = gas_of_block(context)
    limit = limit_for(verdict.gas, intent.wish.calldata, most)
    TOO_BIG.labels(role(context)).set(int(limit is None))
    if limit is None:
        too_big = ("too_big", f"takes {verdict.gas} gas, and a block has {most}")
        return wait(context, intent, heads, too_big)
    fees = context.fees()
    if fees is None:
        return wait(context, intent, heads, ("fee_cap", "gas costs more than max_fee_per_gas_wei"))
    cost = limit * fees.max_fee + l1_cost(context, intent.wish.calldata, limit)
    obstacle = _obstacle(context, intent, cost)
    if obstacle is not None:
        error_class, text = obstacle
        priced = f"{text} ({limit} gas at up to {fees.max_fee} wei)"
        return wait(context, intent, heads, (error_class, priced))
    with context.writing() as uow:
        uow.outbox.intents.make_ready(intent, limit, cost, context.stamp)
    return StepResult(f"{intent.wish.kind} ready", intent.id, f"up to {cost} wei")


def look_around(
    context: TxContext, intent: Intent, heads: Heads
) -> tuple[PreflightResult, None] | tuple[None, StepResult | None]:
    """As `_look_again`; and a call that another transmitter is seen to bring waits for that.

    Asked once more before the signature: then it is a turn to its sending, and no longer.
    """
    verdict, step = _look_again(context, intent, heads)
    if verdict is None:
        return None, step
    left = until_when_left(context, intent, heads)
    return (verdict, None) if left is None else (None, wait_until(context, intent, *left))


def _obstacle(context: TxContext, intent: Intent, cost: int) -> tuple[str, str] | None:
    """Tell why we cannot pay `cost` wei now: the budgets, or our ether.

    A push that will take the nonce of a dead one needs no more than the dearer of the two.
    """
    balance = context.balance()
    with context.store.reading() as uow:
        show(uow, context)
        stuck = stuck_push(uow, context) if intent.wish.kind is IntentKind.PUSH else None
        if stuck is None:
            return why_not(uow, context, cost) or why_poor(uow, context, balance, cost)
        if cost > room(uow, context, stuck.slot):
            return "cost_cap", f"up to {cost} wei, more than [limits] leave for this nonce"
        return why_poor(uow, context, balance, cost, stuck.slot)
