"""Sends the calls of one account: assigns nonces, signs, broadcasts, confirms and retries.

Each step is one commit before the effect that it allows. After a crash between two steps the next
process continues with the same nonces and the same bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState
from oracle.txmgr.admission import admit
from oracle.txmgr.broadcaster import broadcast_unsent
from oracle.txmgr.budget import Budget, resume_funded
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.call_replacement import replace_next
from oracle.txmgr.confirmer import confirm
from oracle.txmgr.context import StepResult, TxContext, counted
from oracle.txmgr.deferral import decisions, followed
from oracle.txmgr.fee_bump import bump_next
from oracle.txmgr.nonce_conflicts import compare_again, compare_at_start
from oracle.txmgr.signing_queue import may_sign, resume_refused, sign_assigned

_LOOKED_AT = 50


def retry_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Plan a new call in place of a reverted one; return None if there is nothing to plan.

    Whether the new call is still wanted and works is checked when it is admitted.
    """
    with context.store.reading() as uow:
        failed = uow.outbox.intents.newest(_LOOKED_AT, IntentState.REVERTED)
    for intent in failed:
        if intent.request.account != context.account:
            continue
        kind = context.registry.kind_of(intent)
        again = kind.retry(intent, heads)
        if again is None:
            continue
        with context.writing() as uow:
            added = uow.outbox.intents.add(again, context.stamp)
            if added is not None:
                kind.on_retried(uow, again)
        if added is not None:
            why = intent.error_class or "reverted"
            return StepResult(
                f"{again.kind} again", added, f"instead of intent {intent.id}: {why}"
            )
    return None


def assign(context: TxContext, heads: Heads) -> StepResult | None:
    """Assign the lowest free nonces to ready calls; return None if none is ready or may be sent."""
    with context.store.reading() as uow:
        if not _next_calls(uow, context) or not may_sign(context):
            return None
    balance = context.balance()
    given: list[tuple[Intent, int]] = []
    waits: list[StepResult] = []
    with context.writing() as uow:
        # Checked again in the commit that assigns the nonces.
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
    """Return the ready calls that may get a nonce now, the most urgent first."""
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
    """Yield the ready calls that stay within the `max_in_flight` of their kind."""
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


_STAGES = (
    # Calls with a nonce go first, so that no higher nonce waits for a lower one.
    broadcast_unsent,
    sign_assigned,
    replace_next,
    bump_next,
    assign,
    admit,
    retry_next,
)


@dataclass(frozen=True, slots=True)
class TransactionManager:
    """The transaction manager of one account; each step handles `context.batch_size` calls."""

    context: TxContext

    def step(self, heads: Heads) -> StepResult | None:
        """Run the most urgent stage that has work; return None if none has."""
        context = self.context
        if context.is_stopped():
            return None
        resumed = resume_funded(context) or resume_refused(context)
        steps = (stage(context, heads) for stage in _STAGES)
        return resumed or next((step for step in steps if step is not None), None)

    def confirm(self, heads: Heads) -> StepResult | None:
        """Record what happened to open nonces; return None if nothing did.

        Raises:
            TransientError: no endpoint answers.
            InputError: an endpoint serves another chain.
        """
        return confirm(self.context, heads)

    def sync_nonces(
        self, *, is_running: bool = False, if_known: Callable[[], None] | None = None
    ) -> StepResult | None:
        """Compare the nonces with the chain, at the start and periodically (`is_running`).

        If the chain is ahead, a start is refused, while a running account is paused.
        `on_known_conflict` is called at a start whose account is already paused for that reason.

        Raises:
            NonceAheadError: at a start, the chain has nonces that this database never assigned.
            InputError, TransientError: see `nonce_sync.reconcile_nonces`.
        """
        if is_running:
            return compare_again(self.context)
        return compare_at_start(self.context, if_known)
