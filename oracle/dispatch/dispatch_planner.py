"""Plans the dispatcher's calls: task starts, queue updates and download requests."""

from collections.abc import Iterator

from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_calls import (
    STARTS,
    CallKey,
    DispatchContext,
    Want,
    calldata_of,
    key_of,
    wanted_now,
)
from oracle.domain.ids import Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import ON_ITS_WAY, CallRequest
from oracle.txmgr.context import StepResult, counted
from oracle.txmgr.deferral import held_back


def plan_dispatch(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the calls that are due and not yet pending, up to `max_in_flight`, or return None.

    Nothing is planned during backfill, because a draw of that time may have ended since.
    """
    if context.tx.is_stopped():
        return None
    with context.tx.store.reading() as uow:
        if not context.tx.is_at_head(uow, heads):
            return None
        requests = list(_requests(context, uow, heads))
    if not requests:
        return None
    stamp = context.tx.stamp
    with context.tx.writing() as uow:
        added = [uow.outbox.intents.add(request, stamp) for request in requests]
    return StepResult(
        "dispatch planned", added[0], counted([request.kind for request in requests])
    )


def _requests(context: DispatchContext, uow: UnitOfWork, heads: Heads) -> Iterator[CallRequest]:
    """Yield the requests of planned calls; calls about the queue never delay a start."""
    settings = context.settings
    intents = uow.outbox.intents.unfinished(context.tx.account)
    given_up = _given_up(context, uow, heads)
    under_way = {key_of(one) for one in intents if one.id not in given_up}
    under_way |= {CallKey(*one) for one in held_back(uow, context.tx.account)}
    on_their_way = [one.request.kind for one in intents if one.state in ON_ITS_WAY]
    for want in wanted_now(uow, settings).values():
        is_start = want.about.kind in STARTS
        starts = sum(kind in STARTS for kind in on_their_way)
        before = starts if is_start else len(on_their_way)
        if before < settings.max_in_flight and want.about not in under_way:
            on_their_way.append(want.about.kind)
            yield _request(context, uow, want, heads)


def _given_up(context: DispatchContext, uow: UnitOfWork, heads: Heads) -> set[int]:
    """Return the ids of calls that were mined and failed 2, 4, 8 … blocks ago, doubling per try.

    A node and a task may still wait for the call, so it is retried before the failure is final.
    Should a reorg let both succeed, the contract refuses the second.
    """
    given_up = set()
    for slot in uow.outbox.slots.watched(context.tx.account):
        intent = uow.outbox.intents.named(slot.intent_id) if slot.succeeded is False else None
        if intent is not None and slot.block_number is not None:
            request = intent.request
            tries = uow.outbox.intents.tries(
                context.tx.account, request.kind, request.subject, None
            )
            if heads.latest.number - slot.block_number >= 1 << tries:
                given_up.add(intent.id)
    return given_up


def _request(context: DispatchContext, uow: UnitOfWork, want: Want, heads: Heads) -> CallRequest:
    kind, subject = want.about
    tries = uow.outbox.intents.tries(context.tx.account, kind, subject, None)
    draw = next(iter(want.draws), None)
    return CallRequest(
        account=context.tx.account,
        contract=context.tx.publisher.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}:try={tries + 1}",
        calldata=calldata_of(want, heads),
        subject=subject,
        as_of_block=None if draw is None else draw.seed_block,
        as_of_hash=None if draw is None else Hash(draw.seed_hash),
        priority=want.priority,
        exclusive_key=f"{kind}:{subject}" if want.is_exclusive else None,
    )
