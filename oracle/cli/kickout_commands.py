"""The `kickout` commands: manual versions of the daemon's actions, and the list of expelled nodes.

`kickout cancel` is in kickout_cancel.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.qos_oracle import get_kick_bucket
from oracle.bindings.qos_roots import KickBucket
from oracle.chain.heads import Heads
from oracle.cli.kickout_cancel import cancel
from oracle.cli.kickout_plans import (
    format_veto_deadline,
    get_not_due_reason,
    plan_manual_execution,
    plan_manual_proposal,
)
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
    CallPlanner,
    describe_dry_run,
    open_reporter_on_checked_chain,
    plan_and_send_call,
)
from oracle.daemon.compose import Index, check_index_chain, open_index
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.records import Records, open_folded_records
from oracle.daemon.senders import Reporter, get_oracle_address, open_report_account
from oracle.domain.coverage import VerificationLevel
from oracle.domain.reports.kicks import KickState
from oracle.errors import InputError
from oracle.kickouts.evidence_files import export_evidence
from oracle.kickouts.kickout_eligibility import (
    KickoutCase,
    KickoutRules,
    load_kickout_cases,
    load_kickout_evidence,
)
from oracle.kickouts.kickout_planner import describe_preflight
from oracle.queries.answers import LogPlace
from oracle.queries.kickout_models import (
    NOT_DUE,
    ExpulsionEntry,
    KickoutCaseEntry,
    KickoutList,
    KickoutResult,
    ProposedKickout,
    build_expulsion_entries,
    build_kickout_cases,
)
from oracle.queries.text.prefixes import find_node
from oracle.txmgr.client.receipts import fetch_newest_block
from oracle.txmgr.context import StepResult

kickout = typer.Typer(no_args_is_help=True)

_OVERRIDE_HINT = "`kickout propose --one-creator` proposes it anyway"


def register(app: typer.Typer) -> None:
    app.add_typer(
        kickout,
        name="kickout",
        help="Inspect, propose, execute and cancel kickouts of low-scoring nodes.",
    )


@kickout.command("list", epilog="Example: qos-oracle kickout list --json")
def list_kickouts(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    ask_chain: Annotated[
        bool,
        typer.Option(
            "--ask-chain", help="Also query an endpoint for the remaining kickout allowance."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List due and proposed kickouts with progress and obstacles."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        cases = _load_cases(index)
        bucket = _read_bucket(index) if ask_chain else None
        required_rounds = index.report_settings.kick_after_rounds
        due_nodes = {case.node for case in cases}
        with index.store.read_transaction() as uow:
            cursor = uow.cursor.get()
            kicks_not_due = [
                kick for kick in uow.rounds.list_live_kicks() if kick.node not in due_nodes
            ]
            kickout_list = KickoutList(
                kickouts=build_kickout_cases(uow, cases, kicks_not_due), bucket=bucket
            )
    if as_json:
        print_model(kickout_list)
        return
    if not cases:
        typer.echo("no kickout is due")
    now = 0 if cursor is None else cursor.time
    for entry in kickout_list.kickouts:
        for line in _render_case(entry, required_rounds, now):
            typer.echo(line)
    if bucket is not None:
        refill_text = f"{bucket.per_frame} more every {bucket.frame} s"
        typer.echo(f"bucket: {bucket.left} of {bucket.most} kickouts left, {refill_text}")


def _render_case(entry: KickoutCaseEntry, required_rounds: int, now: int) -> Iterator[str]:
    """Yield the progress of a kickout; `now` is the time of the last folded block."""
    proposal = entry.proposal
    if entry.due_since is None:
        note = "" if proposal is None else f", but proposed in round {proposal.round}"
        yield f"{entry.node}  {NOT_DUE}{note}; the daemon cancels it once the contract allows this"
        return
    manual_note = "" if entry.held is None else " manually"
    case_status = entry.obstacle or f"can be proposed{manual_note}"
    yield f"{entry.node}  due since block {entry.due_since.block}, {case_status}"
    yield f"  below the threshold in {entry.rounds_low} of {required_rounds} consecutive rounds"
    if entry.held is not None:
        yield f"  held for an operator: {entry.held}; {_OVERRIDE_HINT}"
    if entry.evidence is not None:
        yield f"  evidence {entry.evidence}, creators: {entry.creators}"
    if proposal is not None:
        is_live = proposal.state == KickState.LIVE.value
        veto_note = (
            f", {format_veto_deadline(entry.node, proposal.ready_at, now)}" if is_live else ""
        )
        yield f"  {proposal.state}: proposed in round {proposal.round}{veto_note}"


def _read_bucket(index: Index) -> KickBucket:
    account = open_report_account(index.config, check_index_chain(index))
    return get_kick_bucket(
        account.pool_view, account.domain.contract, fetch_newest_block(account.pool_view)
    )


@kickout.command("evidence", epilog="Example: qos-oracle kickout evidence 0x… --to evidence/")
def print_evidence(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            help="Folder to write the evidence file to. Default: print it.",
        ),
    ] = None,
) -> None:
    """Print the evidence against a node, or write it to a file named by its hash."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        case = _find_case(index, node)
        with index.store.read_transaction() as uow:
            evidence_file = case.evidence or load_kickout_evidence(
                uow, _build_kickout_rules(index), case.interval
            )
    if folder is None:
        typer.echo(evidence_file.text, nl=False)
    else:
        typer.echo(export_evidence(folder, evidence_file))


@kickout.command(epilog="Example: qos-oracle kickout propose 0x… --yes")
def propose(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    include_held: Annotated[
        bool,
        typer.Option(
            "--one-creator",
            help=(
                "Propose a kickout even if it is held for manual review: most scores come from "
                "one creator's tasks, or the kickout would not be due without scores that were "
                "derived as zero."
            ),
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Propose the kickout of a due node, after confirmation."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        get_oracle_address(index.config)
        case = _find_case(index, node)
        if case.obstacle is not None:
            raise InputError(f"{case.node}: {case.obstacle}")
        if case.hold_reason is not None and not include_held:
            raise InputError(
                f"{case.node}: the kickout is held for an operator: {case.hold_reason}; "
                f"{_OVERRIDE_HINT}"
            )

        def plan_proposal_call(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
            return plan_manual_proposal(contexts.kickouts, case, heads)

        is_agreed = confirm_action(f"propose the kickout of {case.node}", yes=yes, dry_run=dry_run)
        with open_reporter_on_checked_chain(index) as reporter:
            if not is_agreed:
                _print_dry_run(reporter, case, plan_proposal_call, as_json=as_json)
                return
            result = _build_kickout_result(
                index, case, plan_and_send_call(reporter, "kickout propose", plan_proposal_call)
            )
    _print_result(result, as_json=as_json)


@kickout.command(epilog="Example: qos-oracle kickout execute 0x… --yes")
def execute(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Execute the proposed kickout of a node, after confirmation."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        get_oracle_address(index.config)
        case = _find_case(index, node)
        kick = case.kick
        if kick is None or kick.state is not KickState.LIVE:
            raise InputError(f"{case.node}: no kickout is proposed")

        def plan_execution_call(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
            return plan_manual_execution(contexts.kickouts, kick, heads)

        is_agreed = confirm_action(f"execute the kickout of {case.node}", yes=yes, dry_run=dry_run)
        with open_reporter_on_checked_chain(index) as reporter:
            if not is_agreed:
                # An existing proposal is an obstacle to a new proposal, not to its execution.
                _print_dry_run(
                    reporter, replace(case, obstacle=None), plan_execution_call, as_json=as_json
                )
                return
            result = _build_kickout_result(
                index, case, plan_and_send_call(reporter, "kickout execute", plan_execution_call)
            )
    _print_result(result, as_json=as_json)


def _build_kickout_rules(index: Index) -> KickoutRules:
    return KickoutRules(index.rules, index.report_settings, index.reader.holds_kickouts)


def _load_cases(index: Index) -> list[KickoutCase]:
    with index.store.read_transaction() as uow:
        level = min(VerificationLevel.PROVEN, index.chain.get_max_allowed_level())
        return load_kickout_cases(uow, _build_kickout_rules(index), level)


def _find_case(index: Index, node: str) -> KickoutCase:
    with index.store.read_transaction() as uow:
        node_address = find_node(uow, node)
    cases = {case.node: case for case in _load_cases(index)}
    if node_address not in cases:
        raise InputError(f"{node}: {get_not_due_reason(index, node_address)}")
    return cases[node_address]


def _print_dry_run(
    reporter: Reporter, case: KickoutCase, plan: CallPlanner, *, as_json: bool
) -> None:
    """Print what would be done and how the contract responds.

    Raises:
        InputError: the command would be refused without --dry-run too; the known facts were
            printed.
    """
    contract_answer = describe_preflight(reporter.account, case)
    result = _build_kickout_result(reporter.index, case, [], contract_answer=contract_answer)
    try:
        step = describe_dry_run(reporter, plan, "the call would be planned and sent")
        result = result.model_copy(update={"steps": [step]})
    finally:
        _print_result(result, as_json=as_json)


def _build_kickout_result(
    records: Records,
    case: KickoutCase,
    sent_steps: Sequence[StepResult],
    contract_answer: str | None = None,
) -> KickoutResult:
    """Return the result after the sent steps; `contract_answer` is set for a dry run only."""
    with records.store.read_transaction() as uow:
        (entry,) = build_kickout_cases(uow, [case])
    return KickoutResult(
        **dict(entry),
        dry_run=contract_answer is not None,
        contract_says=contract_answer,
        steps=[f"{step.action} {step.detail}" for step in sent_steps],
    )


def _print_result(result: KickoutResult, *, as_json: bool) -> None:
    """Print the result; as text, a sent kickout shows only the node and the steps."""
    if as_json:
        print_model(result)
        return
    names = KickoutResult.model_fields if result.dry_run else ("node", "steps")
    width = max(map(len, names)) + 2
    for name in names:
        for line in _format_value(getattr(result, name)):
            typer.echo(f"{name:<{width}}{line}")


def _format_value(value: object) -> list[str]:
    """Return the lines of a value; an empty list for None."""
    if isinstance(value, list):
        return [str(line) for line in value]
    if isinstance(value, LogPlace):
        return [f"block {value.block}"]
    if isinstance(value, ProposedKickout):
        return [f"{value.state}, ready at {value.ready_at}"]
    return [] if value is None else [str(value)]


kickout.command(epilog="Example: qos-oracle kickout cancel 0x… --yes")(cancel)


@kickout.command(epilog="Example: qos-oracle kickout export > expelled.csv")
def export(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    since_block: Annotated[
        int,
        typer.Option("--since", metavar="BLOCK", help="Only expulsions from this block on."),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the nodes expelled by the oracle as CSV or JSON.

    The output has one row per node, oldest first. Where no contract ends memberships, the operator
    of the network enforces this list. The evidence column names the public evidence file. `until`
    is in unix seconds; 1099511627775 means forever. `network` is the outcome of the request to
    the network: nobody, done or refused.
    """
    with (
        open_folded_records(load_config(config)) as records,
        records.store.read_transaction() as uow,
    ):
        entries = list(build_expulsion_entries(uow.rounds.list_expulsions(), since_block))
    if as_json:
        print_model(entries)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = list(ExpulsionEntry.model_fields)
    writer.writerow(columns)
    writer.writerows([getattr(entry, name) for name in columns] for entry in entries)
