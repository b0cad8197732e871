"""Admits planned calls, so that calls that work and can be paid for become ready."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.domain.ids import Address
from oracle.signing.signer import Fees
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import YIELDED_CLASS, Intent, IntentState
from oracle.telemetry.txmgr_metrics import TOO_BIG
from oracle.txmgr.budget import (
    Budget,
    Reason,
    compute_gas_limit,
    compute_nonce_budget,
    fetch_block_gas_limit,
    fetch_l1_cost,
    find_balance_obstacle,
    update_budget_metrics,
)
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.client.preflight import (
    PreflightOutcome,
    PreflightResult,
    count_preflight_result,
    is_duplicate_pending,
)
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import AccountContext, StepResult, format_name_counts
from oracle.txmgr.deferral import (
    apply_decision,
    compute_deadline_margin_seconds,
    decide_calls,
    decide_on_deadline,
    defer_call,
    find_deadline_obstacle,
    handle_refused_call,
)
from oracle.txmgr.unconfirmed import find_takeover_target

_DUPLICATE_PENDING_TEXT = "another transmitter's call for the same purpose is pending"


def find_head_start_reason(
    context: AccountContext, intent: Intent, heads: Heads
) -> tuple[str, str] | None:
    """Return why a call is left to lower-ranked transmitters for now, or None.

    The reason is (class, text). Every transmitter of a quorum plans the same calls. If two of
    these calls are mined, one of them reverts and wastes its gas, so transmitters of a lower rank
    have a head start. It is measured in blocks and in seconds of chain time, because on a fast
    chain a few blocks take too little time.

    This function checks only the blocks. The planner adds the seconds to the request
    (`not_before`), because a push belongs to one round, and rounds may be shorter than the head
    start. Calls that an operator sends by hand do not wait.
    """
    has_priority = context.actor is not None or not context.rank.head_start_blocks
    if has_priority or not context.registry.get_kind(intent).is_shared:
        return None
    until_block = (
        context.first_seen.record_first_block(intent.id, heads.latest.number)
        + context.rank.head_start_blocks
    )
    if heads.latest.number >= until_block:
        return None
    return "not_our_turn", f"left to transmitters of a lower rank until block {until_block}"


def find_wait_for_pending_duplicate(
    context: AccountContext, intent: Intent, heads: Heads
) -> tuple[int, tuple[str, str]] | None:
    """Return until when a call waits for the pending call of another transmitter.

    The result is the chain time at which the wait ends, and the reason as (class, text). It is
    None if the call need not wait. Each call waits at most once. Otherwise, an endpoint that
    always reports a pending call could delay this call for ever, and so could a pending call that
    no block includes.
    """
    request = intent.request
    is_alone = not context.rank.has_others or not context.registry.get_kind(intent).is_shared
    if is_alone or intent.yielded_at is not None:
        return None
    with context.store.read_transaction() as uow:
        wait_until = heads.latest.time + max(
            context.rank.head_start_seconds, compute_deadline_margin_seconds(context, uow)
        )
        if find_deadline_obstacle(context, uow, request.deadline, wait_until) is not None:
            return None
    call = SimulatedCall(request.account.address, request.contract, request.calldata)
    if not is_duplicate_pending(
        context.get_synced_pool_view(), call, context.registry.decode_refusal
    ):
        return None
    return wait_until, (YIELDED_CLASS, _DUPLICATE_PENDING_TEXT)


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """The outcome of checking a call before it is sent.

    `result` is the result of the simulation. `decision` is set if the call was decided without a
    simulation.
    """

    intent: Intent
    decision: Decision | None
    result: PreflightResult | None = None

    @property
    def is_call_admissible(self) -> bool:
        """Whether the call is still wanted and its simulation succeeded."""
        is_ok = self.result is not None and self.result.outcome is PreflightOutcome.OK
        return is_ok and self.decision is None

    @property
    def gas_estimate(self) -> int:
        """The gas estimate of the call, or 0 if the simulation failed."""
        return 0 if self.result is None else self.result.gas


@dataclass(frozen=True, slots=True)
class _PricedCall:
    """A call that was simulated successfully, with its gas limit and its maximum cost in wei."""

    intent: Intent
    gas_limit: int
    cost: int


def admit_calls(context: AccountContext, heads: Heads) -> StepResult | None:
    """Check the most urgent planned calls, and mark those that can be sent as ready.

    Return None if nothing has changed.
    """
    with context.store.read_transaction() as uow:
        planned_intents = uow.outbox.intents.list_in_states(context.account, [IntentState.PLANNED])
        for intent in planned_intents:
            context.first_seen.record_first_block(intent.id, heads.latest.number)
        due_intents = _select_due_intents(uow, context, planned_intents, heads)
    batch_size = context.batch_size
    batches = (
        due_intents[start : start + batch_size] for start in range(0, len(due_intents), batch_size)
    )
    return next(
        (
            step_result
            for batch in batches
            for step_result in _admit_call_batch(context, batch, heads)
        ),
        None,
    )


def preflight_calls(
    context: AccountContext, intents: Sequence[Intent], heads: Heads, stage: CallStage
) -> list[AdmissionCheck]:
    """Check that each call is still wanted, and simulate it on the newest block.

    If the transaction pool contains another transmitter's transaction for the same purpose, the
    call waits for that transaction. The check is repeated right before the call is signed and
    sent, because its result may have changed since the admission.
    """
    decision_by_intent = _decide_calls_before_preflight(context, intents, heads, stage)
    accepted_intents = [intent for intent in intents if decision_by_intent[intent.id].is_accepted]
    simulated_calls = [
        _build_simulated_call(context, intent, heads) for intent in accepted_intents
    ]
    preflight_results = context.preflight_all(simulated_calls)
    result_by_intent = {
        intent.id: result
        for intent, result in zip(accepted_intents, preflight_results, strict=True)
    }
    for intent in accepted_intents:
        count_preflight_result(intent.request.kind, result_by_intent[intent.id])
    checks = [
        AdmissionCheck(
            intent,
            None if decision_by_intent[intent.id].is_accepted else decision_by_intent[intent.id],
            result_by_intent.get(intent.id),
        )
        for intent in intents
    ]
    return [
        AdmissionCheck(
            check.intent, _decide_on_pending_duplicate(context, check, heads), check.result
        )
        if check.is_call_admissible
        else check
        for check in checks
    ]


def defer_or_end_call(
    context: AccountContext, check: AdmissionCheck, heads: Heads
) -> StepResult | None:
    """Defer or end a call that cannot be sent now.

    Return None if the call already waits for the same reason. If the call has a nonce, the nonce
    is released, because an unsigned call would otherwise block all calls with higher nonces.
    """
    if check.decision is not None:
        return apply_decision(context, check.intent, check.decision)
    result = check.result or PreflightResult(PreflightOutcome.UNKNOWN)
    return handle_refused_call(context, check.intent, result, heads)


def _select_due_intents(
    uow: UnitOfWork, context: AccountContext, planned_intents: Sequence[Intent], heads: Heads
) -> list[Intent]:
    """Return the planned calls to check now.

    These are the calls whose `not_before` has passed, and those that must end earlier. A call that
    is over must not wait for its `not_before`, because it would delay the call of the next round.
    The same applies if a pause of the contract has ended before the expected time.
    """
    now = heads.latest.time
    early_intents = [
        intent for intent in planned_intents if (intent.request.not_before or 0) > now
    ]
    early_decisions = (
        decide_calls(uow, context, early_intents, heads, CallStage.WAIT) if early_intents else []
    )
    undecided_ids = {
        intent.id
        for intent, decision in zip(early_intents, early_decisions, strict=True)
        if decision.is_accepted
        and (intent.request.deadline is None or now <= intent.request.deadline)
    }
    return [intent for intent in planned_intents if intent.id not in undecided_ids]


def _decide_calls_before_preflight(
    context: AccountContext, intents: Sequence[Intent], heads: Heads, stage: CallStage
) -> dict[int, Decision]:
    """Decide about calls before they are simulated, by intent id.

    Raises:
        TransientError: no endpoint returns the market's fee for a call with its own limit.
    """
    with context.store.read_transaction() as uow:
        deadline_decisions = {
            intent.id: decide_on_deadline(context, uow, intent, heads) for intent in intents
        }
        timely_intents = [intent for intent in intents if deadline_decisions[intent.id] is None]
        kind_decisions = decide_calls(uow, context, timely_intents, heads, stage)
        decision_by_intent = {
            intent.id: decision
            for intent, decision in zip(timely_intents, kind_decisions, strict=True)
        }
        wanted_intents = [
            intent for intent in timely_intents if decision_by_intent[intent.id].is_accepted
        ]
        max_fees = [
            context.registry.get_kind(intent).find_max_market_fee(uow, intent, heads)
            for intent in wanted_intents
        ]
    for intent, max_fee in zip(wanted_intents, max_fees, strict=True):
        reason = find_head_start_reason(context, intent, heads) or _find_market_fee_reason(
            context, max_fee
        )
        if reason is not None:
            decision_by_intent[intent.id] = Decision.wait_for_next_block(heads, reason)
    return decision_by_intent | {
        intent_id: decision
        for intent_id, decision in deadline_decisions.items()
        if decision is not None
    }


def _find_market_fee_reason(context: AccountContext, max_fee: int | None) -> Reason | None:
    """Return why a call waits until gas is cheaper, or None if it does not wait.

    `max_fee` is the fee in wei per gas up to which the call is worth its gas, or None if only the
    account's cap limits it. The fee may have risen a hundredfold since the call was planned.
    """
    if max_fee is None or not context.is_market_fee_above(max_fee):
        return None
    return "not_worth", f"gas costs more than {max_fee} wei, which this call is worth now"


def _build_simulated_call(context: AccountContext, intent: Intent, heads: Heads) -> SimulatedCall:
    request = intent.request
    kind = context.registry.get_kind(intent)
    return SimulatedCall(
        request.account.address, request.contract, kind.build_simulation_calldata(intent, heads)
    )


def _decide_on_pending_duplicate(
    context: AccountContext, check: AdmissionCheck, heads: Heads
) -> Decision | None:
    duplicate_wait = find_wait_for_pending_duplicate(context, check.intent, heads)
    return None if duplicate_wait is None else Decision.wait_until(*duplicate_wait)


def _admit_call_batch(
    context: AccountContext, intents: Sequence[Intent], heads: Heads
) -> Iterator[StepResult]:
    """Check a batch of calls, and mark those that can be sent as ready.

    The results are yielded. The calls that become ready do so in a single commit.
    """
    checks = preflight_calls(context, intents, heads, CallStage.ADMIT)
    steps = [
        defer_or_end_call(context, check, heads)
        for check in checks
        if not check.is_call_admissible
    ]
    admissible_checks = [check for check in checks if check.is_call_admissible]
    steps += (
        _mark_affordable_calls_ready(context, admissible_checks, heads)
        if admissible_checks
        else []
    )
    yield from (step_result for step_result in steps if step_result is not None)


def _mark_affordable_calls_ready(
    context: AccountContext, checks: Sequence[AdmissionCheck], heads: Heads
) -> list[StepResult | None]:
    """Make all affordable calls ready, and defer the others with a reason."""
    block_gas_limit = fetch_block_gas_limit(context)
    gas_limits = [
        compute_gas_limit(check.gas_estimate, check.intent.request.calldata, block_gas_limit)
        for check in checks
    ]
    TOO_BIG.labels(context.role).set(int(None in gas_limits))
    checks_over_block_gas = [
        check for check, gas_limit in zip(checks, gas_limits, strict=True) if gas_limit is None
    ]
    steps = [
        defer_call(
            context,
            check.intent,
            heads,
            (
                "over_block_gas",
                f"needs {check.gas_estimate} gas, but a block has {block_gas_limit}",
            ),
        )
        for check in checks_over_block_gas
    ]
    intents_with_gas = [
        (check.intent, gas_limit)
        for check, gas_limit in zip(checks, gas_limits, strict=True)
        if gas_limit is not None
    ]
    fees = context.quote_fees() if intents_with_gas else None
    if fees is None:
        reason = ("fee_cap", "the base fee exceeds limits.max_fee_per_gas_wei")
        return steps + [
            defer_call(context, intent, heads, reason) for intent, _ in intents_with_gas
        ]
    priced_calls = [
        _PricedCall(
            fitting_intent,
            gas_limit,
            gas_limit * fees.max_fee
            + fetch_l1_cost(context, fitting_intent.request.calldata, gas_limit),
        )
        for fitting_intent, gas_limit in intents_with_gas
    ]
    return steps + _mark_calls_ready(context, priced_calls, fees, heads)


def _mark_calls_ready(
    context: AccountContext, priced_calls: Sequence[_PricedCall], fees: Fees, heads: Heads
) -> list[StepResult | None]:
    balance = context.fetch_balance()
    stamp = context.stamp
    with context.store.read_transaction() as uow:
        update_budget_metrics(uow, context)
        budget = Budget.from_outbox(uow, context, balance)
        prepared_intents = uow.outbox.intents.list_in_states(
            context.account, [IntentState.READY, IntentState.ASSIGNED]
        )
        prepared_ids = {_get_exclusive_key(intent): intent.id for intent in prepared_intents}
        obstacles = list[Reason | None]()
        for call in priced_calls:
            obstacle = _find_exclusive_call_obstacle(call.intent, prepared_ids)
            obstacle = obstacle or _find_payment_obstacle(uow, budget, call, fees)
            obstacles.append(obstacle)
            if obstacle is None:
                prepared_ids[_get_exclusive_key(call.intent)] = call.intent.id
    calls_with_obstacles = list(zip(priced_calls, obstacles, strict=True))
    affordable_calls = [call for call, reason in calls_with_obstacles if reason is None]
    if affordable_calls:
        with context.write_transaction() as uow:
            for call in affordable_calls:
                uow.outbox.intents.mark_ready(call.intent, call.gas_limit, call.cost, stamp)
    results = [_build_ready_result(affordable_calls)] if affordable_calls else []
    return results + [
        defer_call(context, call.intent, heads, reason)
        for call, reason in calls_with_obstacles
        if reason is not None
    ]


def _get_exclusive_key(intent: Intent) -> tuple[Address, str | None]:
    return intent.request.contract, intent.request.exclusive_key


def _find_exclusive_call_obstacle(
    intent: Intent, prepared_ids: Mapping[tuple[Address, str | None], int]
) -> Reason | None:
    """Return why a call waits for another call with the same `exclusive_key`, or None.

    `prepared_ids` contains the ids of intents that are ready, or that have a nonce but no signed
    bytes. The planner plans one call per key. However, when an operator releases a held call, the
    call that was planned in its place may be waiting as well.
    """
    contract, exclusive_key = _get_exclusive_key(intent)
    prepared_id = prepared_ids.get((contract, exclusive_key))
    if exclusive_key is None or prepared_id is None:
        return None
    text = (
        f"intent {prepared_id} for {exclusive_key} is sent first; only one is prepared at a time"
    )
    return "exclusive_call_pending", text


def _find_payment_obstacle(
    uow: UnitOfWork, budget: Budget, call: _PricedCall, fees: Fees
) -> Reason | None:
    """Return why a call cannot be paid for now, or None if it can.

    The reason is a budget or the balance. A call that will take over the nonce of a stuck call
    needs only the higher of the two costs, because at most one of the two is mined.
    """
    context = budget.context
    stuck_nonce = find_takeover_target(uow, context, call.intent)
    if stuck_nonce is None:
        reason = budget.find_spending_obstacle(call.intent, call.cost)
        if reason is None:
            budget.reserve_cost(call.cost)
    elif call.cost > compute_nonce_budget(uow, context, stuck_nonce.slot):
        reason = "cost_cap", f"up to {call.cost} wei, more than [limits] allows for this nonce"
    else:
        reason = find_balance_obstacle(uow, context, budget.balance, call.cost, stuck_nonce.slot)
    if reason is None:
        return None
    error_class, text = reason
    return error_class, f"{text} ({call.gas_limit} gas at up to {fees.max_fee} wei)"


def _build_ready_result(ready_calls: Sequence[_PricedCall]) -> StepResult:
    first_call = ready_calls[0]
    if len(ready_calls) == 1:
        return StepResult(
            f"{first_call.intent.request.kind} ready",
            first_call.intent.id,
            f"up to {first_call.cost} wei",
        )
    return StepResult(
        "ready",
        first_call.intent.id,
        format_name_counts([call.intent.request.kind for call in ready_calls]),
    )
