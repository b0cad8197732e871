"""Describes a profile's events, on-chain actions and costs, for `config check` and `init`."""

import json
from collections.abc import Iterator

from oracle.bindings.kick_targets import KickTarget, find_default_kick_target
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile import Contract, Profile
from oracle.daemon.config.loader import TASK_NETWORK_CONTRACT, Config
from oracle.daemon.records import build_configured_rules
from oracle.domain.events.network_events import (
    NAME_BY_TYPE,
    DomainEvent,
    GroupValidated,
    NodePauseAsked,
    NodePaused,
    NodeQuit,
    NodeQuitAsked,
    TaskStarted,
)
from oracle.domain.scoring.missing_signals import (
    describe_missing_event_types,
    describe_missing_fields,
)
from oracle.domain.scoring.rules import Rules
from oracle.queries.text.text_tables import shorten_hash

# A profile needs only one event of each pair. The events with `Asked` in their name take effect at
# once or when the running task ends; the others always take effect at once.
_EQUIVALENT_EVENTS: dict[type[DomainEvent], type[DomainEvent]] = {
    NodePauseAsked: NodePaused,
    NodeQuitAsked: NodeQuit,
    NodePaused: NodePauseAsked,
    NodeQuit: NodeQuitAsked,
}


def format_profile(profile: Profile) -> str:
    """Describe a profile, its options, and which events it emits or lacks."""
    options_text = ", ".join(
        f"{name} = {json.dumps(value)}" for name, value in profile.options.items()
    )
    emitted_types = {
        *profile.event_types,
        *(_EQUIVALENT_EVENTS[kind] for kind in profile.event_types if kind in _EQUIVALENT_EVENTS),
    }
    emitted_names = sorted(NAME_BY_TYPE[kind] for kind in profile.event_types)
    missing_names = sorted(NAME_BY_TYPE[kind] for kind in NAME_BY_TYPE.keys() - emitted_types)
    source_text = "logs and calls (full blocks)" if profile.reads_calls else "logs only"
    if len(missing_names) < len(emitted_names):
        emitted_events_text = (
            f"emits all events except {', '.join(missing_names)}"
            if missing_names
            else "emits all events"
        )
    else:
        emitted_events_text = f"emits only {', '.join(emitted_names) or 'no events'}"
    identity_text = (
        f"{profile.name} {shorten_hash(profile.identity.removeprefix(profile.name).strip())}"
    )
    return (
        f"{identity_text}, from {profile.origin}; {options_text or 'no options'}; "
        f"reads {source_text}; {emitted_events_text}"
    )


def describe_on_chain_support(config: Config, reader: EventReader) -> str:
    """Describe which actions are possible on chain, and which setting still prevents them."""
    support_text = describe_on_chain_actions(reader.profile, has_feed=config.feed.url is not None)
    if config.feed.url is not None and not config.feed.may_publish:
        return f"{support_text}. Nothing now: feed.may_publish is off"
    if config.oracle.address is None:
        return f"{support_text}. Nothing now: oracle.address is missing"
    return support_text


def describe_on_chain_actions(profile: Profile, *, has_feed: bool = False) -> str:
    """Describe which on-chain actions (scores, kickouts, task starts) a profile supports.

    See docs/how-to/connect-your-network.md#what-each-profile-can-put-on-chain.
    """
    if TaskStarted not in profile.event_types and not has_feed:
        return "no scores: the profile emits no task events; a [feed] would have to supply them"
    scores_text = "scores, from a feed without proofs" if has_feed else "scores"
    starts_text = "task starts" if TASK_NETWORK_CONTRACT in profile.contracts else "no task starts"
    hold_note = "; every kickout is held for an operator" if profile.holds_kickouts else ""
    kickouts_text = _describe_kickout_support(find_default_kick_target(profile.name))
    return f"{scores_text}; {kickouts_text}{hold_note}; {starts_text}"


def _describe_kickout_support(target: KickTarget | None) -> str:
    if target is None:
        return "kickouts as oracle events only, which end no membership"
    if target.artifact is None:
        return "kickouts"
    return f"kickouts through {target.name}, which `contract deploy` adds; without it only events"


def format_profile_contracts(reader: EventReader) -> str:
    """Format the contracts with their addresses and, where known, start blocks."""
    profile = reader.profile
    return "; ".join(
        f"{name} {address}{_format_start_block(profile.contracts.get(name))}"
        for address, (name, _) in reader.contracts.items()
    )


def _format_start_block(contract: Contract | None) -> str:
    if contract is None or contract.start_block is None:
        return ""
    return f" from block {contract.start_block}"


def find_profile_warnings(config: Config, reader: EventReader) -> Iterator[str]:
    """Yield a warning for each event that scoring needs but the profile lacks.

    If a contract is older than the start block, yield a warning about the missing history.
    """
    profile = reader.profile
    rules = build_configured_rules(config)
    # A feed supplies the events that the profile lacks, so there is no warning with a feed.
    if config.feed.url is None:
        missing_signals = [
            *describe_missing_event_types(profile.event_types, rules),
            *_find_unscored_round_warnings(profile, rules),
        ]
    else:
        missing_signals = []
    for sentence in (
        *missing_signals,
        *describe_missing_fields(profile.fields_by_event_type, rules),
    ):
        yield f"network.profile: {profile.name}: {sentence}"
    for name, contract in profile.contracts.items():
        first_block = config.chain.start_block
        if contract.start_block is not None and contract.start_block < first_block:
            yield (
                f"chain.start_block: {first_block} is after block {contract.start_block}, where "
                f"{name} begins: nodes and tasks of the time between are unknown"
            )


def _find_unscored_round_warnings(profile: Profile, rules: Rules) -> Iterator[str]:
    """Yield a warning if nothing could be scored under legacy rules."""
    if rules.legacy is not None and not (
        profile.has_rounds or GroupValidated in profile.event_types
    ):
        yield (
            f"{rules.name} scores tasks of two rounds and compared groups, but the profile has "
            "neither: no node would ever get a score"
        )
