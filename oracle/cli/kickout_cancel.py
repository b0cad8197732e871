"""`kickout cancel`: cancels calls that were not sent, and proposals that anyone may cancel."""

import typer

from oracle.chain.heads import Heads
from oracle.cli.kickout_plans import get_cancel_refusal_reason
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    NodeArgument,
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
from oracle.daemon.senders import Reporter, get_oracle_address
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import Kick
from oracle.errors import InputError
from oracle.kickouts.manual_cancel import (
    cancel_kickout_manually,
    find_unsent_calls,
    get_live_kick,
    preflight_cancellation,
)
from oracle.queries.kickout_models import KickoutCancellation
from oracle.queries.text.prefixes import find_node
from oracle.store.outbox.records import Account, Intent
from oracle.txmgr.client.preflight import PreflightOutcome
from oracle.txmgr.context import StepResult


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
        get_oracle_address(index.config)
        with index.store.read_transaction() as uow:
            node_address = find_node(uow, node)
        with open_reporter_on_checked_chain(index) as reporter:
            cancellation = _cancel_kickout(reporter, node_address, node, yes=yes, dry_run=dry_run)
    if as_json:
        print_model(cancellation)
        return
    for name, value in cancellation:
        for text_line in value if isinstance(value, list) else [value]:
            typer.echo(f"{name:<14}{text_line}")


def _cancel_kickout(
    reporter: Reporter, node_address: Address, node_text: str, *, yes: bool, dry_run: bool
) -> KickoutCancellation:
    """Cancel a node's unsent calls and proposal; `node_text` is the node as the user typed it."""
    unsent_ids, proposed_kick = _find_cancel_targets(reporter, node_address)
    verdict = (
        None if proposed_kick is None else preflight_cancellation(reporter.account, node_address)
    )
    contract_answer = (
        "no kickout of this node is proposed" if verdict is None else verdict.reason or "accepted"
    )
    is_cancellable = verdict is not None and verdict.outcome is PreflightOutcome.OK
    if not unsent_ids and not is_cancellable:
        refusal_reason = (
            contract_answer
            if verdict is None
            else get_cancel_refusal_reason(reporter.contract, verdict)
        )
        raise InputError(f"{node_text}: this daemon has nothing to cancel: {refusal_reason}")

    def plan_cancellation(contexts: ReporterContexts, _: Heads) -> StepResult | None:
        return cancel_kickout_manually(contexts.kickouts, node_address)

    if confirm_action(f"cancel the kickout of {node_address}", yes=yes, dry_run=dry_run):
        sent_steps = plan_and_send_call(reporter, "kickout cancel", plan_cancellation)
        steps = [f"{step.action} {step.detail}" for step in sent_steps]
    else:
        steps = [describe_dry_run(reporter, plan_cancellation, "the kickout would be cancelled")]
    return KickoutCancellation(
        node=node_address,
        not_sent=unsent_ids,
        contract_says=contract_answer,
        steps=steps,
        dry_run=dry_run,
    )


def _find_cancel_targets(reporter: Reporter, node: Address) -> tuple[list[int], Kick | None]:
    """Return the ids of the calls that were not sent yet, and the proposal on-chain, if any."""
    account = reporter.account
    with reporter.index.store.read_transaction() as uow:
        kick, unsent_intents = get_live_kick(uow, node), list[Intent]()
        if account.has_payer:
            unsent_intents = find_unsent_calls(
                uow, Account(reporter.index.config.chain.id, account.sender), node
            )
    return [intent.id for intent in unsent_intents], kick
