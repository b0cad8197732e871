"""A push that was sent and refused, whose statement is alive: when the same goes once more.

A signer was removed, or the quorum changed, while it waited for a block or in that block; or the
contract rested in that block, and does no more.
"""

from dataclasses import replace
from typing import NamedTuple

from oracle.bindings.contract_errors import OF_REST, OF_SIGNATURES
from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import lanes_of
from oracle.domain.reports.report import decode
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentKind, IntentState
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.client.preflight import preflight
from oracle.txmgr.client.receipts import SimulatedCall, refusal_at
from oracle.txmgr.context import StepResult, TxContext

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


# Pushes among which those of one statement are looked for, and how many there may be.
LOOKED_BACK, MOST_TRIES = 50, 5
# A push that was not sent, because its round was taken or its block was gone, may go again.
MAY_GO_AGAIN = frozenset({IntentState.SUPERSEDED, IntentState.EXPIRED})
# A round that another report took counts as missed, also where a fork gives it back.
_OPEN = frozenset({ReportState.DUE, ReportState.MISSED})


class GivenUp(NamedTuple):
    """A statement that could still land, and is not tried any more.

    `until`: chain time from which the next one may take its place. `why`: how its last try ended.
    """

    round: int
    period: int
    digest: Hash
    until: int
    why: str


def given_up(uow: UnitOfWork) -> list[GivenUp]:
    """Return the statements whose round is free and whose tries are used up, newest first."""
    by_digest: dict[Hash, list[Intent]] = {}
    for push in uow.outbox.intents.newest(LOOKED_BACK, kind=IntentKind.PUSH):
        if push.wish.digest is not None:
            by_digest.setdefault(push.wish.digest, []).append(push)
    found = (_given_up(uow, digest, pushes) for digest, pushes in by_digest.items())
    return [one for one in found if one is not None]


def _given_up(uow: UnitOfWork, digest: Hash, pushes: list[Intent]) -> GivenUp | None:
    newest = pushes[0]
    period, number, deadline = newest.wish.period, newest.wish.round, newest.wish.deadline
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


# As `confirming` notes it.
OUT_OF_GAS = "out_of_gas"
# The other calls are planned anew by whoever wants them.
_STATEMENTS = frozenset({IntentKind.PUSH, IntentKind.PROPOSE_KICK})
_LOOKED_AT = 50
_AGAIN = ":again"
_TRIES = 3


def retry_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Plan the same statement again where only the gas was too little; None: nothing to plan.

    Whether it is still wanted, and still works, is looked at when it is made ready.
    """
    with context.store.reading() as uow:
        failed = uow.outbox.intents.newest(_LOOKED_AT, IntentState.REVERTED)
    for intent in failed:
        if _may_go_again(context, intent, heads):
            wish = replace(intent.wish, dedup_key=intent.wish.dedup_key + _AGAIN, not_before=None)
            with context.writing() as uow:
                added = uow.outbox.intents.add(wish, context.stamp)
                if added is not None and wish.period is not None:
                    uow.reports.mark(wish.period, ReportState.DUE)
            if added is not None:
                return StepResult(
                    f"{wish.kind} again", added, f"intent {intent.id} ran out of gas"
                )
    return None


def _may_go_again(context: TxContext, intent: Intent, heads: Heads) -> bool:
    wish = intent.wish
    return (
        wish.account == context.account
        and wish.kind in _STATEMENTS
        and intent.error_class == OUT_OF_GAS
        and wish.dedup_key.count(_AGAIN) < _TRIES
        and (wish.deadline is None or heads.latest.time <= wish.deadline)
    )


def is_urgent_behind(uow: UnitOfWork, context: TxContext, intent: Intent) -> bool:
    """Tell whether a crossing of bands waits behind this push.

    Compared is what the newest report that is due says with what the push will have written.
    See docs/explanation/reports.md#when-to-publish.
    """
    if intent.wish.kind is not IntentKind.PUSH or intent.wish.period is None:
        return False
    open_one = uow.reports.at(intent.wish.period)
    waiting = [one for one in uow.reports.due() if one.report.period > intent.wish.period]
    if not waiting:
        return False
    wanted = dict(decode(waiting[-1].report.records))
    in_flight = {} if open_one is None else dict(decode(open_one.report.records))
    on_chain = uow.rounds.words(wanted)
    written = {number: word.value for number, word in on_chain.items()} | in_flight
    band_of = context.settings.bands.band_of
    return any(
        band_of(before) != band_of(after)
        for number, word in wanted.items()
        for before, after in zip(lanes_of(written.get(number, 0)), lanes_of(word), strict=True)
    )
