"""When a sent push can no longer land, and when the same push is sent again.

A signer was removed or the quorum changed before inclusion, or the contract was paused in that
block and is not any more.
"""

from typing import NamedTuple

from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.ids import Hash
from oracle.quorum.resigning import statement_behind
from oracle.quorum.statements import expiry_reason
from oracle.reporting.reporting_context import PUSH, ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.client.receipts import SimulatedCall, refusal_at

_MINED = frozenset({IntentState.MINED, IntentState.REVERTED})


def why_hopeless(uow: UnitOfWork, push: Intent, contract_status: ContractStatus) -> str | None:
    """Return why a sent push can no longer land, or None if it may, or has landed."""
    request = push.request
    accepted = uow.rounds.accepted_round(request.round or 0)
    ours = (request.digest, request.account.address)
    if accepted is not None and (accepted.digest, accepted.transmitter) == ours:
        return None
    return expiry_reason(uow, statement_behind(uow, push, contract_status), contract_status)


def is_renewed_by(push: Intent, fresh: Intent) -> bool:
    """Return whether two pushes bring the same statement."""
    return push.request.digest is not None and push.request.digest == fresh.request.digest


def may_go_again(context: ReportingContext, push: Intent) -> bool:
    """Return whether a push failed because the contract was paused in its block, and may be resent.

    Call it only while the contract is open. Other reverts are not paid for twice. If a reorg
    revives the push, both may land, and the later one is refused.
    """
    if push.state not in _MINED or push.nonce is None:
        return False
    with context.tx.store.reading() as uow:
        slot = uow.outbox.slots.at(context.tx.account, push.nonce)
    if slot is None or slot.succeeded is not False or slot.block_number is None:
        return False
    request = push.request
    call = SimulatedCall(request.account.address, request.contract, request.calldata)
    lines, refusal_of = context.tx.lines(), context.tx.registry.refusal_of
    refusal = refusal_at(lines, call, slot.block_number, refusal_of)
    return refusal is not None and refusal.is_pause


# Pushes among which those of one statement are looked for, and how many there may be.
LOOKED_BACK, MOST_TRIES = 50, 5
# A push that was not sent, because its round was taken or its block was gone, may go again.
MAY_GO_AGAIN = frozenset({IntentState.SUPERSEDED, IntentState.EXPIRED})
# A round that another report took counts as missed, also where a fork gives it back.
_OPEN = frozenset({ReportState.DUE, ReportState.MISSED})


class GivenUp(NamedTuple):
    """A statement that could still land, and is no longer tried.

    `deadline`: chain time from which the next statement may replace it. `reason`: how the last try
    ended.
    """

    round: int
    period: int
    digest: Hash
    until: int
    why: str


def given_up(uow: UnitOfWork) -> list[GivenUp]:
    """Return the statements whose round is free and whose tries are used up, newest first."""
    by_digest: dict[Hash, list[Intent]] = {}
    for push in uow.outbox.intents.newest(LOOKED_BACK, kind=PUSH):
        if push.request.digest is not None:
            by_digest.setdefault(push.request.digest, []).append(push)
    found = (_given_up(uow, digest, pushes) for digest, pushes in by_digest.items())
    return [one for one in found if one is not None]


def _given_up(uow: UnitOfWork, digest: Hash, pushes: list[Intent]) -> GivenUp | None:
    newest = pushes[0]
    period, number, deadline = newest.request.period, newest.request.round, newest.request.deadline
    if len(pushes) < MOST_TRIES or newest.state not in MAY_GO_AGAIN:
        return None
    if period is None or number is None or deadline is None:
        return None
    stored, cursor = uow.reports.at(period), uow.cursor.get()
    # Cut again since, on another block, it is another statement.
    if stored is None or stored.state not in _OPEN or stored.digest != digest:
        return None
    is_taken = uow.rounds.accepted_round(number) is not None
    if is_taken or (cursor is not None and cursor.time > deadline):
        return None
    return GivenUp(number, period, digest, deadline, newest.error_text or newest.state.value)
