"""`kickout list`, `evidence`, `propose`, `execute`: manual use of what the daemon automates."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.oracle_views import KickBucket, bucket_of
from oracle.chain.heads import Heads
from oracle.cli.kickout.kickout_plans import executed, proposed, veto_text, why_not_due
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
from oracle.cli.send_now import Plan, dry_run_text, opened_reporter, published
from oracle.daemon.compose import Index, check_chain_of, open_index
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.records import Records, open_folded_records
from oracle.daemon.senders import Reporter, oracle_address, report_account
from oracle.domain.coverage import Level
from oracle.domain.reports.kicks import KickState
from oracle.errors import InputError
from oracle.kickouts.evidence_files import export
from oracle.kickouts.kickout_eligibility import KickoutCase, KickoutRules, evidence_at, looks_at
from oracle.kickouts.kickout_planner import run_dry
from oracle.queries.answers import LogPlace
from oracle.queries.kickout_models import (
    KickoutCaseEntry,
    KickoutList,
    KickoutResult,
    ProposedKickout,
)
from oracle.queries.kickout_view import NOT_DUE, kickout_cases
from oracle.queries.text.prefixes import node_named
from oracle.txmgr.client.receipts import newest_block
from oracle.txmgr.context import StepResult

kickout = typer.Typer(no_args_is_help=True)

_IS_PROPOSED_BY = "`kickout propose --one-creator` proposes it all the same"


def register(app: typer.Typer) -> None:
    """Register `kickout` on the command line."""
    app.add_typer(kickout, name="kickout", help="Nodes whose score stayed too low.")


@kickout.command("list", epilog="Example: qos-oracle kickout list --json")
def list_kickouts(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    ask_chain: Annotated[
        bool, typer.Option("--ask-chain", help="Ask an endpoint too: what is left in the bucket.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List due and proposed kickouts with progress and obstacles."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        cases = _cases(index)
        bucket = _bucket(index) if ask_chain else None
        needed = index.report_settings.kick_after_rounds
        due = {case.node for case in cases}
        with index.store.reading() as uow:
            cursor = uow.cursor.get()
            kicks_not_due = [kick for kick in uow.rounds.live_kicks() if kick.node not in due]
            listed = KickoutList(kickouts=kickout_cases(uow, cases, kicks_not_due), bucket=bucket)
    if as_json:
        print_answer(listed)
        return
    if not cases:
        typer.echo("no kickout is due")
    now = 0 if cursor is None else cursor.time
    for entry in listed.kickouts:
        for line in _lines(entry, needed, now):
            typer.echo(line)
    if bucket is not None:
        refill = f"{bucket.per_frame} more every {bucket.frame} s"
        typer.echo(f"bucket: {bucket.left} of {bucket.most} kickouts left, {refill}")


def _lines(entry: KickoutCaseEntry, needed: int, now: int) -> Iterator[str]:
    """Yield the progress of a kickout; `now` is the time of the newest folded block."""
    proposal = entry.proposal
    if entry.due_since is None:
        since = "" if proposal is None else f", but proposed in round {proposal.round}"
        yield f"{entry.node}  {NOT_DUE}{since}: the daemon cancels it once the contract lets it"
        return
    by_hand = "" if entry.held is None else " by hand"
    stands = entry.obstacle or f"can be proposed{by_hand}"
    yield f"{entry.node}  due since block {entry.due_since.block}, {stands}"
    yield f"  under the line in {entry.rounds_low} of {needed} rounds in a row"
    if entry.held is not None:
        yield f"  held for a person: {entry.held}; {_IS_PROPOSED_BY}"
    if entry.evidence is not None:
        yield f"  evidence {entry.evidence}, creators: {entry.creators}"
    if proposal is not None:
        is_live = proposal.state == KickState.LIVE.value
        ready = f", {veto_text(entry.node, proposal.ready_at, now)}" if is_live else ""
        yield f"  {proposal.state}: proposed in round {proposal.round}{ready}"


def _bucket(index: Index) -> KickBucket:
    account = report_account(index.config, check_chain_of(index))
    return bucket_of(account.lines, account.domain.contract, newest_block(account.lines))


@kickout.command(epilog="Example: qos-oracle kickout evidence 0x… --to evidence/")
def evidence(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Write it there.")
    ] = None,
) -> None:
    """Print the evidence against a node, or write it to a file named by its hash."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        look = _look(index, node)
        with index.store.reading() as uow:
            found = look.evidence or evidence_at(uow, _kickout_rules(index), look.interval)
    if to is None:
        typer.echo(found.text, nl=False)
    else:
        typer.echo(export(to, found))


@kickout.command(epilog="Example: qos-oracle kickout propose 0x… --yes")
def propose(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    one_creator: Annotated[
        bool,
        typer.Option(
            "--one-creator",
            help="Also a kickout that is held for a person: most scores are from one creator's "
            "tasks, or it rests on derived zeros.",
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Propose the kickout of a due node, after confirmation."""
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        oracle_address(index.config)
        look = _look(index, node)
        if look.obstacle is not None:
            raise InputError(f"{look.node}: {look.obstacle}")
        if look.held is not None and not one_creator:
            raise InputError(f"{look.node}: held for a person: {look.held}; {_IS_PROPOSED_BY}")

        def plan(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
            return proposed(contexts.kickouts, look, heads)

        is_agreed = confirm_action(f"proposing to kick {look.node} out", yes=yes, dry_run=dry_run)
        with opened_reporter(index) as reporter:
            if not is_agreed:
                _print_dry_run(reporter, look, plan, as_json=as_json)
                return
            result = _kickout_result(index, look, published(reporter, "kickout propose", plan))
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
        oracle_address(index.config)
        look = _look(index, node)
        kick = look.kick
        if kick is None or kick.state is not KickState.LIVE:
            raise InputError(f"{look.node}: no kickout of it is proposed")

        def plan(contexts: ReporterContexts, heads: Heads) -> StepResult | None:
            return executed(contexts.kickouts, kick, heads)

        is_agreed = confirm_action(f"kicking {look.node} out", yes=yes, dry_run=dry_run)
        with opened_reporter(index) as reporter:
            if not is_agreed:
                # An existing proposal is an obstacle to a new proposal, not to its execution.
                _print_dry_run(reporter, replace(look, obstacle=None), plan, as_json=as_json)
                return
            result = _kickout_result(index, look, published(reporter, "kickout execute", plan))
    _print_result(result, as_json=as_json)


def _kickout_rules(records: Records) -> KickoutRules:
    return KickoutRules(records.rules, records.report_settings)


def _cases(index: Index) -> list[KickoutCase]:
    with index.store.reading() as uow:
        level = min(Level.PROVEN, index.chain.level_allowed())
        return looks_at(uow, _kickout_rules(index), level)


def _look(index: Index, node: str) -> KickoutCase:
    with index.store.reading() as uow:
        named = node_named(uow, node)
    cases = {case.node: case for case in _cases(index)}
    if named not in cases:
        raise InputError(f"{node}: {why_not_due(index, named)}")
    return cases[named]


def _print_dry_run(reporter: Reporter, case: KickoutCase, plan: Plan, *, as_json: bool) -> None:
    """Print what would be done and how the contract responds.

    Raises:
        InputError: the real command would refuse; the known facts are printed all the same.
    """
    says = run_dry(reporter.account, case)
    result = _kickout_result(reporter.index, case, [], contract_says=says)
    try:
        step = dry_run_text(reporter, plan, "the call would be planned and sent")
        result = result.model_copy(update={"steps": [step]})
    finally:
        _print_result(result, as_json=as_json)


def _kickout_result(
    records: Records,
    case: KickoutCase,
    sent: Sequence[StepResult],
    contract_says: str | None = None,
) -> KickoutResult:
    """Return the answer about sent steps; `contract_answer` is set for a dry run only."""
    with records.store.reading() as uow:
        (entry,) = kickout_cases(uow, [case])
    return KickoutResult(
        **dict(entry),
        dry_run=contract_says is not None,
        contract_says=contract_says,
        steps=[f"{step.did} {step.detail}" for step in sent],
    )


def _print_result(result: KickoutResult, *, as_json: bool) -> None:
    """Print the result; as text, a sent kickout shows only the node and the steps."""
    if as_json:
        print_answer(result)
        return
    names = KickoutResult.model_fields if result.dry_run else ("node", "steps")
    width = max(map(len, names)) + 2
    for name in names:
        for line in _texts(getattr(result, name)):
            typer.echo(f"{name:<{width}}{line}")


def _texts(value: object) -> list[str]:
    """Return the lines of a value; an empty list for None."""
    if isinstance(value, list):
        return [str(line) for line in value]
    if isinstance(value, LogPlace):
        return [f"block {value.block}"]
    if isinstance(value, ProposedKickout):
        return [f"{value.state}, ready at {value.ready_at}"]
    return [] if value is None else [str(value)]
