"""`kickout cancel`: cancels unsent calls, and proposals that the contract lets anyone cancel."""

from dataclasses import dataclass

import typer

from oracle.chain.heads import Heads
from oracle.cli.kickout.kickout_commands import kickout
from oracle.cli.kickout.kickout_plans import why_not_cancelled
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    NodeArgument,
    YesOption,
    confirm_action,
    load_config,
    print_answer,
)
from oracle.cli.send_now import dry_run_text, opened_reporter, published
from oracle.daemon.compose import open_index
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import Reporter, oracle_address
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import Kick
from oracle.errors import InputError
from oracle.kickouts.manual_cancel import cancel_by_hand, kick_of, unsent, verdict_on
from oracle.queries.kickout_models import KickoutCancellation
from oracle.queries.text.prefixes import node_named
from oracle.store.outbox.records import Account, Intent
from oracle.txmgr.client.preflight import PreflightOutcome
from oracle.txmgr.context import StepResult


@dataclass(frozen=True, slots=True)
class _CancelTargets:
    """The calls and proposal to cancel; `unsent_ids` are the ids of calls not sent yet."""

    waiting: tuple[int, ...]
    kick: Kick | None


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `kickout`."""
    del app


@kickout.command(epilog="Example: qos-oracle kickout cancel 0x… --yes")
def cancel(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel a kickout: drop unsent calls and cancel the proposal on-chain.

    The contract lets anyone cancel once the node has recovered or left, or the proposal has
    expired; before that only the vetoer may cancel, whose key the daemon does not hold.
    """
    with (
        open_folded_records(load_config(config)) as records,
        open_index(records) as index,
    ):
        oracle_address(index.config)
        with index.store.reading() as uow:
            named = node_named(uow, node)
        with opened_reporter(index) as reporter:
            cancellation = _cancel(reporter, named, node, yes=yes, dry_run=dry_run)
    if as_json:
        print_answer(cancellation)
        return
    for name, value in cancellation:
        for line in value if isinstance(value, list) else [value]:
            typer.echo(f"{name:<14}{line}")


def _cancel(
    reporter: Reporter, named: Address, written: str, *, yes: bool, dry_run: bool
) -> KickoutCancellation:
    """Cancel unsent calls and the proposal; `node_text` is the node as the user typed it."""
    found = _found(reporter, named)
    verdict = None if found.kick is None else verdict_on(reporter.account, named)
    says = "no kickout of it is proposed" if verdict is None else verdict.reason or "accepted"
    is_possible = verdict is not None and verdict.outcome is PreflightOutcome.OK
    if not found.waiting and not is_possible:
        why = says if verdict is None else why_not_cancelled(reporter.contract, verdict)
        raise InputError(f"{written}: nothing of ours to cancel: {why}")

    def plan(contexts: ReporterContexts, _: Heads) -> StepResult | None:
        return cancel_by_hand(contexts.kickouts, named)

    if confirm_action(f"calling off the kickout of {named}", yes=yes, dry_run=dry_run):
        sent = published(reporter, "kickout cancel", plan)
        steps = [f"{step.did} {step.detail}" for step in sent]
    else:
        steps = [dry_run_text(reporter, plan, "it would be called off")]
    return KickoutCancellation(
        node=named,
        not_sent=list(found.waiting),
        contract_says=says,
        steps=steps,
        dry_run=dry_run,
    )


def _found(reporter: Reporter, node: Address) -> _CancelTargets:
    account = reporter.account
    with reporter.index.store.reading() as uow:
        kick, waiting = kick_of(uow, node), list[Intent]()
        if account.has_payer:
            waiting = unsent(uow, Account(reporter.index.config.chain.id, account.sender), node)
    return _CancelTargets(tuple(intent.id for intent in waiting), kick)
