"""What `config check` says of the profile: what it reads, what it cannot say, what that costs."""

import json
from collections.abc import Iterator

from oracle.chain.profiles.profile import Contract, Profile
from oracle.daemon.app import App
from oracle.domain.events.event_names import NAMES
from oracle.domain.events.network_events import (
    DomainEvent,
    GroupValidated,
    NodePauseAsked,
    NodePaused,
    NodeQuit,
    NodeQuitAsked,
)
from oracle.domain.scoring.missing_signals import shortfalls, untold
from oracle.domain.scoring.rules import Rules

# Two ways of saying one thing: now, or as soon as its task ends.
_SAME: dict[type[DomainEvent], type[DomainEvent]] = {
    NodePauseAsked: NodePaused,
    NodeQuitAsked: NodeQuit,
    NodePaused: NodePauseAsked,
    NodeQuit: NodeQuitAsked,
}


def profile_line(profile: Profile) -> str:
    """Name the profile, its options, and the events of ours that it can and cannot say."""
    options = ", ".join(f"{name} = {json.dumps(v)}" for name, v in profile.options.items())
    said = {*profile.says, *(_SAME[kind] for kind in profile.says if kind in _SAME)}
    names = sorted(NAMES[kind] for kind in profile.says)
    never = sorted(NAMES[kind] for kind in NAMES.keys() - said)
    source = "logs and calls (whole blocks are read)" if profile.reads_calls else "logs alone"
    return (
        f"{profile.identity}, from {profile.origin}; {options or 'no options'}; by {source}; "
        f"says {', '.join(names)}; never says {', '.join(never) or 'nothing else'}"
    )


def contracts_line(app: App) -> str:
    """Name the contracts, where they are, and from which block on, as far as that is known."""
    profile = app.reader.profile
    return "; ".join(
        f"{name} {address}{_since(profile.contracts.get(name))}"
        for address, (name, _) in app.reader.contracts.items()
    )


def _since(contract: Contract | None) -> str:
    if contract is None or contract.start_block is None:
        return ""
    return f" from block {contract.start_block}"


def profile_warnings(app: App) -> Iterator[str]:
    """Say what scoring loses by the profile, and what is left out before the first block."""
    profile = app.reader.profile
    # A feed beside the chain says what the profile leaves out.
    if app.config.feed.url is None:
        lacking = [*shortfalls(profile.says, app.rules), *_unscored(profile, app.rules)]
    else:
        lacking = []
    for sentence in (*lacking, *untold(profile.tells, app.rules)):
        yield f"network.profile: {profile.name}: {sentence}"
    for name, contract in profile.contracts.items():
        first = app.config.chain.start_block
        if contract.start_block is not None and contract.start_block < first:
            yield (
                f"chain.start_block: {first} is after block {contract.start_block}, where {name} "
                "begins: nodes and tasks of the time between are unknown"
            )


def _unscored(profile: Profile, rules: Rules) -> Iterator[str]:
    """Say where legacy rules would have nothing to score."""
    if rules.legacy is not None and not (profile.has_rounds or GroupValidated in profile.says):
        yield (
            f"{rules.name} scores tasks of two rounds and groups that were compared, and it "
            "tells of neither: no node would ever get a score"
        )
