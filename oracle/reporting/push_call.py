"""The call kind of a report push, for the transaction manager."""

from typing_extensions import override

from oracle.bindings.expected_events import missing_effect
from oracle.chain.heads import Heads
from oracle.domain.reports.lanes import band_of, lanes_of
from oracle.domain.reports.round_data import decode_records
from oracle.quorum.resigning import with_more_gas
from oracle.reporting.push_retries import is_renewed_by, why_hopeless
from oracle.reporting.reporting_context import PUSH, ReportingContext
from oracle.reporting.submission import why_not_worth
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, IntentState
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.call_registry import CallKind, CallStage, Decision
from oracle.txmgr.client.receipt_quorum import Receipt


class PushCall(CallKind):
    """A report push: one is in flight at a time.

    The next may take the nonce of one that cannot land.
    """

    name = PUSH
    max_in_flight = 1
    is_shared = True
    takes_over = True

    def __init__(self, context: ReportingContext) -> None:
        self._context = context
        self.pause_seconds = context.settings.period_seconds

    @override
    def still_wanted(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        """End a push whose round was accepted with any report, by the indexed state.

        Held reports are not sent, and a push whose change became too small waits.
        """
        request = call.request
        is_taken = (
            request.round is not None and uow.rounds.accepted_round(request.round) is not None
        )
        if is_taken and stage is not CallStage.ASSIGN:
            return Decision.end(IntentState.SUPERSEDED, f"round {request.round} is taken")
        if stage is CallStage.WAIT:
            return Decision.go()
        why = why_not_worth(self._context, uow, call, heads.latest.time)
        return Decision.go() if why is None else Decision.wait_a_block(heads, why)

    @override
    def may_take_over(self, stuck: Intent, ready: Intent) -> bool:
        """Return whether the stuck push can no longer land, or both push the same statement."""
        contract_status = self._context.quorum.contract_status()
        with self._context.tx.store.reading() as uow:
            is_hopeless = why_hopeless(uow, stuck, contract_status) is not None
        return is_hopeless or is_renewed_by(stuck, ready)

    @override
    def retry(self, failed: Intent, heads: Heads) -> CallRequest | None:
        return with_more_gas(failed, heads)

    @override
    def on_retried(self, uow: UnitOfWork, again: CallRequest) -> None:
        if again.period is not None:
            uow.reports.mark(again.period, ReportState.DUE)

    @override
    def is_urgent(self, uow: UnitOfWork, call: Intent) -> bool:
        """Return whether a later report with a band crossing waits behind this push.

        The newest due report is compared with the words that the push will have written. See
        docs/explanation/reports.md#when-to-publish.
        """
        period = call.request.period
        if period is None:
            return False
        open_one = uow.reports.at(period)
        waiting = [one for one in uow.reports.due() if one.report.period > period]
        if not waiting:
            return False
        wanted = dict(decode_records(waiting[-1].report.records))
        in_flight = {} if open_one is None else dict(decode_records(open_one.report.records))
        on_chain = uow.rounds.words(wanted)
        written = {number: word.value for number, word in on_chain.items()} | in_flight
        kick_line = self._context.settings.kick_line
        return any(
            band_of(before, kick_line) != band_of(after, kick_line)
            for number, word in wanted.items()
            for before, after in zip(lanes_of(written.get(number, 0)), lanes_of(word), strict=True)
        )

    @override
    def missing_effect(self, receipt: Receipt, call: Intent) -> str | None:
        return missing_effect(
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
        """Mark the report of a push that has ended.

        Another transmitter may have pushed the same report: the accepted round counts once it is
        final (`reporting.landing`). Until then a reorg may remove it, and the report is due again.
        """
        period, wanted = call.request.period, call.request.round
        is_renewed = replaced_by is not None and is_renewed_by(call, replaced_by)
        if period is None or wanted is None or is_renewed:
            return
        stored = uow.reports.at(period)
        if stored is None or stored.state is not ReportState.DUE:
            return
        if stored.digest != call.request.digest:
            # Cut again since, on the chain that stayed: this push spoke of another block.
            return
        accepted = uow.rounds.accepted_round(wanted)
        if reason is None:
            uow.reports.mark(period, ReportState.LANDED)
        elif accepted is None or accepted.digest != call.request.digest:
            uow.reports.mark(period, ReportState.MISSED, reason)
