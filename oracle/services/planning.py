"""The newest report that is due becomes a signed push in the outbox, or is missed with a reason.

One round, one signature: what was signed is written down in the commit that plans its push.
"""

from dataclasses import replace

from oracle.chain.heads import Heads
from oracle.domain.report import Report
from oracle.errors import TransientError
from oracle.publisher.contract import Standing, push_call
from oracle.publisher.typed_data import ReportStatement
from oracle.services.desk import Desk, Step
from oracle.store.outbox_rows import IntentKind, SignedStatement, Wish
from oracle.store.reports import ReportState, StoredReport
from oracle.store.store import Unit


def plan_push(desk: Desk, heads: Heads) -> Step | None:
    """Plan a push of the newest report that is deep enough; None: nothing to plan now.

    Raises:
        TransientError: no endpoint answers; or the contract's rules are not ours.
    """
    if desk.is_stopped():
        return None
    with desk.store.reading() as unit:
        waiting = _waiting(desk, unit, heads)
        is_busy = unit.outbox.intents.push_on_its_way(desk.account) is not None
    if not waiting:
        return None
    *overtaken, newest = waiting
    if overtaken:
        return _miss(desk, [one.report.period for one in overtaken], "overtaken")
    if is_busy:
        return None
    return _plan(desk, newest.report)


def _waiting(desk: Desk, unit: Unit, heads: Heads) -> list[StoredReport]:
    """Return the due reports that nothing was signed for, oldest first."""
    limit = desk.newest_as_of(heads)
    return [
        one
        for one in unit.reports.due()
        if one.digest is None and one.report.as_of.number <= limit
    ]


def _plan(desk: Desk, report: Report) -> Step | None:
    standing = desk.publisher.contract.standing()
    reason = why_missed(report, standing)
    if reason is not None:
        return _miss(desk, [report.period], reason)
    if not _is_our_turn(desk, report, standing):
        return None
    return _sign(desk, report, standing)


def why_missed(report: Report, standing: Standing) -> str | None:
    """Tell why a report can never be accepted any more; None: it still can."""
    head = standing.head
    if (head.round, standing.last_report) != (report.head_round, report.prev):
        # A lower round is an endpoint that lags behind.
        return "predecessor changed" if head.round >= report.head_round else None
    if standing.block.number + 1 - report.as_of.number > standing.limits.anchor_window:
        return "as-of left the anchor window"
    if standing.block.time > report.deadline:
        return "its deadline passed"
    return None


def _is_our_turn(desk: Desk, report: Report, standing: Standing) -> bool:
    """Tell whether the contract would listen now; an unsigned report may wait and be overtaken."""
    head, now = standing.head, standing.block.time
    if standing.rules_hash != desk.rules_hash:
        raise TransientError(
            f"the contract asks for rules {standing.rules_hash}, ours are {desk.rules_hash}: "
            "nothing is published until they agree"
        )
    is_running = now >= head.paused_until and now >= head.pushed_at + standing.limits.min_interval
    return is_running and head.round == report.head_round


def _sign(desk: Desk, report: Report, standing: Standing) -> Step | None:
    publisher = desk.publisher
    statement = statement_of(report, standing)
    digest = statement.digest(publisher.domain)
    signed = SignedStatement(
        chain_id=publisher.domain.chain_id,
        contract=publisher.domain.contract,
        signer=publisher.signer.address,
        kind="report",
        round=statement.round,
        subject="",
        digest=digest,
        signature=b"",
        expires_at=report.deadline,
        prev_digest=report.prev,
        as_of_block=report.as_of.number,
        as_of_hash=report.as_of.hash,
    )
    with desk.store.reading() as unit:
        earlier = unit.outbox.signatures.live(signed)
    why_dead = None if earlier is None else _why_dead(desk, earlier, standing)
    if earlier is not None and why_dead is None:
        # It may still land: a second statement about this round would be equivocation.
        return None
    signature = publisher.signer.sign_statement(statement, publisher.domain)
    signed = replace(signed, signature=signature)
    wish = Wish(
        account=desk.account,
        contract=publisher.domain.contract,
        kind=IntentKind.PUSH,
        dedup_key=f"push:round={statement.round}:period={report.period}",
        calldata=push_call(statement, signed.signature),
        period=report.period,
        round=statement.round,
        as_of_block=report.as_of.number,
        as_of_hash=report.as_of.hash,
        digest=digest,
        deadline=report.deadline,
    )
    with desk.writing() as unit:
        if earlier is not None and why_dead is not None:
            unit.outbox.signatures.bury(earlier.digest, why_dead, desk.stamp)
        unit.outbox.signatures.add(signed, desk.stamp)
        intent_id = unit.outbox.intents.add(wish, desk.stamp)
        unit.reports.bind(report.period, statement.round, digest)
    return Step("push planned", intent_id, f"round {statement.round}, period {report.period}")


def statement_of(report: Report, standing: Standing) -> ReportStatement:
    """Bind a report to the round that it would become, under the rules in force."""
    return ReportStatement(
        round=standing.head.round + 1,
        rules=standing.head.rules,
        rules_hash=standing.rules_hash,
        prev=report.prev,
        as_of=report.as_of.number,
        as_of_hash=report.as_of.hash,
        deadline=report.deadline,
        records=report.records,
    )


def _why_dead(desk: Desk, earlier: SignedStatement, standing: Standing) -> str | None:
    """Tell why an earlier statement about this round can no longer land."""
    if standing.block.time > earlier.expires_at:
        return "expired"
    if earlier.prev_digest != standing.last_report:
        return "prev_reorged"
    if earlier.as_of_block is not None:
        block = desk.publisher.lines.ask("eth_getBlockByNumber", hex(earlier.as_of_block), False)
        if block is not None and block["hash"] != earlier.as_of_hash:
            return "anchor_reorged"
    return None


def _miss(desk: Desk, periods: list[int], reason: str) -> Step:
    with desk.writing() as unit:
        for period in periods:
            unit.reports.mark(period, ReportState.MISSED, reason)
    return Step("report missed", None, f"period {', '.join(map(str, periods))}: {reason}")
