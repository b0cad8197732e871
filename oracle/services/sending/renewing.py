"""A push that was sent and fails for its signatures alone: others signed its statement as well.

A signer was removed, or the quorum changed, while it waited for a block or in that block.
"""

from oracle.publisher.preflight import preflight
from oracle.publisher.refusals import OF_SIGNATURES
from oracle.services.desk import Desk
from oracle.store.outbox_rows import Intent, IntentState

_SENT = frozenset({IntentState.LIVE, IntentState.MINED, IntentState.REVERTED})


def needs_other_signatures(desk: Desk, push: Intent, calldata: str) -> bool:
    """Tell whether the contract refuses a push that was sent for its signatures, and others do.

    `calldata`: the same statement with the signatures that count now. On the nonce of one that
    waits at most one of the two lands; one that was mined was refused, and stays so.
    """
    wish = push.wish
    if push.state not in _SENT or wish.calldata == calldata:
        return False
    verdict = preflight(desk.lines(), wish.account.address, wish.contract, wish.calldata)
    return verdict.refusal is not None and verdict.refusal.name in OF_SIGNATURES


def is_renewed_by(push: Intent, fresh: Intent) -> bool:
    """Tell whether a push brings the same statement as one that was sent."""
    return push.wish.digest is not None and push.wish.digest == fresh.wish.digest
