"""Gives ready calls their nonces, in the commit that reserves the money: ready -> assigned."""

from collections import Counter
from collections.abc import Iterator, Sequence

from oracle.chain.heads import Heads
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState
from oracle.txmgr.budget import Budget
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.context import StepResult, TxContext, counted
from oracle.txmgr.deferral import decisions, followed
from oracle.txmgr.signing_queue import may_sign


def assign(context: TxContext, heads: Heads) -> StepResult | None:
    """Give the lowest free nonces to calls that are ready; None: none is, or none may be."""
    with context.store.reading() as uow:
        if not _next_calls(uow, context) or not may_sign(context):
            return None
    balance = context.balance()
    given: list[tuple[Intent, int]] = []
    waits: list[StepResult] = []
    with context.writing() as uow:
        # Looked at once more, in the commit that gives the nonces.
        ready = _next_calls(uow, context)
        budget = Budget.of(uow, context, balance)
        said = decisions(uow, context, ready, heads, CallStage.ASSIGN)
        for intent, wanted in zip(ready, said, strict=True):
            cost = intent.max_cost_wei or 0
            why = budget.obstacle(intent, cost)
            decision = wanted if why is None else Decision.wait_a_block(heads, why)
            if not decision.is_accepted:
                step = followed(context, uow, intent, decision)
                waits += [] if step is None else [step]
                continue
            budget.take(cost)
            given.append((intent, _opened(uow, context, intent, heads)))
    return _step(given) or next(iter(waits), None)


def _opened(uow: UnitOfWork, context: TxContext, intent: Intent, heads: Heads) -> int:
    outbox, account = uow.outbox, context.account
    vacant = outbox.slots.vacant(account)
    nonce = outbox.accounts.take_nonce(account) if vacant is None else vacant.nonce
    outbox.slots.open(intent, nonce, heads.latest.number, context.stamp)
    return nonce


def _step(given: Sequence[tuple[Intent, int]]) -> StepResult | None:
    if not given:
        return None
    first, nonce = given[0]
    if len(given) == 1:
        return StepResult(f"{first.request.kind} assigned", first.id, f"nonce {nonce}")
    return StepResult("assigned", first.id, counted([one.request.kind for one, _ in given]))


def _next_calls(uow: UnitOfWork, context: TxContext) -> list[Intent]:
    """Return the ready calls that may have a nonce now, the most urgent first."""
    ready = uow.outbox.intents.in_states(context.account, [IntentState.READY])
    if not ready or uow.outbox.accounts.paused_because(context.account) is not None:
        return []
    most, size = context.sending.max_in_flight, context.batch_size
    if most is not None:
        size = min(size, most - len(uow.outbox.slots.watched(context.account)))
    free = _free_of_their_kind(uow, context, ready)
    return [one for one, _ in zip(free, range(size), strict=False)]


def _free_of_their_kind(
    uow: UnitOfWork, context: TxContext, ready: Sequence[Intent]
) -> Iterator[Intent]:
    """Yield those of which not too many are on their way, themselves included."""
    at_most = {one.request.kind: context.registry.kind_of(one).max_in_flight for one in ready}
    under_way: Counter[str] = Counter()
    if any(most is not None for most in at_most.values()):
        sent = uow.outbox.intents.in_states(
            context.account, [IntentState.ASSIGNED, IntentState.LIVE]
        )
        under_way.update(one.request.kind for one in sent)
    for one in ready:
        most = at_most[one.request.kind]
        if most is None or under_way[one.request.kind] < most:
            under_way[one.request.kind] += 1
            yield one
