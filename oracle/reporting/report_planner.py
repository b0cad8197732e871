"""A report is signed when it has the turn; a quorum of signatures of it becomes a push.

What is signed follows from the chain alone (`domain.turns`, decision 0088); when it is sent, and
whether it is worth its gas, is the transmitter's affair and changes no byte of it.
"""

from dataclasses import dataclass

from oracle.bindings.qos_oracle import ContractStatus, push_call
from oracle.chain.heads import Heads
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.reports.round_schedule import Cut, ScheduleMoment, shift_length, turn_at
from oracle.errors import TransientError
from oracle.quorum.collector import signatures, why_not_counted
from oracle.quorum.reviewing import review
from oracle.quorum.sign_once import sign_once
from oracle.quorum.statement_tally import tally
from oracle.quorum.statements import report_record, statement_of
from oracle.reporting.giving_up import LOOKED_BACK, MAY_GO_AGAIN, MOST_TRIES
from oracle.reporting.landing import lose_next, settle_next, waits_for_finality
from oracle.reporting.missed import MISSED, in_words
from oracle.reporting.renewing import may_go_again
from oracle.reporting.sanity_gate import hold, why_held
from oracle.reporting.starting import why_blind
from oracle.reporting.submission import is_worth
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    ON_ITS_WAY,
    CallRequest,
    Intent,
    IntentKind,
    IntentState,
    SignedStatement,
)
from oracle.store.reports.report_repository import ReportState, StoredCut, StoredReport
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.inclusion_time import why_too_late
from oracle.txmgr.replacement.call_replacement import why_hopeless


@dataclass(frozen=True, slots=True)
class _Turn:
    """The report that has the turn, bound to its round, and how the contract stands."""

    report: Report
    standing: ContractStatus
    statement: ReportStatement
    record: SignedStatement


def plan_push(desk: TxContext, heads: Heads, *, clears: bool = True) -> StepResult | None:
    """Sign the report that has the turn, gather a quorum, plan its push; None: nothing to do now.

    Before that it writes down what became of others, where it `clears`; who only looks does not.

    Raises:
        TransientError: no endpoint answers; or the contract's rules are not ours.
    """
    if desk.is_stopped():
        return None
    with desk.store.reading() as unit:
        cuts = cuts_now(unit, desk.settings)
        pushing = _pushing(desk, unit)
        is_idle = not any(_is_wanted(desk, unit, one, heads) for one in cuts)
    if is_idle:
        desk.lack.nothing()
    step = (settle_next(desk, heads, cuts) or lose_next(desk, cuts)) if clears else None
    if step is None and not is_idle:
        step = _plan_beside(desk, heads, cuts, pushing, clears=clears)
    if step is None:
        review(desk, cuts)
    return step


def _plan_beside(
    desk: TxContext, heads: Heads, cuts: list[StoredCut], pushing: Intent | None, *, clears: bool
) -> StepResult | None:
    """Sign; and plan a push, unless one of ours is on its way that may still land.

    What we send keeps us from signing nothing: the others may have gone on without us.
    """
    standing = desk.standing()
    step = _miss(desk, cuts, standing) if clears else None
    if step is not None:
        return step
    turn = _turn(desk, heads, cuts, standing)
    if turn is None:
        return None
    is_free = pushing is None or _is_sent(pushing, turn) or _is_stuck(desk, pushing, standing)
    return _sign(desk, turn) or (_push(desk, turn) if is_free else None)


def cuts_now(unit: UnitOfWork, settings: ReportSettings) -> list[StoredCut]:
    """Return what was cut in the shifts that may still have the turn, or is due from before."""
    newest, due = unit.reports.newest_period(), unit.reports.first_due()
    if newest is None:
        return []
    length = shift_length(settings)
    start = (newest // length - 2) * length
    return unit.reports.cuts_since(start if due is None else min(start, due))


def _is_wanted(desk: TxContext, unit: UnitOfWork, one: StoredCut, heads: Heads) -> bool:
    """Tell whether anything is left to do about a report: only then is the contract asked."""
    if one.state is not ReportState.DUE or one.cut.as_of > desk.newest_as_of(heads):
        return False
    return one.digest is None or not waits_for_finality(unit, one)


def _pushing(desk: TxContext, unit: UnitOfWork) -> Intent | None:
    """Return the push of ours that is on its way, the newest: nothing is planned beside it."""
    if not desk.publisher.has_payer:
        return None
    pushes = [
        one
        for one in unit.outbox.intents.in_states(desk.account, ON_ITS_WAY)
        if one.wish.kind is IntentKind.PUSH
    ]
    return max(pushes, key=lambda one: one.id, default=None)


def _is_sent(push: Intent, turn: _Turn) -> bool:
    """Tell whether a push of this very statement was sent: it may need other signatures."""
    return push.state is IntentState.LIVE and push.wish.digest == turn.record.digest


def _is_stuck(desk: TxContext, push: Intent, standing: ContractStatus) -> bool:
    """Tell whether a push that was sent can no longer land: the next one takes its nonce."""
    if push.state is not IntentState.LIVE:
        return False
    with desk.store.reading() as unit:
        return why_hopeless(unit, push, standing) is not None


def why_missed(report: Cut, standing: ContractStatus) -> str | None:
    """Tell why a report can never be accepted any more; None: it still can."""
    head = standing.head
    if (head.round, standing.last_report) != (report.head_round, report.prev):
        # A lower round is an endpoint that lags behind.
        return "predecessor changed" if head.round >= report.head_round else None
    if standing.block.number + 1 - report.as_of > standing.limits.anchor_window:
        return "as-of left the anchor window"
    if standing.block.time > report.deadline:
        return "its deadline passed"
    return None


def _miss(desk: TxContext, cuts: list[StoredCut], standing: ContractStatus) -> StepResult | None:
    """Mark what nothing was signed for and can never be accepted any more."""
    unsigned = [one.cut for one in cuts if one.state is ReportState.DUE and one.digest is None]
    missed = [(cut.period, why_missed(cut, standing)) for cut in unsigned]
    gone = [(period, reason) for period, reason in missed if reason is not None]
    if not gone:
        return None
    with desk.writing() as unit:
        for period, reason in gone:
            unit.reports.mark(period, ReportState.MISSED, reason)
    return StepResult(MISSED, None, in_words(gone))


def _turn(
    desk: TxContext, heads: Heads, cuts: list[StoredCut], standing: ContractStatus
) -> _Turn | None:
    """Return the report that has the turn; None: none has, or we cannot tell.

    Raises:
        TransientError: the contract's rules are not ours.
    """
    with desk.store.reading() as unit:
        if why_blind(desk, unit, heads, standing) is not None:
            return None
    turn = _whose_turn(desk, heads, cuts, standing)
    if turn is None:
        return None
    if standing.rules_hash != desk.rules_hash:
        raise TransientError(
            f"the contract asks for rules {standing.rules_hash}, ours are {desk.rules_hash}: "
            "nothing is published until they agree"
        )
    return turn


def _whose_turn(
    desk: TxContext, heads: Heads, cuts: list[StoredCut], standing: ContractStatus
) -> _Turn | None:
    with desk.store.reading() as unit:
        stored = turn_now(unit, desk.settings, cuts, standing)
    if stored is None or stored.report.as_of.number > desk.newest_as_of(heads):
        return None
    statement = statement_of(stored.report, standing)
    return _Turn(stored.report, standing, statement, report_record(desk, statement))


def turn_now(
    unit: UnitOfWork, settings: ReportSettings, cuts: list[StoredCut], standing: ContractStatus
) -> StoredReport | None:
    """Return the report that has the turn; None: none has. `cuts`: see `cuts_now`."""
    cursor = unit.cursor.get()
    if cursor is None:
        return None
    moment = ScheduleMoment(
        number=cursor.number,
        time=cursor.time,
        head_round=standing.head.round,
        last_report=standing.last_report,
        anchor_window=standing.limits.anchor_window,
    )
    chosen = turn_at([one.cut for one in cuts], unit.reports.complete_from(), moment, settings)
    return None if chosen is None else unit.reports.at(chosen.period)


def _sign(desk: TxContext, turn: _Turn) -> StepResult | None:
    """Sign it, where there is a signer and nothing holds it; None: nothing new was signed."""
    if not desk.publisher.has_signer:
        return None
    with desk.store.reading() as unit:
        live = unit.outbox.signatures.live(turn.record)
        reason = None if live is not None else why_held(desk, unit, turn.report)
        stored = unit.reports.at(turn.report.period)
    if reason is not None:
        return hold(desk, turn.report, reason)
    signed = sign_once(desk, turn.statement, turn.record, turn.standing)
    if signed is None or (stored is not None and stored.digest == signed.digest):
        return None
    with desk.writing() as unit:
        unit.reports.bind(turn.report.period, signed.round, signed.digest)
    desk.lack.standing = why_not_counted(desk, turn.standing)
    detail = f"round {signed.round}, period {turn.report.period}"
    return StepResult("report signed", None, detail)


def _push(desk: TxContext, turn: _Turn) -> StepResult | None:
    """Plan the push of a report that a quorum has signed, where we transmit."""
    gathered = signatures(desk, turn.record, turn.standing)
    if gathered is None:
        return _look_for_dissent(desk, turn)
    desk.lack.nothing()
    if not desk.publisher.has_payer or not turn.standing.is_open:
        return None
    report, record = turn.report, turn.record
    calldata = push_call(turn.statement, gathered)
    tries = _tries(desk, record, calldata)
    if tries is None or not is_worth(desk, report, turn.standing).now:
        return None
    now = turn.standing.block.time
    with desk.store.reading() as unit:
        if why_too_late(desk, unit, report.deadline, now) is not None:
            return None
    wish = CallRequest(
        account=desk.account,
        contract=record.contract,
        kind=IntentKind.PUSH,
        dedup_key=f"push:round={record.round}:{record.digest}:try={tries + 1}",
        calldata=calldata,
        period=report.period,
        round=record.round,
        as_of_block=report.as_of.number,
        as_of_hash=report.as_of.hash,
        digest=record.digest,
        not_before=now + desk.head_start if desk.head_start else None,
        deadline=report.deadline,
    )
    with desk.writing() as unit:
        unit.reports.bind(report.period, record.round, record.digest)
        intent_id = unit.outbox.intents.add(wish, desk.stamp)
    return StepResult("push planned", intent_id, f"round {record.round}, period {report.period}")


def _tries(desk: TxContext, record: SignedStatement, calldata: str) -> int | None:
    """Count the pushes of this statement so far; None: no other is to be tried.

    One that was not sent, because its round was taken, is tried again: a fork may have given the
    round back; so is one that was sent, where the contract refuses its signatures and these are
    others, or where it rested when that was mined. What else ended one is for a human, or for the
    next statement.
    """
    with desk.store.reading() as unit:
        pushes = unit.outbox.intents.newest(LOOKED_BACK, kind=IntentKind.PUSH)
    same = [one for one in pushes if one.wish.digest == record.digest]
    if len(same) >= MOST_TRIES:
        return None
    if not same or same[0].state in MAY_GO_AGAIN:
        return len(same)
    return len(same) if may_go_again(desk, same[0], calldata) else None


def _look_for_dissent(desk: TxContext, turn: _Turn) -> StepResult | None:
    """Hold a report that can get no quorum any more; None: it still may, or is held already."""
    if turn.standing.head.quorum == 1:
        return None
    found = tally(desk, turn.record, turn.standing)
    reason = found.why_hopeless
    now = turn.standing.block.time
    lasted = now - desk.lack.began(turn.record.digest, now)
    is_late = reason is None and lasted > desk.settings.period_seconds
    desk.lack.signatures = found.what_lacks(turn.record.round) if is_late else None
    return None if reason is None else hold(desk, turn.report, reason)
