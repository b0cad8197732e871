"""Options that choose the network, policy and rules of a command."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.event_files import lines_of
from oracle.cli.options import load_config
from oracle.daemon.compose import open_reader
from oracle.daemon.config.dispatch_section import floored, spread_of
from oracle.daemon.config.loader import Config
from oracle.daemon.records import open_folded_records
from oracle.domain.events.jsonl import parse_events
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.queries.explain import EventArchive
from oracle.queries.selection.network_snapshot import (
    NetworkSnapshot,
    SnapshotQuery,
    snapshot_of_events,
    snapshot_of_store,
)
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.policy import SelectionPolicy
from oracle.systems.policy_overrides import parameters_of, split_changes, with_parameters
from oracle.systems.registry import (
    changeable_in,
    changes_in,
    policies,
    policy_named,
    rule_set,
    systems,
)

EventsOption = Annotated[
    str | None,
    typer.Option(
        "--events",
        metavar="FILE|-|DIR",
        help="A file of events (JSON lines, as `export` writes) instead of the database; - is "
        "stdin; `backtest` also reads a folder that `export --parquet` wrote. It needs no "
        "configuration.",
    ),
]
AtOption = Annotated[
    int | None,
    typer.Option(
        "--at", min=0, metavar="TIME", help="Look at this time (unix seconds), not after the last."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a number by its name (`rules show NAME` lists those of rules); may be given "
        "again.",
    ),
]

PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"Pick by this policy, and its own rules if it has some: {', '.join(policies())}; "
        "default: what the daemon draws by, if that has no rules of its own, else that of the "
        "configured rule set; crynux for a file.",
    ),
]


@dataclass(frozen=True, slots=True)
class InputSource:
    """The data that a command works on: a file of events, or the database of a configuration.

    `rules` are the default rules for folding the events. `config` is None for a file.
    """

    rules: Rules
    snapshot: Callable[[SnapshotQuery], NetworkSnapshot]
    config: Config | None = None


@dataclass(frozen=True, slots=True)
class SystemChoice:
    """A policy and its rules; `needs_history`: the policy must observe the past events first."""

    policy: SelectionPolicy
    rules: Rules
    remembers: bool


@contextmanager
def source_of(events: str | None, config: Path) -> Iterator[InputSource]:
    """Open the input of a command; a file of events needs no configuration.

    Raises:
        InputError: the file or the configuration has faults, or the database was folded with
            other rules than the configured ones.
    """
    if events is None:
        with open_folded_records(load_config(config)) as records:
            rules, reader = records.rules, open_reader(records.config)
            archive = EventArchive(records.store, reader, rules)
            yield InputSource(
                rules, lambda query: snapshot_of_store(archive, query), records.config
            )
        return
    with lines_of(events) as lines:
        told = parse_events(lines)
    yield InputSource(CRYNUX, lambda asked: snapshot_of_events(told, asked))


def chosen(name: str | None, changes: Mapping[str, str], source: InputSource) -> SystemChoice:
    """Return the named policy, or the configuration's by default, with its rules.

    The policy of a system with rules of its own gets those rules, with the changes; any other
    policy works with the rules of the input. A change of a number of the policy, such as
    `weight_floor`, applies to the policy itself.

    Raises:
        InputError: unknown policy, rule or number, or a rule without a default is missing.
    """
    wanted = _by_default(source) if name is None else name
    policy, system = _policy(wanted, source), systems().get(wanted)
    own = system is not None and system.has_rules
    base = wanted if own else source.rules.name
    try:
        changes, tuning = split_changes(changes, changeable_in(base) if changes else (), policy)
        policy = with_parameters(policy, tuning)
        if system is None and not changes and _is_bare(policy, source):
            return _excluding_nobody(policy, source)
        if base == source.rules.name and not changes:
            return SystemChoice(policy, source.rules, remembers=not own)
        rules = rule_set(base, {**_set(base, source), **changes})
    except ValueError as error:
        raise InputError(f"--set: {error}") from None
    return SystemChoice(policy, rules, remembers=not own)


def chosen_for_queue(name: str | None, source: InputSource) -> SystemChoice:
    """Return the policy and rules for a queue, which uses rules only to find excluded nodes.

    The numbers that the legacy rules lack are not needed, because that system excludes nobody.

    Raises:
        InputError: unknown policy.
    """
    policy = _policy(source.rules.name if name is None else name, source)
    if _is_bare(policy, source):
        return _excluding_nobody(policy, source)
    return chosen(name, {}, source)


def _by_default(source: InputSource) -> str:
    """Return the daemon's policy name if it has no rules of its own, else the rules' name."""
    told = None if source.config is None else source.config.dispatch
    if told is None or told.start_block is None or told.policy not in systems():
        return source.rules.name
    return source.rules.name if systems()[told.policy].has_rules else told.policy


def _is_bare(policy: SelectionPolicy, source: InputSource) -> bool:
    """Return whether a policy of the legacy system has to work without the legacy rules."""
    return isinstance(policy, LegacyPolicy) and source.rules.legacy is None


def _excluding_nobody(policy: SelectionPolicy, source: InputSource) -> SystemChoice:
    """Return the choice with penalties switched off.

    A timeout then costs nothing and H stays 1, as in the legacy system.
    """
    inert = replace(source.rules, penalty=UNIT, first_penalty=None)
    return SystemChoice(policy, inert, remembers=False)


def _policy(name: str, source: InputSource) -> SelectionPolicy:
    try:
        policy = policy_named(name)
    except ValueError as error:
        raise InputError(f"--policy: {error}") from None
    if source.config is None:
        return policy
    told = source.config.dispatch
    if policy.name == told.policy:
        # The daemon draws with this policy.
        policy = with_parameters(policy, told.change)
    if not isinstance(policy, CrynuxPolicy):
        return policy
    # The minimum weight is a setting of the dispatcher, not a rule of scoring.
    return replace(policy, weighting=floored(policy.weighting, told), spread=spread_of(told))


def _set(base: str, source: InputSource) -> Mapping[str, str]:
    """Return the configured changes of a rule set, or none if the input has another rule set."""
    return source.config.rules.changes if source.config and base == source.rules.name else {}


def changed_in(choice: SystemChoice) -> dict[str, str]:
    """Return the numbers of the rules and of the policy that differ from the published ones."""
    published = parameters_of(policy_named(choice.policy.name))
    own = parameters_of(choice.policy).items()
    return {
        **changes_in(choice.rules),
        **{name: text for name, text in own if published[name] != text},
    }


def pairs_of(option: str, written: Sequence[str] | None) -> dict[str, str]:
    """Parse `KEY=VALUE` options into a dictionary.

    Raises:
        InputError: an option has no equals sign or no key, or a key occurs twice.
    """
    found: dict[str, str] = {}
    for each in written or ():
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {each}: must be KEY=VALUE")
        if key in found:
            raise InputError(f"{option} {key}: given twice")
        found[key] = value
    return found
