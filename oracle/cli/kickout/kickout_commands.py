"""`kickout list`, `evidence`, `propose`, `execute`: by hand what the daemon does by itself."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.oracle_views import KickBucket, bucket_of
from oracle.chain.heads import Heads
from oracle.cli.kickout.kickout_plans import executed, proposed, veto_of, why_not_due
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    NodeArgument,
    YesOption,
    confirm_action,
    open_folded,
    print_json,
)
from oracle.cli.send_now import Plan, dry_run_text, published
from oracle.daemon.app import App
from oracle.daemon.contexts import ReporterContexts
from oracle.domain.coverage import Level
from oracle.domain.reports.kicks import Kick, KickState
from oracle.errors import InputError
from oracle.kickouts.evidence_files import export
from oracle.kickouts.kickout_eligibility import KickoutCase, KickoutRules, evidence_at, looks_at
from oracle.kickouts.kickout_planner import run_dry
from oracle.queries.text.prefixes import node_named
from oracle.txmgr.client.receipts import newest_block
from oracle.txmgr.context import StepResult

kickout = typer.Typer(no_args_is_help=True)

_UNDUE = "not due"
_IS_PROPOSED_BY = "`kickout propose --one-creator` proposes it all the same"


def register(app: typer.Typer) -> None:
    """Put `kickout` on the command line."""
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
    """List the nodes whose kickout is due or proposed, how far each is, and what is against it."""
    with open_folded(config) as app:
        looks = _looks(app)
        bucket = _bucket(app) if ask_chain else None
        needed = app.report_settings.kick_after_rounds
        due = {look.node for look in looks}
        with app.store.reading() as uow:
            cursor = uow.cursor.get()
            undue = [kick for kick in uow.rounds.live_kicks() if kick.node not in due]
    if as_json:
        answers = [_answer(look) for look in looks] + [_undue_answer(kick) for kick in undue]
        print_json(answers if bucket is None else {"kickouts": answers, "bucket": asdict(bucket)})
        return
    if not looks:
        typer.echo("no kickout is due")
    now = 0 if cursor is None else cursor.time
    for look in looks:
        for line in _lines(look, needed, now):
            typer.echo(line)
    for kick in undue:
        since = f"proposed in round {kick.round}"
        typer.echo(
            f"{kick.node}  {_UNDUE}, but {since}: the daemon cancels it once the contract lets it"
        )
    if bucket is not None:
        refill = f"{bucket.per_frame} more every {bucket.frame} s"
        typer.echo(f"bucket: {bucket.left} of {bucket.most} kickouts left, {refill}")


def _lines(look: KickoutCase, needed: int, now: int) -> Iterator[str]:
    """Say how far a kickout is; `now` is the time of the newest folded block."""
    since = look.interval.opened_at.block
    by_hand = "" if look.held is None else " by hand"
    stands = look.obstacle or f"can be proposed{by_hand}"
    yield f"{look.node}  due since block {since}, {stands}"
    yield f"  under the line in {look.shown} of {needed} rounds in a row"
    if look.held is not None:
        yield f"  held for a person: {look.held}; {_IS_PROPOSED_BY}"
    if look.evidence is not None:
        yield f"  evidence {look.evidence.hash}, creators: {look.evidence.spread.creators}"
    if look.kick is not None:
        kick = look.kick
        is_live = kick.state is KickState.LIVE
        ready = f", {veto_of(kick, now)}" if is_live else ""
        yield f"  {kick.state.value}: proposed in round {kick.round}{ready}"


def _bucket(app: App) -> KickBucket:
    publisher = app.publisher
    return bucket_of(publisher.lines, app.require_oracle(), newest_block(publisher.lines))


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
    with open_folded(config) as app:
        look = _look(app, node)
        with app.store.reading() as uow:
            found = look.evidence or evidence_at(uow, _kickout_rules(app), look.interval)
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
    """Propose the kickout of a node that is due; asks before it sends."""
    with open_folded(config) as app:
        app.require_oracle()
        look = _look(app, node)
        if look.obstacle is not None:
            raise InputError(f"{look.node}: {look.obstacle}")
        if look.held is not None and not one_creator:
            raise InputError(f"{look.node}: held for a person: {look.held}; {_IS_PROPOSED_BY}")

        def plan(reporter: ReporterContexts, heads: Heads) -> StepResult | None:
            return proposed(reporter.kickouts, look, heads)

        if not confirm_action(f"proposing to kick {look.node} out", yes=yes, dry_run=dry_run):
            _print_dry_run(app, look, plan, as_json=as_json)
            return
        sent = published(app, "kickout propose", plan)
    _tell(
        {"node": look.node, "steps": [f"{one.did} {one.detail}" for one in sent]}, as_json=as_json
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
    """Execute the proposed kickout of a node; asks before it sends."""
    with open_folded(config) as app:
        app.require_oracle()
        look = _look(app, node)
        kick = look.kick
        if kick is None or kick.state is not KickState.LIVE:
            raise InputError(f"{look.node}: no kickout of it is proposed")

        def plan(reporter: ReporterContexts, heads: Heads) -> StepResult | None:
            return executed(reporter.kickouts, kick, heads)

        if not confirm_action(f"kicking {look.node} out", yes=yes, dry_run=dry_run):
            # That it is proposed already stands against a proposal only.
            _print_dry_run(app, replace(look, obstacle=None), plan, as_json=as_json)
            return
        sent = published(app, "kickout execute", plan)
    _tell(
        {"node": look.node, "steps": [f"{one.did} {one.detail}" for one in sent]}, as_json=as_json
    )


def _kickout_rules(app: App) -> KickoutRules:
    return KickoutRules(app.rules, app.report_settings)


def _looks(app: App) -> list[KickoutCase]:
    with app.store.reading() as uow:
        level = min(Level.PROVEN, app.source.level_allowed())
        return looks_at(uow, _kickout_rules(app), level)


def _look(app: App, node: str) -> KickoutCase:
    with app.store.reading() as uow:
        named = node_named(uow, node)
    looks = {look.node: look for look in _looks(app)}
    if named not in looks:
        raise InputError(f"{node}: {why_not_due(app, named)}")
    return looks[named]


def _print_dry_run(app: App, look: KickoutCase, plan: Plan, *, as_json: bool) -> None:
    """Say what it would do and what the contract says of it.

    Raises:
        InputError: the real one would not do it; what is known is printed all the same.
    """
    facts = {**_answer(look), "contract_says": run_dry(app.publisher, look), "dry_run": True}
    try:
        facts["steps"] = [dry_run_text(app, plan, "the call would be planned and sent")]
    finally:
        _tell(facts, as_json=as_json)


def _answer(look: KickoutCase) -> dict[str, object]:
    kick = look.kick
    return {
        "node": look.node,
        "index": look.index,
        "lane": look.lane,
        "due_since": look.interval.opened_at._asdict(),
        "evidence": None if look.evidence is None else look.evidence.hash,
        "kickout": None if kick is None else kick.state.value,
        "ready_at": None if kick is None else kick.ready_at,
        "rounds_low": look.shown,
        "obstacle": look.obstacle,
        "held": look.held,
        "creators": None if look.evidence is None else look.evidence.spread.creators,
    }


def _undue_answer(kick: Kick) -> dict[str, object]:
    """Write a live kickout of a node that is not due any more as `_answer` writes others."""
    return {
        "node": kick.node,
        "index": None,
        "lane": None,
        "due_since": None,
        "evidence": kick.evidence,
        "kickout": kick.state.value,
        "ready_at": kick.ready_at,
        "rounds_low": None,
        "obstacle": _UNDUE,
        "held": None,
        "creators": None,
    }


def _tell(answer: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    width = max(map(len, answer)) + 2
    for name, value in answer.items():
        for line in value if isinstance(value, list) else [value]:
            if line is not None:
                said = f"block {line['block']}" if isinstance(line, dict) else line
                typer.echo(f"{name:<{width}}{said}")
