"""Profile report of `config check` and `init`: events, on-chain actions, registration cost."""

import json
from collections.abc import Iterator

from oracle.bindings.kick_targets import KickTarget, kick_target_of
from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile import Contract, Profile
from oracle.daemon.config.loader import ACTED_ON, Config
from oracle.daemon.records import configured_rules, open_records
from oracle.domain.events.event_names import NAMES
from oracle.domain.events.network_events import (
    DomainEvent,
    GroupValidated,
    NodePauseAsked,
    NodePaused,
    NodeQuit,
    NodeQuitAsked,
    TaskStarted,
)
from oracle.domain.reports.contract_state import RoundLimits
from oracle.domain.scoring.missing_signals import missing_event_types, missing_fields
from oracle.domain.scoring.rules import Rules
from oracle.queries.text.text_tables import cut_hash
from oracle.store.schema import SchemaAge, schema_state

_GWEI = 10**9

# Pairs of equivalent events: effective now, or when the running task ends.
_SAME: dict[type[DomainEvent], type[DomainEvent]] = {
    NodePauseAsked: NodePaused,
    NodeQuitAsked: NodeQuit,
    NodePaused: NodePauseAsked,
    NodeQuit: NodeQuitAsked,
}


def profile_line(profile: Profile) -> str:
    """Return the profile, its options and the shorter list of emitted or missing events."""
    options = ", ".join(f"{name} = {json.dumps(v)}" for name, v in profile.options.items())
    said = {*profile.says, *(_SAME[kind] for kind in profile.says if kind in _SAME)}
    names = sorted(NAMES[kind] for kind in profile.says)
    never = sorted(NAMES[kind] for kind in NAMES.keys() - said)
    source = "logs and calls (whole blocks are read)" if profile.reads_calls else "logs alone"
    if len(never) < len(names):
        events = f"says all kinds of events but {', '.join(never)}" if never else "says all events"
    else:
        events = f"says {', '.join(names) or 'nothing'}, and nothing else"
    identity = f"{profile.name} {cut_hash(profile.identity.removeprefix(profile.name).strip())}"
    return f"{identity}, from {profile.origin}; {options or 'no options'}; by {source}; {events}"


def on_chain_line(config: Config, reader: EventReader) -> str:
    """Return which actions can go on-chain, and which settings are missing for them."""
    what = possible_on_chain(reader.profile, has_feed=config.feed.url is not None)
    if config.feed.url is not None and not config.feed.may_publish:
        return f"{what}. Nothing now: feed.may_publish is off"
    return (
        f"{what}. Nothing now: oracle.address is missing"
        if config.oracle.address is None
        else what
    )


def possible_on_chain(profile: Profile, *, has_feed: bool = False) -> str:
    """Return whether scores, kickouts and task starts of a profile's networks can go on-chain.

    See docs/how-to/connect-your-network.md#what-each-profile-can-put-on-chain.
    """
    if TaskStarted not in profile.says and not has_feed:
        return "no scores: it tells of no tasks, they would have to come from [feed]"
    scores = "scores, from a feed without proofs" if has_feed else "scores"
    starts = "starts of tasks" if ACTED_ON in profile.contracts else "no starts of tasks"
    return f"{scores}; {_kickouts(kick_target_of(profile.name))}; {starts}"


def _kickouts(target: KickTarget | None) -> str:
    if target is None:
        return "kickouts as an event of the oracle contract, which ends no membership"
    if target.artifact is None:
        return "kickouts"
    return f"kickouts by {target.name}, which `contract deploy` adds; without it as an event"


def contracts_line(reader: EventReader) -> str:
    """Return the contracts with their addresses and, where known, start blocks."""
    profile = reader.profile
    return "; ".join(
        f"{name} {address}{_since(profile.contracts.get(name))}"
        for address, (name, _) in reader.contracts.items()
    )


def _since(contract: Contract | None) -> str:
    if contract is None or contract.start_block is None:
        return ""
    return f" from block {contract.start_block}"


def profile_warnings(config: Config, reader: EventReader) -> Iterator[str]:
    """Yield what scoring loses with this profile, and history before the start block."""
    profile, rules = reader.profile, configured_rules(config)
    # A feed supplies the events that the profile lacks.
    if config.feed.url is None:
        lacking = [*missing_event_types(profile.says, rules), *_unscored(profile, rules)]
    else:
        lacking = []
    for sentence in (*lacking, *missing_fields(profile.tells, rules)):
        yield f"network.profile: {profile.name}: {sentence}"
    for name, contract in profile.contracts.items():
        first = config.chain.start_block
        if contract.start_block is not None and contract.start_block < first:
            yield (
                f"chain.start_block: {first} is after block {contract.start_block}, where {name} "
                "begins: nodes and tasks of the time between are unknown"
            )


def _unscored(profile: Profile, rules: Rules) -> Iterator[str]:
    """Yield a warning if legacy rules would have nothing to score."""
    if rules.legacy is not None and not (profile.has_rounds or GroupValidated in profile.says):
        yield (
            f"{rules.name} scores tasks of two rounds and groups that were compared, and it "
            "tells of neither: no node would ever get a score"
        )


def registration_line(config: Config) -> str:
    """Return the registration cost of new nodes at the maximum gas price."""
    limits, least = config.limits, config.oracle.min_scores
    cost = REGISTRATION_GAS * limits.max_fee_per_gas_wei
    return (
        f"a node from its score {least} on; at limits.max_fee_per_gas_wei "
        f"{limits.max_cost_per_transaction_wei // cost} fit one report "
        f"(limits.max_cost_per_transaction_wei) and {limits.max_cost_per_day_wei // cost} a day "
        f"(limits.max_cost_per_day_wei), at {REGISTRATION_GAS} gas each; more where gas is cheaper"
    )


def registration_warnings(config: Config) -> Iterator[str]:
    """Yield warnings if waiting new nodes make a report too expensive.

    Only nodes that wait in the database count; the contract accepts a limited number per round.
    """
    name, most = "max_cost_per_transaction_wei", config.limits.max_cost_per_transaction_wei
    if most < REGISTRATION_GAS * config.limits.max_fee_per_gas_wei:
        yield f"limits.{name}: no report with a new node fits at the highest fee"
        return
    new = min(RoundLimits().max_new_nodes, _waiting(config))
    if most < new * REGISTRATION_GAS * config.limits.max_fee_per_gas_wei:
        gwei = most / (new * REGISTRATION_GAS * _GWEI)
        yield (
            f"limits.{name}: {new} nodes wait for an index, and the report that gives it to them "
            f"is not sent while gas is offered more than {gwei:.3g} gwei"
        )


def _waiting(config: Config) -> int:
    """Return the number of nodes that would get an index with the next report, if indexed."""
    if schema_state(config.database.url).age is not SchemaAge.CURRENT:
        return 0
    with open_records(config) as records, records.store.reading() as uow:
        return uow.registrations.count_waiting(config.oracle.min_scores)
