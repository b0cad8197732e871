"""The daemon jobs that plan, sign, send and confirm transactions, and that check nonces.

The transactions are reports, posted objections, kickouts, words of the hot set, and task starts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import TickFacts
from oracle.daemon.senders import Senders
from oracle.dispatch.dispatch_planner import plan_next_calls
from oracle.domain.health import Condition
from oracle.hot_set.hot_set_planner import plan_hot_set_calls
from oracle.indexer.loop import IngestState
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.kickouts.objection_sender import plan_objection_call
from oracle.quorum.key_watch import check_for_foreign_signatures
from oracle.reporting.readiness import find_unsent_report_reason
from oracle.reporting.report_planner import plan_push
from oracle.reporting.reporting_context import ReportingContext
from oracle.telemetry.logger import get_logger
from oracle.txmgr.attribution import find_missing_receipt_reason
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import StepResult
from oracle.txmgr.manager import run_step, take_over_unsigned_calls
from oracle.txmgr.nonce_sync import (
    reconcile_nonces,
    sync_nonces_at_start,
    sync_nonces_while_running,
)
from oracle.txmgr.signing_queue import find_blocking_pause_reason

RECONCILE_SECONDS = 300.0


@dataclass(slots=True)
class SendingJobs:
    """The jobs that send and confirm transactions, with their shared state.

    `unsure_reason` returns why nothing may be sent that depends on the folded state, or None. If
    `is_one_shot` is true, the process exits when everything is done (`run --once`), and a
    difference of nonces ends it with an error.
    """

    senders: Senders
    ingest: IngestState
    health: DaemonHealth
    unsure_reason: Callable[[], str | None]
    is_one_shot: bool = False
    # True once the accounts' nonces are known to match the chain. Nothing is sent before that.
    is_reconciled: bool = False

    def advance_reports(self) -> TickFacts:
        """Advance or plan the calls for reports, kickouts, objections and the hot set."""
        reporter, heads = self.senders.reporter, self.ingest.heads
        if reporter is None or heads is None:
            return None
        if not self.is_reconciled:
            self.reconcile_nonces()
        if self.unsure_reason() is not None:
            return None
        reporting, kickouts, hot_set = reporter.reporting, reporter.kickouts, reporter.hot_set
        self._update_held_report_reason(reporting)
        key_alarm = check_for_foreign_signatures(reporter.quorum, heads)
        if key_alarm is not None:
            return describe_step_result(key_alarm)
        transmitter = self.senders.transmitter
        sent_step = None if transmitter is None else run_step(transmitter, heads)
        step_result = (
            sent_step or plan_push(reporting, heads) or plan_objection_call(kickouts, heads)
        )
        step_result = step_result or plan_kickout_call(kickouts, heads)
        if step_result is None and hot_set is not None:
            step_result = plan_hot_set_calls(hot_set, heads)
        return describe_step_result(step_result)

    def _update_held_report_reason(self, context: ReportingContext) -> None:
        """Update why no report is sent, and log the reason when it changes."""
        reason = find_unsent_report_reason(context)
        if reason is not None and reason != self.health.held_report_reason:
            get_logger().warning("report_deferred", reason=reason)
        self.health.held_report_reason = reason

    def advance_dispatch(self) -> TickFacts:
        """Plan the next task starts, or advance their transactions by one step."""
        dispatcher, heads = self.senders.dispatcher, self.ingest.heads
        if dispatcher is None or heads is None or self.unsure_reason() is not None:
            return None
        if not self.is_reconciled:
            self.reconcile_nonces()
        return describe_step_result(
            plan_next_calls(dispatcher, heads) or run_step(dispatcher.account_context, heads)
        )

    def confirm_transactions(self) -> TickFacts:
        """Look up the receipts of sent transactions for every account."""
        heads = self.ingest.heads
        if heads is None:
            return None
        steps = [
            confirm_transactions(account_context, heads)
            for account_context in self.senders.account_contexts
        ]
        return describe_step_result(
            next((step_result for step_result in steps if step_result is not None), None)
        )

    def reconcile_nonces(self) -> TickFacts:
        """Compare the accounts' nonces with the chain.

        If only an operator can resolve a difference, a running daemon pauses the sender, whereas a
        process that is starting or that runs once ends with an error.
        """
        reporter, account_contexts = self.senders.reporter, self.senders.account_contexts
        if reporter is not None and not self.is_reconciled:
            reporter.start_embargo_after_restore()
        for account_context in account_contexts:
            if self.is_one_shot:
                reconcile_nonces(account_context)
            elif self.is_reconciled:
                sync_nonces_while_running(account_context)
            else:
                is_reporter = reporter is not None and account_context is reporter.account_context
                back_off_signer = (
                    reporter.start_signing_embargo if reporter and is_reporter else None
                )
                sync_nonces_at_start(account_context, back_off_signer)
            if not self.is_reconciled:
                take_over_unsigned_calls(account_context)
        self.is_reconciled = reporter is not None or bool(account_contexts)
        update_pause_reasons(self.senders, self.health)
        return None


def update_pause_reasons(senders: Senders, health: DaemonHealth) -> None:
    """Update in `health` why senders are paused or lack a receipt.

    Pauses by the operator are left out.
    """
    account_contexts = senders.account_contexts
    pause_reasons = map(find_blocking_pause_reason, account_contexts)
    health.pause_reasons = [reason for reason in pause_reasons if reason is not None]
    receipt_reasons = map(find_missing_receipt_reason, account_contexts)
    health.missing_receipt_reasons = [reason for reason in receipt_reasons if reason is not None]
    blocked_reasons = [
        context.blocked_simulations.find_reason(context.clock()) for context in account_contexts
    ]
    blocked_reason = next((reason for reason in blocked_reasons if reason is not None), None)
    if blocked_reason is None:
        health.clear_condition(Condition.SIMULATION_BLOCKED)
    else:
        health.set_condition(Condition.SIMULATION_BLOCKED, blocked_reason)


def describe_step_result(step_result: StepResult | None) -> TickFacts:
    """Return the log fields of a step, or None if there was no step."""
    if step_result is None:
        return None
    tick_facts = {
        "did": step_result.action,
        "intent": step_result.intent_id,
        "detail": step_result.detail,
    }
    return {name: fact for name, fact in tick_facts.items() if fact not in {None, ""}}
