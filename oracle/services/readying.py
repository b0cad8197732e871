"""A planned call is tried on the newest block, priced, and held to the caps: planned -> ready."""

from oracle.chain.heads import Heads
from oracle.publisher.fees import gas_limit
from oracle.publisher.preflight import Outcome, Verdict, preflight
from oracle.publisher.receipts import balance_of
from oracle.publisher.typed_data import KickStatement
from oracle.services.accusing import evidence_against, is_due, is_founded
from oracle.services.deferring import end, not_now, wait
from oracle.services.desk import Desk, Step
from oracle.services.dispatching import STARTS, is_unwanted
from oracle.services.withdrawing import AGAINST
from oracle.store.outbox_rows import Intent, IntentKind, IntentState, Wish
from oracle.store.store import Unit

_AGAINST = frozenset(AGAINST)
_KICKS = _AGAINST | {IntentKind.CANCEL_KICK}
# Why a call of the dispatcher is given up.
NOT_WANTED = "overtaken(the draw, or the place in the queue, is no longer so)"
# What a kickout call is about, before the number of its lane.
LANE_SUBJECT = "ix="


def look_again(
    desk: Desk, intent: Intent, heads: Heads
) -> tuple[Verdict, None] | tuple[None, Step | None]:
    """Tell what the call would do now; else end or postpone it, and return that step.

    A nonce that it has is free again then: what nothing was signed for keeps nobody waiting.
    """
    obstacle = _overtaken(desk, intent, heads)
    if obstacle is not None:
        return None, end(desk, intent, *obstacle)
    if _is_blind(desk, intent, heads):
        return None, wait(desk, intent, heads, ("behind", "the database is behind the head"))
    if heads.stalled and intent.wish.kind in _AGAINST:
        return None, wait(desk, intent, heads, ("stalled", "the chain stands still"))
    publisher, wish = desk.publisher, intent.wish
    verdict = preflight(publisher.lines, wish.account.address, wish.contract, wish.calldata)
    if verdict.outcome is not Outcome.OK:
        return None, not_now(desk, intent, verdict, heads)
    return verdict, None


def _overtaken(desk: Desk, intent: Intent, heads: Heads) -> tuple[IntentState, str] | None:
    """Tell why the call must never go; None: it still may.

    A kickout may have waited for ether, a cap or a human while its node recovered, a start while
    its draw fell.
    """
    wish = intent.wish
    if _is_too_late(wish, heads.latest.time):
        return IntentState.EXPIRED, "its deadline passed"
    if wish.kind in STARTS:
        with desk.store.reading() as unit:
            if is_unwanted(desk, unit, intent):
                return IntentState.SUPERSEDED, NOT_WANTED
    if wish.kind in _AGAINST:
        with desk.store.reading() as unit:
            reason = _why_not_against(desk, unit, wish)
        if reason is not None:
            return IntentState.SUPERSEDED, reason
    return None


def _why_not_against(desk: Desk, unit: Unit, wish: Wish) -> str | None:
    """Tell why a kickout must not go on; None: its node is due, on the same evidence."""
    index = int(wish.subject.removeprefix(LANE_SUBJECT))
    if not is_due(unit, index, desk.rules):
        return "the kickout is no longer due"
    if wish.kind is IntentKind.PROPOSE_KICK:
        evidence = evidence_against(unit, index, desk.rules)
        said = KickStatement(wish.round or 0, index, evidence, wish.deadline or 0)
        is_same = said.digest(desk.publisher.domain) == wish.digest
    else:
        kicks = [kick for kick in unit.rounds.live_kicks() if kick.index == index]
        is_same = all(is_founded(unit, desk.rules, kick) for kick in kicks)
    return None if is_same else "the evidence behind the kickout left the chain"


def _is_too_late(wish: Wish, now: int) -> bool:
    return wish.deadline is not None and now > wish.deadline


def _is_blind(desk: Desk, intent: Intent, heads: Heads) -> bool:
    """Tell whether it rests on the state, and the fold cannot know yet how that is now."""
    if intent.wish.kind not in _KICKS | STARTS:
        return False
    with desk.store.reading() as unit:
        return not desk.is_at_head(unit, heads)


def ready_next(desk: Desk, heads: Heads) -> Step | None:
    """Make the most urgent planned call ready; None: none can be now."""
    with desk.store.reading() as unit:
        planned = unit.outbox.intents.in_states(desk.account, [IntentState.PLANNED])
    for intent in planned:
        wish, now = intent.wish, heads.latest.time
        # What is too late ends at once: a pause may have been lifted before its time.
        if (wish.not_before or 0) <= now or _is_too_late(wish, now):
            step = _ready(desk, intent, heads)
            if step is not None:
                return step
    return None


def _ready(desk: Desk, intent: Intent, heads: Heads) -> Step | None:
    verdict, step = look_again(desk, intent, heads)
    if verdict is None:
        return step
    limit = gas_limit(verdict.gas)
    fees = desk.publisher.fees()
    if fees is None:
        return wait(desk, intent, heads, ("fee_cap", "gas costs more than max_fee_per_gas_wei"))
    cost = limit * fees.max_fee
    too_dear = _obstacle(desk, cost)
    if too_dear is not None:
        return wait(desk, intent, heads, too_dear)
    with desk.writing() as unit:
        unit.outbox.intents.make_ready(intent, limit, cost, desk.stamp)
    return Step(f"{intent.wish.kind} ready", intent.id, f"up to {cost} wei")


def _obstacle(desk: Desk, cost: int) -> tuple[str, str] | None:
    """Tell why we cannot pay `cost` wei now: the cap of one transaction, or our ether."""
    most = desk.publisher.caps.cost_per_transaction
    if cost > most:
        return "cost_cap", f"up to {cost} wei, above max_cost_per_transaction_wei {most}"
    balance = balance_of(desk.publisher.lines, desk.account.address)
    with desk.store.reading() as unit:
        reserved = unit.outbox.slots.reserved(desk.account)
    if balance < reserved + cost:
        needed = f"needs {reserved + cost} wei; send ether to it"
        return "funds", f"{desk.account.address} has {balance} wei and {needed}"
    return None
