"""Admits planned calls: simulates and prices them and checks the caps (planned -> ready)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.signing.signer import Fees
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import YIELDED, Intent, IntentState
from oracle.telemetry.txmgr_metrics import TOO_BIG
from oracle.txmgr.budget import (
    Budget,
    Why,
    balance_obstacle,
    gas_of_block,
    l1_cost,
    limit_for,
    nonce_budget,
    show,
)
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.client.preflight import (
    PreflightOutcome,
    PreflightResult,
    count,
    is_taken_in_pool,
    preflight_all,
)
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import StepResult, TxContext, counted
from oracle.txmgr.deferral import decisions, follow, refused, wait, why_late
from oracle.txmgr.inclusion_time import margin_seconds, why_too_late
from oracle.txmgr.unconfirmed import stuck_beside

_OF_ANOTHER = "another transmitter's call for the same waits for a block"


def yield_reason(context: TxContext, intent: Intent, heads: Heads) -> tuple[str, str] | None:
    """Return why a call is left to lower-ranked transmitters, as (class, text), or None.

    Every transmitter of a quorum plans the same calls, and of two calls that land one reverts. The
    wait counts seconds of the chain and blocks, because on a fast chain neither alone is enough.

    Calls that an operator sends by hand do not wait. The seconds are part of the request
    (`not_before`), because a proposal belongs to one round, and rounds may be shorter than the
    wait.
    """
    is_ours = context.actor is not None or not context.rank.blocks_ahead
    if is_ours or not context.registry.kind_of(intent).is_shared:
        return None
    until = context.first_seen.began(intent.id, heads.latest.number) + context.rank.blocks_ahead
    if heads.latest.number >= until:
        return None
    return "not_our_turn", f"until block {until} it is left to transmitters of a lower rank"


def until_when_left(
    context: TxContext, intent: Intent, heads: Heads
) -> tuple[int, tuple[str, str]] | None:
    """Tell until when a call waits because another's is seen to wait for a block; None: it goes.

    Once: an endpoint that always says so, or a call that no block takes, stops nobody.
    """
    request = intent.request
    is_alone = not context.rank.has_others or not context.registry.kind_of(intent).is_shared
    if is_alone or intent.yielded_at is not None:
        return None
    with context.store.reading() as uow:
        until = heads.latest.time + max(context.rank.head_start, margin_seconds(context, uow))
        if why_too_late(context, uow, request.deadline, until) is not None:
            return None
    call = SimulatedCall(request.account.address, request.contract, request.calldata)
    if not is_taken_in_pool(context.lines(), call, context.registry.refusal_of):
        return None
    return until, (YIELDED, _OF_ANOTHER)


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """The result of checking a call.

    A `decision` to wait or end, else the result of its simulation.
    """

    intent: Intent
    decision: Decision | None
    result: PreflightResult | None = None

    @property
    def is_good(self) -> bool:
        """Whether the call is still wanted and its simulation succeeded."""
        is_ok = self.result is not None and self.result.outcome is PreflightOutcome.OK
        return is_ok and self.decision is None

    @property
    def gas(self) -> int:
        """The gas estimate of the call, or 0 if the simulation failed."""
        return 0 if self.result is None else self.result.gas


@dataclass(frozen=True, slots=True)
class _Priced:
    """A call that works, its gas limit, and its maximum cost in wei."""

    intent: Intent
    gas_limit: int
    cost: int


def admit(context: TxContext, heads: Heads) -> StepResult | None:
    """Make the most urgent planned calls ready; return None if nothing changed."""
    with context.store.reading() as uow:
        planned = uow.outbox.intents.in_states(context.account, [IntentState.PLANNED])
        for intent in planned:
            context.first_seen.began(intent.id, heads.latest.number)
        due = _to_look_at(uow, context, planned, heads)
    size = context.batch_size
    some = (due[first : first + size] for first in range(0, len(due), size))
    return next((step for each in some for step in _admitted(context, each, heads)), None)


def preflight_calls(
    context: TxContext, intents: Sequence[Intent], heads: Heads, stage: CallStage
) -> list[AdmissionCheck]:
    """Check whether each call is still wanted, and simulate it on the newest block.

    A call that another transmitter already has in the pool waits for that transaction. The check
    is repeated before the signature, because the call is sent in the same step.
    """
    said = _first_decisions(context, intents, heads, stage)
    tried = [one for one in intents if said[one.id].is_accepted]
    calls = [_trial(context, one, heads) for one in tried]
    results = preflight_all(context.lines(), calls, context.registry.refusal_of) if calls else []
    by_id = {one.id: result for one, result in zip(tried, results, strict=True)}
    for one in tried:
        count(one.request.kind, by_id[one.id])
    looks = [
        AdmissionCheck(one, None if said[one.id].is_accepted else said[one.id], by_id.get(one.id))
        for one in intents
    ]
    return [
        AdmissionCheck(look.intent, _left_to_another(context, look, heads), look.result)
        if look.is_good
        else look
        for look in looks
    ]


def defer_or_end_call(context: TxContext, look: AdmissionCheck, heads: Heads) -> StepResult | None:
    """End or defer a call that cannot be sent now; return None if it already waits for that reason.

    A nonce that the call holds becomes free again, so that an unsigned call blocks no other.
    """
    if look.decision is not None:
        return follow(context, look.intent, look.decision)
    result = look.result or PreflightResult(PreflightOutcome.UNKNOWN)
    return refused(context, look.intent, result, heads)


def _to_look_at(
    uow: UnitOfWork, context: TxContext, planned: Sequence[Intent], heads: Heads
) -> list[Intent]:
    """Return the calls whose time has come, and those that must end before it comes.

    A pause may be lifted before its time, and a transmitter that left the others a head start
    would otherwise be late for the next round too.
    """
    now = heads.latest.time
    early = [one for one in planned if (one.request.not_before or 0) > now]
    said = decisions(uow, context, early, heads, CallStage.WAIT) if early else []
    waits = {
        one.id
        for one, decision in zip(early, said, strict=True)
        if decision.is_accepted and (one.request.deadline is None or now <= one.request.deadline)
    }
    return [one for one in planned if one.id not in waits]


def _first_decisions(
    context: TxContext, intents: Sequence[Intent], heads: Heads, stage: CallStage
) -> dict[int, Decision]:
    """Return the decision about each call, by intent id, before any endpoint is queried."""
    with context.store.reading() as uow:
        late = {one.id: why_late(context, uow, one, heads) for one in intents}
        alive = [one for one in intents if late[one.id] is None]
        wanted = decisions(uow, context, alive, heads, stage)
    said = {one.id: decision for one, decision in zip(alive, wanted, strict=True)}
    for one in alive:
        rest = yield_reason(context, one, heads) if said[one.id].is_accepted else None
        if rest is not None:
            said[one.id] = Decision.wait_a_block(heads, rest)
    return said | {number: decision for number, decision in late.items() if decision is not None}


def _trial(context: TxContext, intent: Intent, heads: Heads) -> SimulatedCall:
    request, kind = intent.request, context.registry.kind_of(intent)
    return SimulatedCall(
        request.account.address, request.contract, kind.calldata_to_try(intent, heads)
    )


def _left_to_another(context: TxContext, look: AdmissionCheck, heads: Heads) -> Decision | None:
    left = until_when_left(context, look.intent, heads)
    return None if left is None else Decision.wait(*left)


def _admitted(context: TxContext, intents: Sequence[Intent], heads: Heads) -> Iterator[StepResult]:
    """Yield the results of a batch; calls that can be sent are made ready together."""
    looks = preflight_calls(context, intents, heads, CallStage.ADMIT)
    steps = [defer_or_end_call(context, look, heads) for look in looks if not look.is_good]
    good = [look for look in looks if look.is_good]
    steps += _priced(context, good, heads) if good else []
    yield from (step for step in steps if step is not None)


def _priced(
    context: TxContext, looks: Sequence[AdmissionCheck], heads: Heads
) -> list[StepResult | None]:
    """Make ready the calls that the caps and the balance allow; defer the others with a reason."""
    most = gas_of_block(context)
    limits = [limit_for(one.gas, one.intent.request.calldata, most) for one in looks]
    TOO_BIG.labels(context.role).set(int(None in limits))
    over_block_gas = [look for look, limit in zip(looks, limits, strict=True) if limit is None]
    steps = [
        wait(
            context,
            one.intent,
            heads,
            ("over_block_gas", f"takes {one.gas} gas, and a block has {most}"),
        )
        for one in over_block_gas
    ]
    fitting = [
        (look.intent, limit)
        for look, limit in zip(looks, limits, strict=True)
        if limit is not None
    ]
    fees = context.fees() if fitting else None
    if fees is None:
        why = ("fee_cap", "gas costs more than max_fee_per_gas_wei")
        return steps + [wait(context, intent, heads, why) for intent, _ in fitting]
    priced = [
        _Priced(one, limit, limit * fees.max_fee + l1_cost(context, one.request.calldata, limit))
        for one, limit in fitting
    ]
    return steps + _mark_ready(context, priced, fees, heads)


def _mark_ready(
    context: TxContext, priced: Sequence[_Priced], fees: Fees, heads: Heads
) -> list[StepResult | None]:
    balance, stamp = context.balance(), context.stamp
    with context.store.reading() as uow:
        show(uow, context)
        budget = Budget.of(uow, context, balance)
        obstacles = [_obstacle(uow, budget, one) for one in priced]
    pairs = list(zip(priced, obstacles, strict=True))
    good = [one for one, why in pairs if why is None]
    if good:
        with context.writing() as uow:
            for one in good:
                uow.outbox.intents.make_ready(one.intent, one.gas_limit, one.cost, stamp)
    ready = [_step(good)] if good else []
    return ready + [
        wait(context, one.intent, heads, (why[0], f"{why[1]} ({_terms(one, fees)})"))
        for one, why in pairs
        if why is not None
    ]


def _terms(one: _Priced, fees: Fees) -> str:
    return f"{one.gas_limit} gas at up to {fees.max_fee} wei"


def _obstacle(uow: UnitOfWork, budget: Budget, one: _Priced) -> Why | None:
    """Return why a call cannot be paid for now (a budget or the balance), or None.

    A call that will take the nonce of a stuck call needs only the higher of the two costs.
    """
    context = budget.context
    stuck = stuck_beside(uow, context, one.intent)
    if stuck is None:
        why = budget.obstacle(one.intent, one.cost)
        if why is None:
            budget.take(one.cost)
        return why
    if one.cost > nonce_budget(uow, context, stuck.slot):
        return "cost_cap", f"up to {one.cost} wei, more than [limits] leave for this nonce"
    return balance_obstacle(uow, context, budget.balance, one.cost, stuck.slot)


def _step(good: Sequence[_Priced]) -> StepResult:
    first = good[0]
    if len(good) == 1:
        return StepResult(
            f"{first.intent.request.kind} ready", first.intent.id, f"up to {first.cost} wei"
        )
    return StepResult("ready", first.intent.id, counted([one.intent.request.kind for one in good]))
