"""Implements `report push`, which sends the due report or explains why it cannot be sent."""

from collections.abc import Iterator, Sequence
from typing import NoReturn

import typer

from oracle.bindings.qos_roots import RootsStatus
from oracle.chain.heads import Heads
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    YesOption,
    confirm_action,
    load_config,
    print_model,
)
from oracle.cli.send_now import (
    describe_dry_run,
    open_reporter_on_checked_chain,
    plan_and_send_call,
)
from oracle.daemon.compose import open_index
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import Reporter
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_schedule import ReportHeader
from oracle.errors import InputError, TransientError
from oracle.queries.intent_view import format_resume_action
from oracle.queries.report_models import PushedReport, build_report_basis
from oracle.reporting.landing import REPORT_MISSED, find_missed_reason, is_report_accepted
from oracle.reporting.readiness import find_unsent_report_reason
from oracle.reporting.report_planner import load_current_cuts, load_scheduled_report, plan_push
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import PUSH, Account
from oracle.store.report_repository import ReportHold, ReportState
from oracle.txmgr.context import StepResult


def push(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Push the report that is due; asks for confirmation before sending."""
    with (
        open_folded_records(load_config(config)) as records,
        open_index(records) as index,
        open_reporter_on_checked_chain(index) as reporter,
    ):
        due_report = _get_due_report(reporter)
        if confirm_action(
            f"push the report of period {due_report.period}", yes=yes, dry_run=dry_run
        ):

            def plan_unless_expired(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
                # Check again, because the report may have expired before the user confirmed.
                _get_due_report(reporter)
                return _plan_and_sign_report(contexts, heads) or _raise_push_obstacle(
                    contexts, heads
                )

            sent_steps = plan_and_send_call(reporter, "report push", plan_unless_expired)
            _check_report_was_pushed(due_report, sent_steps)
            steps = [
                *(f"{step.action} {step.detail}" for step in sent_steps),
                *_explain_unsent_report(reporter, sent_steps),
            ]
        else:
            steps = [_describe_push_dry_run(reporter)]
    if as_json:
        print_model(
            PushedReport(**dict(build_report_basis(due_report)), dry_run=dry_run, steps=steps)
        )
        return
    typer.echo(f"period {due_report.period}, as of block {due_report.as_of.number}")
    for step in steps:
        typer.echo(f"  {step}")


def _check_report_was_pushed(report: Report, steps: list[StepResult]) -> None:
    """Check that a report was pushed, and did not expire before the confirmation.

    Raises:
        TransientError: no report was pushed; the steps only marked missed reports.
    """
    if all(step.action == REPORT_MISSED for step in steps):
        raise TransientError(
            f"nothing was pushed: the report of period {report.period} became too old to be "
            "accepted; run `qos-oracle run --once` to fold new blocks and cut the next report"
        )


def _explain_unsent_report(reporter: Reporter, steps: list[StepResult]) -> Iterator[str]:
    """Yield why a signed report was not sent although a transmitter key is configured."""
    if any(step.intent_id is not None for step in steps) or not reporter.account.has_payer:
        return
    account = Account(reporter.index.config.chain.id, reporter.account.sender)
    with reporter.index.store.read_transaction() as uow:
        open_push = uow.outbox.intents.find_most_urgent_pending_call(account, PUSH)
    if open_push is not None:
        yield (
            f"nothing was sent: the push of round {open_push.request.round} (intent "
            f"{open_push.id}) is {open_push.state.value}; the daemon or `qos-oracle run --once "
            "--publish` checks whether it has landed"
        )
    else:
        yield (
            "nothing sent: more signatures are needed, or the report is not worth its gas "
            "yet; the daemon continues, or run this command again"
        )


def _get_due_report(reporter: Reporter) -> Report:
    """Return the report to push next.

    Raises:
        InputError: the report is held until an operator releases it.
        TransientError: no report is due; the message has the reason, which is temporary.
    """
    contract_status = reporter.contract.fetch_status()
    settings = reporter.index.report_settings
    with reporter.index.store.read_transaction() as uow:
        stored_reports = load_current_cuts(uow, settings)
        scheduled_report = load_scheduled_report(uow, settings, stored_reports, contract_status)
        due_headers = [
            stored_report.header
            for stored_report in stored_reports
            if stored_report.state is ReportState.DUE
            and not is_report_accepted(uow, stored_report)
        ]
        is_late = scheduled_report is not None and any(
            stored_report.header.period == scheduled_report.report.period
            and find_missed_reason(stored_report.header, contract_status, contract_status.block)
            is not None
            for stored_report in stored_reports
        )
        hold = (
            _find_due_report_hold(reporter, uow, due_headers)
            if scheduled_report is None or is_late
            else None
        )
    if hold is not None:
        period = hold.period
        raise InputError(
            f"the report of period {period} is held: {hold.reason}; see `qos-oracle report "
            f"release {period}`"
        )
    if scheduled_report is not None and not is_late:
        return scheduled_report.report
    raise TransientError(_explain_no_pushable_report(due_headers, contract_status))


def _explain_no_pushable_report(
    due_headers: list[ReportHeader], contract_status: RootsStatus
) -> str:
    """Return why none of the waiting reports can be pushed.

    `due_headers` are the headers of the waiting reports, oldest first.
    """
    if not due_headers:
        return "no report is due; the next one is cut at the end of the period"
    reasons = {
        header.period: find_missed_reason(header, contract_status, contract_status.block)
        for header in due_headers
    }
    live_period = next(
        (period for period, miss_reason in reasons.items() if miss_reason is None), None
    )
    if live_period is None:
        last_period = due_headers[-1].period
        return (
            "no report can be pushed: no due report can still be accepted (the newest, of "
            f"period {last_period}: {reasons[last_period]}); run `qos-oracle run --once` to fold "
            "new blocks and cut the next report"
        )
    return (
        f"no report is scheduled; the first due report, of period {live_period}, waits until the "
        "acceptance of the last round is folded, or for a submission window that was observed "
        "from its start"
    )


def _describe_push_dry_run(reporter: Reporter) -> str:
    def plan_due_push(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
        # Outcomes of older reports are not marked, because this command does not show them.
        return plan_push(contexts.reporting, heads, mark_outcomes=False) or _raise_push_obstacle(
            contexts, heads
        )

    return describe_dry_run(reporter, plan_due_push, "the report would be sent, if possible now")


def _raise_push_obstacle(contexts: ReporterContexts, heads: Heads) -> NoReturn:
    """Raise an error that states why nothing was signed or planned.

    Raises:
        InputError: always.
    """
    context = contexts.account_context
    with context.store.read_transaction() as uow:
        is_at_head = context.is_at_head(uow, heads)
        accepted_rounds = uow.rounds.list_accepted(1)
        pushes = uow.outbox.intents.list_newest(1, kind=PUSH)
        pause = (
            uow.outbox.accounts.find_pause(context.account)
            if context.sender_account.has_payer
            else None
        )
    accepted_round = accepted_rounds[-1].round if accepted_rounds else 0
    unsent_reason = find_unsent_report_reason(contexts.reporting)
    if not is_at_head:
        reason = "the index is behind the head; run `qos-oracle run --once` first"
    elif unsent_reason is not None:
        reason = unsent_reason
    elif not context.sender_account.has_payer:
        reason = "no transmitter is configured, and the signature is already stored"
    elif pause is not None:
        action = format_resume_action(context.account, pause)
        reason = f"{context.account.address} is paused: {pause.reason}; {action}"
    elif pushes and (pushes[0].request.round or 0) > accepted_round:
        newest_push = pushes[0]
        reason = (
            f"the push of round {newest_push.request.round} (intent {newest_push.id}) is "
            f"{newest_push.state.value}; see `qos-oracle outbox show {newest_push.id}`"
        )
    else:
        reason = "the report is not worth its gas yet, or the contract rejects it now"
    raise InputError(f"nothing can be sent: {reason}")


def _find_due_report_hold(
    reporter: Reporter, uow: UnitOfWork, due_headers: Sequence[ReportHeader]
) -> ReportHold | None:
    """Return the newest hold on a due report that this daemon would sign, or None."""
    if not reporter.account.has_signer:
        return None
    periods = {header.period for header in due_headers}
    holds = [hold for hold in uow.holds.list_awaiting_operator() if hold.period in periods]
    return holds[-1] if holds else None


def _plan_and_sign_report(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
    """Sign the report, collect signatures, plan the push, and return the last step."""
    last_step = None
    while (push_step := plan_push(contexts.reporting, heads)) is not None:
        last_step = push_step
        if push_step.intent_id is not None:
            break
    return last_step
