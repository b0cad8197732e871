"""The `kickout` commands, which list kickouts and perform the daemon's actions manually."""

import csv
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.codec import encode_call
from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.qos_roots import CONTRACT, KickBucket, RootsContract
from oracle.chain.heads import Heads
from oracle.cli.kickout_plans import (
    format_veto_deadline,
    get_kickout_not_due_reason,
    plan_manual_accusation,
    plan_manual_accusation_clearing,
    plan_manual_execution,
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
    check_call_can_be_sent,
    describe_dry_run,
    open_reporter_on_checked_chain,
    plan_and_send_call,
)
from oracle.daemon.compose import Index, get_checked_chain, open_index
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import Reporter, get_oracle_address, open_report_account
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.node_kicks import KickState
from oracle.errors import InputError
from oracle.indexer.round_leaves import LeafCache
from oracle.kickouts.evidence_files import export_evidence
from oracle.kickouts.kickout_cases import (
    KickoutCase,
    load_kickout_cases,
    load_kickout_evidence,
)
from oracle.kickouts.kickout_context import KickoutContext
from oracle.queries.answers import LogPlace
from oracle.queries.kickout_models import (
    NOT_DUE,
    ContractKickout,
    ExpulsionEntry,
    KickoutCaseEntry,
    KickoutList,
    KickoutResult,
    VetoerCall,
    build_expulsion_entries,
    build_kickout_case_entries,
)
from oracle.queries.text.prefixes import find_node
from oracle.store.database import UnitOfWork
from oracle.txmgr.client.preflight import PreflightOutcome, preflight
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import StepResult

kickout = typer.Typer(no_args_is_help=True)

_MAX_REASON_BYTES = 32

# A function that plans a single contract call concerning a node.
_NodePlanner = Callable[[KickoutContext, Address, Heads], StepResult]


def register(app: typer.Typer) -> None:
    app.add_typer(
        kickout,
        name="kickout",
        help="Inspect, accuse, execute and clear kickouts.",
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
    """List due and accused kickouts with progress and obstacles."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        bucket = _fetch_kick_bucket(index) if ask_chain else None
        with index.store.read_transaction() as uow:
            cursor = uow.cursor.get()
            cases = _load_kickout_cases(index, uow)
            kickout_list = KickoutList(
                kickouts=build_kickout_case_entries(uow, cases), bucket=bucket
            )
    if as_json:
        print_model(kickout_list)
        return
    if not any(case.interval is not None for case in cases):
        typer.echo("no kickout is due")
    now = 0 if cursor is None else cursor.time
    for entry in kickout_list.kickouts:
        for line in _render_kickout_case(entry, now):
            typer.echo(line)
    if bucket is not None:
        refill_text = f"{bucket.per_frame} more every {bucket.frame} s"
        typer.echo(f"bucket: {bucket.left} of {bucket.most} kickouts left, {refill_text}")


def _render_kickout_case(entry: KickoutCaseEntry, now: int) -> Iterator[str]:
    """Yield lines about the progress of a kickout as of the last folded block."""
    on_chain = entry.on_chain
    if entry.due_since is None:
        yield f"{entry.node}  {NOT_DUE}, but accused; the daemon clears it after the next round"
        return
    yield (
        f"{entry.node}  due since block {entry.due_since.block}, "
        f"{entry.obstacle or 'can be accused'}"
    )
    if entry.held is not None:
        yield f"  held for the vetoer: {entry.held}"
    if on_chain is not None and on_chain.due_since is not None:
        is_accused = on_chain.state == KickState.ACCUSED.value
        veto_note = (
            f", {format_veto_deadline(entry.node, on_chain.ready_at or 0, now)}"
            if is_accused
            else ""
        )
        yield f"  {on_chain.state} in round {on_chain.round}{veto_note}"


def _fetch_kick_bucket(index: Index) -> KickBucket:
    account = open_report_account(index.config, get_checked_chain(index))
    return RootsContract(account.pool_view, account.domain.contract).fetch_status().bucket


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
    """Print the evidence against a node, or write it to a file."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        case = _get_kickout_case(index, node)
        if case.interval is None:
            raise InputError(f"{case.node}: {get_kickout_not_due_reason(index, case.node)}")
        with index.store.read_transaction() as uow:
            evidence = load_kickout_evidence(uow, index.archive.kickout_policy, case.interval)
            due_since = uow.nodes.get_many([case.node])[case.node].kickout_due_time or 0
    if folder is None:
        typer.echo(evidence, nl=False)
    else:
        typer.echo(export_evidence(folder, case.node, due_since, evidence))


@kickout.command(epilog="Example: qos-oracle kickout accuse 0x… --yes")
def accuse(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accuse a node whose kickout is due, after confirmation.

    The call proves the accusation with the node's leaf in the last round. Anyone may send this
    call. The kickout can be executed after the veto delay.
    """
    _run_kickout_command(
        node,
        config,
        ("accuse", "accuse", plan_manual_accusation),
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


@kickout.command(epilog="Example: qos-oracle kickout execute 0x… --yes")
def execute(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Execute the kickout of an accused node, after confirmation."""
    _run_kickout_command(
        node,
        config,
        ("execute", "execute the kickout of", plan_manual_execution),
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


@kickout.command(epilog="Example: qos-oracle kickout clear 0x… --yes")
def clear(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Withdraw the accusation of a node that has recovered, after confirmation.

    The last round must no longer state the accused interval. Before that, only the vetoer can end
    the accusation.
    """
    _run_kickout_command(
        node,
        config,
        ("clear", "clear the accusation of", plan_manual_accusation_clearing),
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


def _run_kickout_command(
    node: str,
    config: Path,
    command: tuple[str, str, _NodePlanner],
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Plan and send a call about a node's kickout, or print what would be sent.

    `command` is the name of the command, the action to confirm, and the function that plans the
    call.
    """
    command_name, action, plan_node_call = command
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        get_oracle_address(index.config)
        case = _get_kickout_case(index, node)

        def plan(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
            return plan_node_call(contexts.kickouts, case.node, heads)

        with open_reporter_on_checked_chain(index) as reporter:
            if not (yes or dry_run):
                check_call_can_be_sent(reporter, f"kickout {command_name}", plan)
            if confirm_action(f"{action} {case.node}", yes=yes, dry_run=dry_run):
                steps = [
                    f"{step.action} {step.detail}"
                    for step in plan_and_send_call(reporter, f"kickout {command_name}", plan)
                ]
            else:
                steps = [describe_dry_run(reporter, plan, "the call would be planned and sent")]
            result = _build_result(reporter, case, steps, dry_run=dry_run)
    _print_kickout_result(result, as_json=as_json)


@kickout.command(epilog="Example: qos-oracle kickout allow 0x…")
def allow(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Print the call by which the vetoer allows a held kickout.

    The vetoer examines the evidence first (`kickout evidence`). The call allows only the interval
    that the last round states.
    """
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        case = _get_kickout_case(index, node)
        if case.due_since == 0:
            raise InputError(f"{case.node}: {case.obstacle}")
        calldata = encode_call(CONTRACT, "allow", case.node, case.due_since)
        _print_vetoer_call(index, case.node, calldata, as_json=as_json)


@kickout.command(epilog="Example: qos-oracle kickout veto 0x… --why 'wrong scores'")
def veto(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    why: Annotated[
        str,
        typer.Option(
            "--why",
            metavar="TEXT",
            help=("Reason that is stored in the contract's event, at most 32 bytes."),
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Print the call by which the vetoer permanently ends an accusation."""
    reason = why.encode()
    if len(reason) > _MAX_REASON_BYTES:
        raise InputError(f"--why: {len(reason)} bytes; the maximum is {_MAX_REASON_BYTES}")
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        case = _get_kickout_case(index, node)
        if case.kick is None or not case.kick.is_accused:
            raise InputError(f"{case.node}: the node is not accused")
        calldata = encode_call(CONTRACT, "veto", case.node, reason.ljust(_MAX_REASON_BYTES, b"\0"))
        _print_vetoer_call(index, case.node, calldata, as_json=as_json)


def _print_vetoer_call(index: Index, node: Address, calldata: str, *, as_json: bool) -> None:
    account = open_report_account(index.config, get_checked_chain(index))
    contract = RootsContract(account.pool_view, account.domain.contract)
    vetoer = contract.fetch_configuration().vetoer
    if vetoer == ZERO_ADDRESS:
        raise InputError("the oracle contract has no vetoer")
    result = preflight(
        account.pool_view, SimulatedCall(vetoer, contract.address, calldata), decode_refusal
    )
    if result.outcome is not PreflightOutcome.OK:
        raise InputError(f"{node}: the contract rejects the vetoer's call: {result.reason}")
    call = VetoerCall(node=node, vetoer=vetoer, to=contract.address, calldata=calldata)
    if as_json:
        print_model(call)
        return
    typer.echo(f"the vetoer {vetoer} sends to {contract.address}:")
    typer.echo(calldata)


def _load_kickout_cases(
    index: Index, uow: UnitOfWork, nodes: Collection[Address] | None = None
) -> list[KickoutCase]:
    """Return the kickout cases of `nodes`, by default of all nodes."""
    return load_kickout_cases(
        uow, LeafCache(), index.archive.kickout_policy, index.report_settings, nodes
    )


def _get_kickout_case(index: Index, node: str) -> KickoutCase:
    with index.store.read_transaction() as uow:
        address = find_node(uow, node)
        cases = _load_kickout_cases(index, uow, [address])
    if not cases:
        raise InputError(f"{node}: {get_kickout_not_due_reason(index, address)}")
    return cases[0]


def _build_result(
    reporter: Reporter, case: KickoutCase, steps: Sequence[str], *, dry_run: bool
) -> KickoutResult:
    with reporter.index.store.read_transaction() as uow:
        (case_entry,) = build_kickout_case_entries(uow, [case])
    return KickoutResult(
        **dict(case_entry),
        dry_run=dry_run,
        steps=list(steps),
    )


def _print_kickout_result(result: KickoutResult, *, as_json: bool) -> None:
    """Print the result of a kickout command, as JSON or as text.

    If a call was sent, the text has only the node and the steps.
    """
    if as_json:
        print_model(result)
        return
    shown_fields = KickoutResult.model_fields if result.dry_run else ("node", "steps")
    width = max(map(len, shown_fields)) + 2
    for name in shown_fields:
        for line in _format_value(getattr(result, name)):
            typer.echo(f"{name:<{width}}{line}")


def _format_value(value: object) -> list[str]:
    """Format a value as lines of text; None gives no lines."""
    if isinstance(value, list):
        return [str(line) for line in value]
    if isinstance(value, LogPlace):
        return [f"block {value.block}"]
    if isinstance(value, ContractKickout):
        return [
            value.state if value.ready_at is None else f"{value.state}, ready at {value.ready_at}"
        ]
    return [] if value is None else [str(value)]


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

    The output has one row per node, oldest first. If no contract ends memberships, the network's
    operator has to enforce this list. The evidence column names the public evidence file. `until`
    is in unix seconds; 1099511627775 means forever. `network` is the outcome of the request to the
    network: nobody, done or refused.
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
