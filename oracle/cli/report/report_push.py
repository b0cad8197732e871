"""`report push`: manually sends the report that is due, or explains why none can be sent."""

from collections.abc import Iterator, Sequence

import typer

from oracle.bindings.qos_oracle import ContractStatus
from oracle.chain.heads import Heads
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    YesOption,
    confirm_action,
    load_config,
    print_answer,
)
from oracle.cli.report.report_commands import report
from oracle.cli.send_now import dry_run_text, opened_reporter, published
from oracle.daemon.compose import open_index
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import Reporter, reporter_contexts
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_schedule import Cut
from oracle.errors import InputError, TransientError
from oracle.queries.reports.report_models import PushedReport
from oracle.queries.reports.report_view import report_figures
from oracle.reporting.landing import is_awaiting_finality
from oracle.reporting.readiness import MISSED, why_missed
from oracle.reporting.report_planner import cuts_now, plan_push, scheduled_cut_now
from oracle.reporting.reporting_context import PUSH
from oracle.reporting.sanity_gate import hold_reason
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account
from oracle.store.reports.hold_repository import ReportHold
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.context import StepResult


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `report`."""
    del app


@report.command(epilog="Example: qos-oracle report push --yes")
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
        opened_reporter(index) as reporter,
    ):
        first = _turn(reporter)
        if confirm_action(f"pushing period {first.period}", yes=yes, dry_run=dry_run):
            sent = published(reporter, "report push", _plan)
            _check_pushed(first, sent)
            steps = [*(f"{step.did} {step.detail}" for step in sent), *_unsent(reporter, sent)]
        else:
            steps = [_dry_run_text(reporter, first)]
    if as_json:
        print_answer(PushedReport(**dict(report_figures(first)), dry_run=dry_run, steps=steps))
        return
    typer.echo(f"period {first.period}, as of block {first.as_of.number}")
    for step in steps:
        typer.echo(f"  {step}")


def _check_pushed(turn: Report, steps: list[StepResult]) -> None:
    """Check that a report was pushed: a report may expire while the user confirms.

    Raises:
        TransientError: every step only marked missed reports.
    """
    if all(step.did == MISSED for step in steps):
        raise TransientError(
            f"nothing was pushed: period {turn.period} lost its turn meanwhile, too old to be "
            "accepted; `qos-oracle run --once` folds what came since, and cuts the next"
        )


def _unsent(reporter: Reporter, steps: list[StepResult]) -> Iterator[str]:
    """Yield why a signed report was not sent, if a transmitter key is configured."""
    if any(step.intent is not None for step in steps) or not reporter.account.has_payer:
        return
    account = Account(reporter.index.config.chain.id, reporter.account.sender)
    with reporter.index.store.reading() as uow:
        earlier = uow.outbox.intents.on_its_way(account, PUSH)
    if earlier is not None:
        yield (
            f"nothing was sent: the push of round {earlier.request.round} ({earlier.id}) is "
            f"{earlier.state.value} here; the daemon or `qos-oracle run --once --publish` looks "
            "whether it has landed"
        )
    else:
        yield (
            "nothing was sent: others have to sign it too, or it is not worth its gas yet; the "
            "daemon goes on with it, or this command once more"
        )


def _turn(reporter: Reporter) -> Report:
    """Return the report that is due to be pushed.

    Raises:
        InputError: the report is held until an operator releases it.
        TransientError: no report is due; the message has the reason, which resolves by itself.
    """
    contract_status, settings = reporter.contract.contract_status(), reporter.index.report_settings
    with reporter.index.store.reading() as uow:
        cuts = cuts_now(uow, settings)
        found = scheduled_cut_now(uow, settings, cuts, contract_status)
        due = [
            one.cut
            for one in cuts
            if one.state is ReportState.DUE and not is_awaiting_finality(uow, one)
        ]
        is_late = found is not None and any(
            one.cut.period == found.report.period
            and why_missed(one.cut, contract_status) is not None
            for one in cuts
        )
        held = _held(reporter, uow, due) if found is None or is_late else None
    if held is not None:
        period = held.period
        raise InputError(f"period {period} is held: {held.reason}; `report release {period}`")
    if found is not None and not is_late:
        return found.report
    raise TransientError(_why_none(due, contract_status))


def _why_none(due: list[Cut], contract_status: ContractStatus) -> str:
    """Return why no report can be pushed; `due_cuts` are the waiting cuts, oldest first."""
    if not due:
        return "no report is due: the next one is cut when a period ends"
    gone = {cut.period: why_missed(cut, contract_status) for cut in due}
    alive = next((period for period, why in gone.items() if why is None), None)
    if alive is None:
        newest = due[-1].period
        return (
            f"no report has the turn: nothing that is due can be accepted any more (the newest, "
            f"{newest}: {gone[newest]}); `qos-oracle run --once` folds what came since, and cuts "
            "the next"
        )
    return (
        f"no report has the turn; the first that is due, {alive}, waits until it is folded that "
        "the last round was accepted, or for a shift that was seen from its start"
    )


def _dry_run_text(reporter: Reporter, turn: Report) -> str:
    def plan(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
        # The outcome of older reports is not part of this answer.
        return plan_push(contexts.reporting, heads, clears=False)

    said = dry_run_text(reporter, plan, "it would be sent, as far as that goes now")
    context = reporter_contexts(reporter, 0, unix_seconds).reporting
    with reporter.index.store.reading() as uow:
        stored = uow.reports.at(turn.period)
        is_signed = stored is None or stored.digest is not None or not reporter.account.has_signer
        why = None if is_signed else hold_reason(context, uow, turn)
    return said if why is None else f"it would be held: {why}"


def _held(reporter: Reporter, uow: UnitOfWork, due: Sequence[Cut]) -> ReportHold | None:
    """Return the newest hold on a due report that we would sign, or None."""
    if not reporter.account.has_signer:
        return None
    periods = {cut.period for cut in due}
    held = [hold for hold in uow.holds.waiting() if hold.period in periods]
    return held[-1] if held else None


def _plan(reporter: ReporterContexts, heads: Heads) -> StepResult | None:
    """Sign, collect signatures and plan, as far as possible now; return the last step."""
    last = None
    while (step := plan_push(reporter.reporting, heads)) is not None:
        last = step
        if step.intent is not None:
            break
    return last
