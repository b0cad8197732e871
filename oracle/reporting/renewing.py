"""A push that was sent and refused, whose statement is alive: when the same goes once more.

A signer was removed, or the quorum changed, while it waited for a block or in that block; or the
contract rested in that block, and does no more.
"""

from oracle.bindings.contract_errors import OF_REST, OF_SIGNATURES
from oracle.store.outbox.records import Intent, IntentState
from oracle.txmgr.client.preflight import preflight
from oracle.txmgr.client.receipts import SimulatedCall, refusal_at
from oracle.txmgr.context import TxContext

_MINED = frozenset({IntentState.MINED, IntentState.REVERTED})
_SENT = _MINED | {IntentState.LIVE}


def may_go_again(context: TxContext, push: Intent, calldata: str) -> bool:
    """Tell whether the statement of a push that was sent may be brought once more.

    `calldata`: it, with the signatures that count now. Ask only while the contract listens.

    Raises:
        TransientError: no endpoint tells why it failed.
    """
    return _needs_other_signatures(context, push, calldata) or _met_a_rest(context, push)


def is_renewed_by(push: Intent, fresh: Intent) -> bool:
    """Tell whether a push brings the same statement as one that was sent."""
    return push.wish.digest is not None and push.wish.digest == fresh.wish.digest


def _needs_other_signatures(context: TxContext, push: Intent, calldata: str) -> bool:
    """Tell whether the contract refuses a push for its signatures, and others are there.

    On the nonce of one that waits at most one of the two lands; one that was mined was refused,
    and stays so.
    """
    wish = push.wish
    if push.state not in _SENT or wish.calldata == calldata:
        return False
    verdict = preflight(context.lines(), wish.account.address, wish.contract, wish.calldata)
    return verdict.refusal is not None and verdict.refusal.name in OF_SIGNATURES


def _met_a_rest(context: TxContext, push: Intent) -> bool:
    """Tell whether a push failed because the contract rested in its block.

    What else a block refuses it for is not paid for twice. One that a reorg brings back may land
    beside the next: the later of the two is refused.
    """
    if push.state not in _MINED or push.nonce is None:
        return False
    with context.store.reading() as uow:
        slot = uow.outbox.slots.at(context.account, push.nonce)
    if slot is None or slot.succeeded is not False or slot.block_number is None:
        return False
    wish = push.wish
    call = SimulatedCall(wish.account.address, wish.contract, wish.calldata)
    refusal = refusal_at(context.lines(), call, slot.block_number)
    return refusal is not None and refusal.name in OF_REST
