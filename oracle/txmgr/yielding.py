"""Leaves a call to another transmitter: to those of a lower rank for a while, and to the pool.

Every transmitter of a quorum plans the same calls, and of two that land one reverts. How long is
counted in seconds of the chain and in its blocks: of a quick chain neither alone is enough.
"""

from oracle.chain.heads import Heads
from oracle.store.outbox.records import YIELDED, Intent
from oracle.txmgr.client.preflight import is_taken_in_pool
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import TxContext
from oracle.txmgr.inclusion_time import margin_seconds, why_too_late

_OF_ANOTHER = "another transmitter's call for the same waits for a block"


def yield_reason(context: TxContext, intent: Intent, heads: Heads) -> tuple[str, str] | None:
    """Tell that those of a lower rank have not had their blocks yet, as (class, text); None: had.

    What a person sends by hand has no turn. Seconds are in the wish (`not_before`): a proposal
    is of one round, and rounds may be shorter than they.
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
