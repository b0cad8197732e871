"""Shared options that select the network, the policy and the rules of a command."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.options import load_config, open_lines
from oracle.daemon.config.dispatch_section import apply_weight_floor, build_model_spread
from oracle.daemon.config.loader import Config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_folded_records
from oracle.domain.events.jsonl import parse_events
from oracle.domain.scoring.reliability import remove_reliability_decreases
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.queries.selection.network_snapshot import (
    NetworkSnapshot,
    SnapshotQuery,
    build_snapshot_from_events,
    load_snapshot,
)
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.overrides import (
    apply_rule_changes,
    format_policy_parameters,
    override_policy_parameters,
    split_changes,
)
from oracle.systems.policy import SelectionPolicy
from oracle.systems.registry import (
    build_rules,
    compute_rule_changes,
    get_policies,
    get_policy,
    get_systems,
    list_changeable_rules,
)

EventsOption = Annotated[
    str | None,
    typer.Option(
        "--events",
        metavar="FILE|-|DIR",
        help=(
            "File of events to read instead of the database (JSON lines, as written by `export`; "
            "- reads stdin); no configuration is needed. `backtest` also reads a folder written "
            "by `export --parquet`."
        ),
    ),
]
AtTimeOption = Annotated[
    int | None,
    typer.Option(
        "--at",
        min=0,
        metavar="TIME",
        help="Time of the snapshot (unix seconds). Default: after the last event.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one value of the rules or the policy (see `rules show NAME`); repeatable.",
    ),
]

PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=(
            "Selection policy, with the rule set of its system if it has one. "
            f"One of: {', '.join(get_policies())}. Default: the policy of [dispatch] if it has "
            "no rule set, else the policy of the configured rule set; crynux "
            "with --events."
        ),
    ),
]


@dataclass(frozen=True, slots=True)
class InputSource:
    """The data that a command works on: an event file or the configured database.

    `rules` are the default rules for folding the events. `config` is None for a file.
    """

    rules: Rules
    take_snapshot: Callable[[SnapshotQuery], NetworkSnapshot]
    config: Config | None = None


@dataclass(frozen=True, slots=True)
class SystemChoice:
    """A selection policy, and the rules that it is used with.

    If `needs_history` is true, the policy must have received the past events before it selects
    nodes.
    """

    policy: SelectionPolicy
    rules: Rules
    needs_history: bool


@contextmanager
def open_source(events: str | None, config: Path) -> Iterator[InputSource]:
    """Open a command's input, which is an event file or the configured database.

    An event file needs no configuration.

    Raises:
        InputError: the file or the configuration has faults, or the database was folded under
            other rules than the configured rules.
    """
    if events is None:
        with open_folded_records(load_config(config)) as records:
            rules = records.rules
            reader = open_reader(records.config)
            archive = EventArchive(records.store, reader, rules)
            yield InputSource(rules, lambda query: load_snapshot(archive, query), records.config)
        return
    with open_lines(events) as lines:
        parsed_events = parse_events(lines)
    yield InputSource(
        CRYNUX, lambda snapshot_query: build_snapshot_from_events(parsed_events, snapshot_query)
    )


def resolve_system(
    name: str | None, changes: Mapping[str, str], source: InputSource
) -> SystemChoice:
    """Return the named policy and its rules, by default the configured policy.

    If the policy's system has rules, these rules are used with the changes applied. Any other
    policy uses the rules of the input. A changed policy parameter, such as `weight_floor`, applies
    to the policy itself.

    Raises:
        InputError: the policy, a rule or a number is unknown, or a rule without a default is
            missing.
    """
    system_name = _get_default_system_name(source) if name is None else name
    policy = _get_configured_policy(system_name, source)
    system = get_systems().get(system_name)
    has_own_rules = system is not None and system.has_rules
    rule_set_name = system_name if has_own_rules else source.rules.name
    try:
        changes, policy_changes = split_changes(
            changes, list_changeable_rules(rule_set_name) if changes else (), policy
        )
        policy = override_policy_parameters(policy, policy_changes)
        if system is None and not changes and _lacks_legacy_rules(policy, source):
            return _build_choice_without_exclusions(policy, source)
        if rule_set_name == source.rules.name and not changes:
            return SystemChoice(policy, source.rules, needs_history=not has_own_rules)
        rules = build_rules(
            rule_set_name, {**_get_configured_rule_changes(rule_set_name, source), **changes}
        )
    except ValueError as error:
        raise InputError(f"--set: {error}") from None
    return SystemChoice(policy, rules, needs_history=not has_own_rules)


def resolve_queue_system(name: str | None, source: InputSource) -> SystemChoice:
    """Return the policy for a queue, and the rules by which nodes are excluded.

    The unpublished numbers of the legacy rules are not needed, because the legacy system excludes
    no nodes.

    Raises:
        InputError: the policy is unknown.
    """
    policy = _get_configured_policy(source.rules.name if name is None else name, source)
    if _lacks_legacy_rules(policy, source):
        return _build_choice_without_exclusions(policy, source)
    return resolve_system(name, {}, source)


def _get_default_system_name(source: InputSource) -> str:
    """Return the name of the configured policy or of the input's rule set.

    The name of the policy is used if its system has no rules.
    """
    dispatch_section = None if source.config is None else source.config.dispatch
    if (
        dispatch_section is None
        or dispatch_section.start_block is None
        or dispatch_section.policy not in get_systems()
    ):
        return source.rules.name
    if get_systems()[dispatch_section.policy].has_rules:
        return source.rules.name
    return dispatch_section.policy


def _lacks_legacy_rules(policy: SelectionPolicy, source: InputSource) -> bool:
    """Return whether the policy is a legacy policy and the input has no legacy rules."""
    return isinstance(policy, LegacyPolicy) and source.rules.legacy is None


def _build_choice_without_exclusions(policy: SelectionPolicy, source: InputSource) -> SystemChoice:
    """Return the policy with penalty-free rules, so that no node is excluded.

    A timeout then costs nothing and H stays 1, as in the legacy system.
    """
    return SystemChoice(policy, remove_reliability_decreases(source.rules), needs_history=False)


def _get_configured_policy(name: str, source: InputSource) -> SelectionPolicy:
    try:
        policy = get_policy(name)
    except ValueError as error:
        raise InputError(f"--policy: {error}") from None
    if source.config is None:
        return policy
    dispatch_section = source.config.dispatch
    if policy.name == dispatch_section.policy:
        # The daemon draws with this policy, so its configured parameters apply.
        policy = override_policy_parameters(policy, dispatch_section.change)
    if not isinstance(policy, CrynuxPolicy):
        return policy
    # The minimum weight is a dispatcher setting, not a scoring rule.
    return replace(
        policy,
        weighting=apply_weight_floor(policy.weighting, dispatch_section),
        spread=build_model_spread(dispatch_section),
    )


def _get_configured_rule_changes(rule_set_name: str, source: InputSource) -> Mapping[str, str]:
    """Return the configured changes of a rule set, if the input uses this rule set."""
    if source.config and rule_set_name == source.rules.name:
        return source.config.rules.changes
    return {}


def find_changed_parameters(choice: SystemChoice) -> dict[str, str]:
    """Return the rule values and policy parameters that differ from published values."""
    published_parameters = format_policy_parameters(get_policy(choice.policy.name))
    policy_numbers = format_policy_parameters(choice.policy).items()
    return {
        **compute_rule_changes(choice.rules),
        **{name: text for name, text in policy_numbers if published_parameters[name] != text},
    }


def parse_key_values(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Parse `KEY=VALUE` options into a dictionary.

    Raises:
        InputError: an option has no equals sign or no key, or a key occurs twice.
    """
    value_by_key: dict[str, str] = {}
    for pair_text in pairs or ():
        key, equals, value = pair_text.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {pair_text}: must be KEY=VALUE")
        if key in value_by_key:
            raise InputError(f"{option} {key}: this key is given twice")
        value_by_key[key] = value
    return value_by_key


def read_rules_file(path: Path, changes: Mapping[str, str]) -> Rules:
    """Read rules from a JSON file, and apply the given changes.

    Raises:
        InputError: the file cannot be read, or has no valid rules.
    """
    try:
        file_rules = Rules.from_json(path.read_text(encoding="utf-8"))
        return apply_rule_changes(json.loads(file_rules.to_json()), changes)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
