"""A planned call is tried on the newest block, priced, and held to the caps: planned -> ready."""

from oracle.chain.heads import Heads
from oracle.publisher.fees import gas_limit
from oracle.publisher.preflight import Outcome, Verdict, preflight
from oracle.publisher.receipts import balance_of
from oracle.services.accusing import is_due
from oracle.services.deferring import end, not_now, wait
from oracle.services.desk import Desk, Step
from oracle.store.outbox_rows import Intent, IntentKind, IntentState


_AGAINST = frozenset({IntentKind.PROPOSE_KICK, IntentKind.EXECUTE_KICK})
_KICKS = _AGAINST | {IntentKind.CANCEL_KICK}
# What a kickout call is about, before the number of its lane.
LANE_SUBJECT = "ix="


def try_call(desk: Desk, intent: Intent) -> Verdict:
    """Ask every endpoint what the call would do now; nothing is sent."""
    publisher, wish = desk.publisher, intent.wish
    return preflight(publisher.lines, wish.account.address, wish.contract, wish.calldata)


def kick_obstacle(desk: Desk, intent: Intent, heads: Heads) -> tuple[IntentState, str] | None:
    """Tell why a planned kickout call must not go now; None: nothing, or it is a push.

    It may have waited for ether, a cap or a human while its node recovered: `superseded` when its
    spell has closed, `planned` while the fold is behind the head and cannot know.
    """
    kind, subject = intent.wish.kind, intent.wish.subject
    if kind not in _KICKS:
        return None
    with desk.store.reading() as unit:
        if not desk.is_at_head(unit, heads):
            return IntentState.PLANNED, "the database is behind the head"
        if kind in _AGAINST and not is_due(unit, int(subject.removeprefix(LANE_SUBJECT))):
            return IntentState.SUPERSEDED, "the kickout is no longer due"
    return None


def kept_back(
    desk: Desk, intent: Intent, heads: Heads, obstacle: tuple[IntentState, str]
) -> Step | None:
    """Do with a call what its `kick_obstacle` says: it ends, or waits for the next block."""
    state, reason = obstacle
    if state is IntentState.PLANNED:
        return wait(desk, intent, heads, ("behind", reason))
    return end(desk, intent, state, reason)


def ready_next(desk: Desk, heads: Heads) -> Step | None:
    """Make the most urgent planned call ready; None: none can be now."""
    with desk.store.reading() as unit:
        planned = unit.outbox.intents.in_states(desk.account, [IntentState.PLANNED])
    for intent in planned:
        if (intent.wish.not_before or 0) <= heads.latest.time:
            step = _ready(desk, intent, heads)
            if step is not None:
                return step
    return None


def _ready(desk: Desk, intent: Intent, heads: Heads) -> Step | None:
    if intent.wish.deadline is not None and heads.latest.time > intent.wish.deadline:
        return end(desk, intent, IntentState.EXPIRED, "its deadline passed")
    obstacle = kick_obstacle(desk, intent, heads)
    if obstacle is not None:
        return kept_back(desk, intent, heads, obstacle)
    verdict = try_call(desk, intent)
    if verdict.outcome is not Outcome.OK:
        return not_now(desk, intent, verdict, heads)
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
