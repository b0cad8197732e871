"""The call that pushes a report, and whether a push has expired or is sent again.

For example, a push can no longer land if a signer was removed or the quorum changed before the
push was included. A push is sent again if the contract was paused in the block that included the
push, and accepts reports now.
"""

from typing_extensions import override

from oracle.bindings.expected_events import ContractCall
from oracle.bindings.qos_roots import RootsStatus
from oracle.chain.heads import Heads
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.reports.report import measure_lane_changes
from oracle.quorum.statements import (
    build_retry_with_more_gas,
    find_expiry_reason,
    load_pushed_statement,
)
from oracle.reporting.leaf_storage import load_report_lanes
from oracle.reporting.reporting_context import ReportingContext
from oracle.reporting.submission import decide_push_submission, find_submission_obstacle
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import PUSH, CallRequest, Intent, IntentState
from oracle.store.report_repository import ReportState
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.client.receipts import SimulatedCall, fetch_refusal

# Number of the newest pushes that are searched for the pushes of a statement, and maximum number
# of times that a statement is pushed.
MAX_SCANNED_PUSHES, MAX_TRIES = 50, 5
# A push in one of these states was not sent, because the round was taken or the block was removed
# by a reorg. It may therefore be tried again.
RETRYABLE_STATES = frozenset({IntentState.SUPERSEDED, IntentState.EXPIRED})
# A report is missed if another report took its round. It remains missed even if a reorg frees the
# round again.
_OPEN_STATES = frozenset({ReportState.DUE, ReportState.MISSED})
_MINED_STATES = frozenset({IntentState.MINED, IntentState.REVERTED})


def find_push_expiry_reason(
    context: ReportingContext, uow: UnitOfWork, push: Intent, contract_status: RootsStatus
) -> str | None:
    """Return why a sent push can no longer land, or None if it landed or still may."""
    accepted_round = uow.rounds.find_accepted_round(push.request.round or 0)
    if accepted_round is not None and _was_round_sent_by_push(uow, push, accepted_round):
        return None
    statement = load_pushed_statement(context.quorum, uow, push, contract_status)
    return find_expiry_reason(uow, statement, contract_status)


def _was_round_sent_by_push(uow: UnitOfWork, push: Intent, accepted_round: RoundAccepted) -> bool:
    """Return whether a transaction of this push got the round accepted."""
    slots = uow.outbox.slots
    nonce_slot = None if push.nonce is None else slots.find_slot(push.request.account, push.nonce)
    if nonce_slot is None:
        return False
    block = accepted_round.at.block
    return any(
        log.index == accepted_round.at.log
        and log.tx_hash in {attempt.signed.tx_hash for attempt in slots.list_attempts(nonce_slot)}
        for log in uow.logs.iterate_between(block, block)
    )


def has_same_statement(push: Intent, other_push: Intent) -> bool:
    """Return whether two pushes contain the same statement."""
    return push.request.digest is not None and push.request.digest == other_push.request.digest


def should_retry_push(context: ReportingContext, push: Intent) -> bool:
    """Return whether a push may be sent again because the contract was paused.

    The function may be called only while the contract accepts reports. A push that reverted for
    another reason is not paid for again. If a reorg revives the failed push, both pushes may be
    mined, but the contract refuses the later push.
    """
    if push.state not in _MINED_STATES or push.nonce is None:
        return False
    with context.account_context.store.read_transaction() as uow:
        slot = uow.outbox.slots.find_slot(context.account_context.account, push.nonce)
    if slot is None or slot.succeeded is not False or slot.block_number is None:
        return False
    request = push.request
    call = SimulatedCall(request.account.address, request.contract, request.calldata)
    pool_view = context.account_context.get_synced_pool_view()
    decode_refusal = context.account_context.registry.decode_refusal
    refusal = fetch_refusal(pool_view, call, slot.block_number, decode_refusal)
    return refusal is not None and refusal.is_pause


def find_abandoned_pushes(uow: UnitOfWork) -> list[Intent]:
    """Return the last push of each abandoned statement, newest first.

    An abandoned statement could still land, because its round is free, but no further push of it
    is planned. After its deadline (in chain time), the next statement may replace it.
    """
    pushes_by_digest: dict[Hash, list[Intent]] = {}
    for push in uow.outbox.intents.list_newest(MAX_SCANNED_PUSHES, kind=PUSH):
        if push.request.digest is not None:
            pushes_by_digest.setdefault(push.request.digest, []).append(push)
    return [
        pushes[0] for pushes in pushes_by_digest.values() if _is_statement_abandoned(uow, pushes)
    ]


def _is_statement_abandoned(uow: UnitOfWork, pushes: list[Intent]) -> bool:
    """Return whether a statement could still land but no further push of it is planned."""
    newest_push = pushes[0]
    request = pushes[0].request
    if len(pushes) < MAX_TRIES or newest_push.state not in RETRYABLE_STATES:
        return False
    if request.period is None or request.round is None or request.deadline is None:
        return False
    stored_report = uow.reports.get(request.period)
    cursor = uow.cursor.get()
    # If the report was rebuilt as of another block, its digest differs.
    if (
        stored_report is None
        or stored_report.state not in _OPEN_STATES
        or stored_report.digest != request.digest
    ):
        return False
    is_round_taken = uow.rounds.find_accepted_round(request.round) is not None
    return not is_round_taken and (cursor is None or cursor.time <= request.deadline)


class PushCall(ContractCall):
    """Pushes a report to the contract; only one push is in flight at a time.

    The next push may take the nonce of a push that cannot land.
    """

    name = PUSH
    max_in_flight = 1
    is_shared = True
    takes_over = True

    def __init__(self, context: ReportingContext) -> None:
        self._context = context
        self.pause_seconds = context.report_settings.period_seconds

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        """End a push if the contract has already accepted a report for its round.

        A held report is not sent, and a push whose change has become too small waits.
        """
        request = call.request
        is_round_taken = (
            request.round is not None and uow.rounds.find_accepted_round(request.round) is not None
        )
        if is_round_taken and stage is not CallStage.ASSIGN:
            return Decision.end(IntentState.SUPERSEDED, f"round {request.round} is taken")
        if stage is CallStage.WAIT:
            return Decision.proceed()
        submission_obstacle = find_submission_obstacle(self._context, uow, call, heads.latest.time)
        if submission_obstacle is None:
            return Decision.proceed()
        return Decision.wait_for_next_block(heads, submission_obstacle)

    @override
    def find_max_market_fee(self, uow: UnitOfWork, call: Intent, heads: Heads) -> int | None:
        """Return the maximum fee worth paying for the report's change at its current age."""
        decision = decide_push_submission(self._context, uow, call, heads.latest.time)
        return None if decision is None else decision.max_fee_per_gas

    @override
    def can_take_over(self, stuck_call: Intent, ready_call: Intent) -> bool:
        """Return whether the stuck push cannot land, or both pushes contain the same statement."""
        contract_status = self._context.quorum.fetch_contract_status()
        with self._context.account_context.store.read_transaction() as uow:
            has_expired = (
                find_push_expiry_reason(self._context, uow, stuck_call, contract_status)
                is not None
            )
        return has_expired or has_same_statement(stuck_call, ready_call)

    @override
    def build_retry(self, failed_call: Intent, heads: Heads) -> CallRequest | None:
        return build_retry_with_more_gas(failed_call, heads)

    @override
    def on_retried(self, uow: UnitOfWork, retry_request: CallRequest) -> None:
        if retry_request.period is not None:
            uow.reports.set_state(retry_request.period, ReportState.DUE)

    @override
    def is_urgent(self, uow: UnitOfWork, call: Intent) -> bool:
        """Return whether a later report that waits for this push changes a node's score band.

        The newest due report is compared with the report of this push. See
        docs/explanation/reports.md#when-to-publish.
        """
        period = call.request.period
        pushed_report = None if period is None else uow.reports.get(period)
        if pushed_report is None:
            return False
        later_reports = [
            stored_report.report
            for stored_report in uow.reports.list_due()
            if stored_report.report.period > pushed_report.report.period
        ]
        if not later_reports:
            return False
        lanes = load_report_lanes(self._context, uow, pushed_report.report)
        later_lanes = load_report_lanes(self._context, uow, later_reports[-1])
        if lanes is None or later_lanes is None:
            return False
        return measure_lane_changes(
            lanes, later_lanes, self._context.report_settings.kick_line
        ).crosses_band

    @override
    def on_closed(
        self,
        uow: UnitOfWork,
        call: Intent,
        reason: str | None,
        *,
        replaced_by: Intent | None = None,
    ) -> None:
        """Mark the report of an ended push as landed or missed.

        If another transmitter has pushed the same report, its accepted round counts once the round
        is final (`reporting.landing`). Until then the report stays due, because a reorg may remove
        the round.
        """
        period, round_number = call.request.period, call.request.round
        is_renewed = replaced_by is not None and has_same_statement(call, replaced_by)
        if period is None or round_number is None or is_renewed:
            return
        stored_report = uow.reports.get(period)
        if stored_report is None or stored_report.state is not ReportState.DUE:
            return
        if stored_report.digest != call.request.digest:
            # The report was rebuilt after a reorg. This push was for the earlier block.
            return
        accepted_round = uow.rounds.find_accepted_round(round_number)
        if reason is None:
            uow.reports.set_state(period, ReportState.LANDED)
        elif accepted_round is None or accepted_round.root != stored_report.report.root:
            uow.reports.set_state(period, ReportState.MISSED, reason)
