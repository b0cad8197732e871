"""Implements `rules`, which shows systems, rule sets and the contract's rules changes."""

from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_json,
    print_model,
)
from oracle.cli.system_options import SetOption, parse_key_values
from oracle.domain.scoring.rules import RULES_IGNORED_BY_LEGACY, Rules
from oracle.errors import InputError
from oracle.queries.api.rules_history import RulesChangeView, build_rules_history
from oracle.queries.api.rules_preview_view import RulesPreviewView, build_preview_view
from oracle.queries.api.source import open_snapshot
from oracle.queries.command_models import SystemEntry
from oracle.queries.text.human_numbers import format_percent, format_two_decimals
from oracle.queries.text.text_tables import format_block_time, print_table
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.overrides import MEANINGS
from oracle.systems.registry import (
    System,
    build_rules,
    compute_rule_changes,
    get_published_rules,
    get_rules,
    get_systems,
    list_rule_set_names,
    list_unpublished_rules,
    rule_set_to_json,
)

rules = typer.Typer(no_args_is_help=True)

_UNSET_VALUE = "not set"
_EMPTY_LIST = "(empty)"
_MAX_REASON_CHARACTERS = 1000


def register(app: typer.Typer) -> None:
    app.add_typer(
        rules, name="rules", help="List scoring systems and show the values of their rule sets."
    )


@rules.command("list", epilog="Example: qos-oracle rules list --json")
def list_systems(*, as_json: JsonOption = False) -> None:
    """List the scoring and selection systems.

    A system consists of a rule set, which scores nodes, and a policy, which selects nodes.
    Pocket's systems have only a policy.
    """
    registered_systems = list(get_systems().values())
    if as_json:
        print_model(
            [
                SystemEntry(
                    name=system.name,
                    version=system.version,
                    rules=system.has_rules,
                    policy=system.policy.name,
                    source=system.source,
                    summary=system.summary,
                    sha256=_compute_published_rules_hash(system),
                )
                for system in registered_systems
            ]
        )
        return
    columns = ("name", "version", "rules", "source", "summary")
    rows = [
        (
            listed_system.name,
            str(listed_system.version),
            "yes" if listed_system.has_rules else "no",
            listed_system.source,
            listed_system.summary,
        )
        for listed_system in registered_systems
    ]
    print_table(columns, rows, left_columns=("name", "rules", "source", "summary"))


@rules.command(
    epilog="Example: qos-oracle rules show relay --set tau_seconds=900 --json > mine.json"
)
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=(f"Rule set to show. One of: {', '.join(list_rule_set_names())}.")
        ),
    ],
    *,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every number of a rule set.

    Each number is listed with its meaning and its source document (000 to 004, listed in
    docs/reference/sources.md). Values are formatted as `--set` and `rules.change` accept them.
    With --json the output is the file that `replay --rules FILE` and `backtest --rules FILE` read;
    null marks a number that must be set first.
    """
    changed_values = parse_key_values("--set", changes)
    try:
        published_values = get_published_rules(name)
        missing_rules = [
            rule for rule in list_unpublished_rules(name) if rule not in changed_values
        ]
        # An incomplete rule set can be shown, but it has no hash and cannot score.
        complete_rules = (
            build_rules(name, changed_values) if changed_values or not missing_rules else None
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    if as_json:
        print_json(rule_set_to_json(name, changed_values))
        return
    values = (
        published_values
        if complete_rules is None
        else {**published_values, **compute_rule_changes(complete_rules)}
    )
    unused_rules = (
        RULES_IGNORED_BY_LEGACY
        if any(rule.startswith("legacy.") for rule in published_values)
        else {}
    )
    rule_names = [
        rule
        for rule in MEANINGS
        if (rule in published_values or rule in list_unpublished_rules(name))
        and rule not in unused_rules
    ]
    typer.echo(_format_rules_title(name, complete_rules))
    rows = [
        (rule, *_format_rule_cells(values.get(rule), published_values.get(rule)), MEANINGS[rule])
        for rule in rule_names
    ]
    print_table(("rule", "value", "published", "meaning"), rows, left_columns=("rule", "meaning"))


@rules.command(
    epilog='Example: qos-oracle rules announce mine.json --reason "Shorter memory." --dry-run'
)
def announce(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="JSON file of rules, as printed by `rules show NAME --json`."
        ),
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason shown to node owners.")
    ],
    link: Annotated[
        str | None,
        typer.Option(
            "--link", metavar="URL", help=("URL of a page about the change. Default: none.")
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prepare the announcement of other rules in the contract's timelock.

    Stores the rules and the reason in rules.announced_folder, and prints the calls of a proposer.
    Nothing is sent.
    """
    from oracle.cli.setup.rules_announce import announce_rules  # noqa: PLC0415  as in `history`

    announcement_text = reason.strip() if link is None else f"{reason.strip()}\n{link}"
    if not reason.strip() or len(announcement_text) > _MAX_REASON_CHARACTERS:
        raise InputError(f"--reason and --link: expected 1 to {_MAX_REASON_CHARACTERS} characters")
    announce_rules(config, file, announcement_text, dry_run=dry_run, as_json=as_json)


@rules.command("history", epilog="Example: qos-oracle rules history --json")
def print_history(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """List announced, cancelled and executed changes of the contract's rules, newest first.

    A change is listed before its execution if oracle.timelock is set.
    """
    # The imports are local, because the modules need the database, which the other commands do not
    # need.
    from oracle.daemon.event_readers import open_reader  # noqa: PLC0415
    from oracle.daemon.records import open_folded_records  # noqa: PLC0415
    from oracle.daemon.startup import build_api_source  # noqa: PLC0415

    with open_folded_records(load_config(config)) as records:
        source = build_api_source(records, open_reader(records.config), lambda: None)
        with open_snapshot(source) as snapshot:
            history = build_rules_history(snapshot)
    if as_json:
        print_model(history)
        return
    if not history.changes:
        typer.echo("no change of the rules was indexed")
    for change in history.changes:
        for line in _render_rules_change(change):
            typer.echo(line)


@rules.command("preview", epilog="Example: qos-oracle rules preview --json")
def preview_rules(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Show what announced rules and shadow sets would change.

    First folds new final blocks under the current rules, the announced rules and the shadow sets.
    Writes only files below rules.announced_folder; the daemon may be running.
    """
    from oracle.daemon.event_readers import open_reader  # noqa: PLC0415  as in `history`
    from oracle.daemon.records import open_folded_records  # noqa: PLC0415
    from oracle.daemon.rules_previews import update_previews  # noqa: PLC0415

    with open_folded_records(load_config(config)) as records:
        try:
            previews = update_previews(records, open_reader(records.config))
        except OSError as error:
            folder = records.config.rules.announced_folder
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    views = [build_preview_view(other_set, preview) for other_set, preview in previews]
    if as_json:
        print_model(views)
        return
    if not views:
        typer.echo("no other rules: none are announced and on this host, and [[shadow]] is empty")
    for view in views:
        _print_rules_preview(view)


def _print_rules_preview(view: RulesPreviewView) -> None:
    earliest_time = None if view.ready_at is None else format_block_time(view.ready_at)
    origin_text = (
        "shadow set, not announced" if earliest_time is None else f"not before {earliest_time}"
    )
    typer.echo(f"{view.rules} ({origin_text}), final blocks up to {view.block}")
    typer.echo(
        f"  {view.members} members: {view.rising} rise, {view.falling} fall; kickouts: "
        f"{view.kickouts_beginning} begin to be due, {view.kickouts_ending} end"
    )
    if view.rank_correlation is not None:
        correlation_text = format_two_decimals(view.rank_correlation)
        typer.echo(f"  rank correlation of both orders: {correlation_text} (1: no place changes)")
    rows = [
        (
            move.node,
            str(move.rank_now),
            str(move.rank_then),
            *(
                "-" if chance is None else format_percent(chance)
                for chance in (move.chance_now, move.chance_then)
            ),
        )
        for move in [*view.losers, *reversed(view.winners)]
    ]
    if rows:
        columns = ("node", "rank now", "rank then", "chance now", "chance then")
        print_table(columns, rows, left_columns=("node",))


def _render_rules_change(change: RulesChangeView) -> list[str]:
    """Return lines that describe a rules change, its state and its reason."""
    lines = [f"{change.rules_hash}  {_describe_state(change)}"]
    if change.reason is not None:
        lines.append(f"  reason: {change.reason}")
    elif change.reason_hash is not None:
        lines.append(f"  reason: a text with the keccak256 {change.reason_hash}, not on this host")
    if change.differences is None:
        lines.append(
            "  what differs is not known" if change.has_rules else "  rules not on this host"
        )
    for difference in change.differences or ():
        before_text = difference.before or _EMPTY_LIST
        after_text = difference.after or _EMPTY_LIST
        lines.append(f"  {difference.name}: {before_text} -> {after_text}")
    return lines


def _describe_state(change: RulesChangeView) -> str:
    if change.set_time is not None:
        replaced_note = "" if change.is_in_force else "; replaced since"
        set_time_text = format_block_time(change.set_time)
        return f"in force since {set_time_text}, block {change.set_block}{replaced_note}"
    if change.cancelled_time is not None:
        return f"cancelled {format_block_time(change.cancelled_time)}"
    if change.state == "ready" or change.ready_at is None:
        return "announced; may be made at any time"
    return f"announced; not before {format_block_time(change.ready_at)}"


def _compute_published_rules_hash(system: System) -> str | None:
    """Return the SHA-256 of a system's published rules, or None if they are incomplete."""
    if not system.has_rules or list_unpublished_rules(system.name):
        return None
    return identify_rules(get_rules(system.name)).sha256


def _format_rules_title(name: str, complete_rules: Rules | None) -> str:
    if complete_rules is None:
        return f"{name}: incomplete; set the missing numbers with --set, or in rules.change"
    return (
        f"{name}, version {complete_rules.version}, sha256 {identify_rules(complete_rules).sha256}"
    )


def _format_rule_cells(value: str | None, published: str | None) -> tuple[str, str]:
    """Return the table cells for a rule's value and its published value.

    If both are the same, the second cell is empty. `value` is None if the rule is not set,
    `published` is None if it was never published.
    """
    value_cell = _UNSET_VALUE if value is None else value or _EMPTY_LIST
    if published is None or published == value:
        return value_cell, ""
    return value_cell, published or _EMPTY_LIST
