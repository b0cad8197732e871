"""The call kind of a report push, for the transaction manager."""

from typing_extensions import override

from oracle.bindings.expected_events import find_missing_event
from oracle.chain.heads import Heads
from oracle.domain.reports.lanes import get_band, unpack_lanes
from oracle.domain.reports.round_data import decode_records
from oracle.quorum.resigning import build_retry_with_more_gas
from oracle.reporting.push_retries import has_same_statement, hopeless_push_reason
from oracle.reporting.reporting_context import PUSH, ReportingContext
from oracle.reporting.submission import submission_obstacle
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, IntentState
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.call_registry import CallKind, CallStage, Decision
from oracle.txmgr.client.receipt_quorum import Receipt


class PushCall(CallKind):
    """The call that pushes a report to the contract; one is in flight at a time.

    The next push may take the nonce of a push that cannot land.
    """

    name = PUSH
    max_in_flight = 1
    is_shared = True
    takes_over = True

    def __init__(self, context: ReportingContext) -> None:
        self._context = context
        self.pause_seconds = context.settings.period_seconds

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        """End a push if the indexed state shows that its round was accepted, with any report.

        A held report is not sent, and a push whose change became too small waits.
        """
        request = call.request
        is_taken = (
            request.round is not None and uow.rounds.get_accepted_round(request.round) is not None
        )
        if is_taken and stage is not CallStage.ASSIGN:
            return Decision.end(IntentState.SUPERSEDED, f"round {request.round} is taken")
        if stage is CallStage.WAIT:
            return Decision.proceed()
        reason = submission_obstacle(self._context, uow, call, heads.latest.time)
        return (
            Decision.proceed() if reason is None else Decision.wait_for_next_block(heads, reason)
        )

    @override
    def may_take_over(self, stuck: Intent, ready: Intent) -> bool:
        """Return whether the stuck push can no longer land, or both push the same statement."""
        contract_status = self._context.quorum.fetch_contract_status()
        with self._context.account_context.store.read_transaction() as uow:
            is_hopeless = hopeless_push_reason(uow, stuck, contract_status) is not None
        return is_hopeless or has_same_statement(stuck, ready)

    @override
    def build_retry(self, failed: Intent, heads: Heads) -> CallRequest | None:
        return build_retry_with_more_gas(failed, heads)

    @override
    def on_retried(self, uow: UnitOfWork, retry_request: CallRequest) -> None:
        if retry_request.period is not None:
            uow.reports.mark_state(retry_request.period, ReportState.DUE)

    @override
    def is_urgent(self, uow: UnitOfWork, call: Intent) -> bool:
        """Return whether a later report that moves a node to another band waits behind this push.

        The newest due report is compared with the words that the push will have written. See
        docs/explanation/reports.md#when-to-publish.
        """
        period = call.request.period
        if period is None:
            return False
        pushed_report = uow.reports.get(period)
        later_reports = [
            stored_report
            for stored_report in uow.reports.list_due()
            if stored_report.report.period > period
        ]
        if not later_reports:
            return False
        wanted_words = dict(decode_records(later_reports[-1].report.records))
        words_in_flight = (
            {} if pushed_report is None else dict(decode_records(pushed_report.report.records))
        )
        on_chain = uow.rounds.get_words(wanted_words)
        written_words = {
            word_index: word.value for word_index, word in on_chain.items()
        } | words_in_flight
        kick_line = self._context.settings.kick_line
        return any(
            get_band(before, kick_line) != get_band(after, kick_line)
            for word_index, word in wanted_words.items()
            for before, after in zip(
                unpack_lanes(written_words.get(word_index, 0)), unpack_lanes(word), strict=True
            )
        )

    @override
    def missing_event(self, receipt: Receipt, call: Intent) -> str | None:
        return find_missing_event(
            receipt, call.request.contract, call.request.calldata, call.request.digest
        )

    @override
    def on_closed(
        self,
        uow: UnitOfWork,
        call: Intent,
        reason: str | None,
        *,
        replaced_by: Intent | None = None,
    ) -> None:
        """Mark the report of a push that has ended as landed or missed.

        Another transmitter may have pushed the same report; the accepted round counts once it is
        final (`reporting.landing`). Until then a reorg may remove the round, and the report is due
        again.
        """
        period, round_number = call.request.period, call.request.round
        is_renewed = replaced_by is not None and has_same_statement(call, replaced_by)
        if period is None or round_number is None or is_renewed:
            return
        stored_report = uow.reports.get(period)
        if stored_report is None or stored_report.state is not ReportState.DUE:
            return
        if stored_report.digest != call.request.digest:
            # The report was cut again after a reorg; this push was for another block.
            return
        accepted = uow.rounds.get_accepted_round(round_number)
        if reason is None:
            uow.reports.mark_state(period, ReportState.LANDED)
        elif accepted is None or accepted.digest != call.request.digest:
            uow.reports.mark_state(period, ReportState.MISSED, reason)
