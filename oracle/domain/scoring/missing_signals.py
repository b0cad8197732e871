"""Describes how missing events and fields of a network affect scoring.

See docs/reference/scoring-rules.md, docs/reference/events-and-jsonl.md#vocabulary.
"""

from collections.abc import Collection, Iterator, Mapping

from oracle.domain.events import network_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.scoring.rules import Rules

EventTypes = Collection[type[DomainEvent]]


def describe_missing_event_types(event_types: EventTypes, rules: Rules) -> Iterator[str]:
    """Yield a sentence about each effect of the event types that a profile lacks."""
    if network_events.NodeJoined not in event_types:
        yield "no node_joined: no node is a member, so none has a QoS or is kicked out"
    elif not {
        network_events.NodeQuit,
        network_events.NodeQuitAsked,
        network_events.NodeKickedOut,
        network_events.NodeSlashed,
    } & set(event_types):
        yield "no event ends a membership: a node that leaves stays a member forever"
    if network_events.TaskStarted not in event_types:
        yield "no task_started: no node runs anything, so no time is measured and H stays 1"
        return
    yield from _describe_effects_on_scores(event_types, rules)
    yield from _describe_effects_on_reliability(event_types)


def _describe_effects_on_scores(event_types: EventTypes, rules: Rules) -> Iterator[str]:
    if rules.legacy is not None:
        has_round_events = {network_events.ResultCommitted, network_events.ResultDisclosed} <= set(
            event_types
        )
        if not has_round_events and network_events.GroupValidated not in event_types:
            yield "neither result_committed and result_disclosed nor group_validated: no scores"
        return
    if not {network_events.TaskSubmitted, network_events.TaskErrorReported} & set(event_types):
        yield "no task_submitted: no answer has a time, so no group is ever ranked"
    if rules.close == "validated" and network_events.GroupValidated not in event_types:
        yield "no group_validated: no group is ranked, and no long-term score ever changes"
    if rules.close == "terminal" and network_events.TaskCreated not in event_types:
        yield "no task_created: rules.close = terminal finds groups only by this event"


def _describe_effects_on_reliability(event_types: EventTypes) -> Iterator[str]:
    if not {network_events.TaskTimedOut, network_events.TaskCancelled} & set(event_types):
        yield "no task_timed_out: no timeout lowers H, and no node is ever excluded"
    if not {network_events.TaskSucceeded, network_events.TaskRefunded} & set(event_types):
        yield "no task_succeeded: H recovers by time alone"
    ending_types = {
        network_events.TaskSucceeded,
        network_events.TaskRefunded,
        network_events.TaskInvalidated,
        network_events.TaskAborted,
    }
    if not {*ending_types, network_events.TaskTimedOut, network_events.TaskCancelled} & set(
        event_types
    ):
        yield "no task ever ends: a node that starts one stays busy forever"


def describe_missing_fields(
    fields_by_type: Mapping[type[DomainEvent], Collection[str]], rules: Rules
) -> Iterator[str]:
    """Yield a sentence about each effect of the fields that a profile lacks.

    `fields_by_type` holds the fields that the profile provides.
    """
    if rules.legacy is None:
        creation_fields = fields_by_type.get(network_events.TaskCreated)
        if (
            rules.close == "terminal"
            and creation_fields is not None
            and "group" not in creation_fields
        ):
            yield "no group of task_created: rules.close = terminal finds groups only by it"
        return
    node_fields = {
        *fields_by_type.get(network_events.NodeJoined, ()),
        *fields_by_type.get(network_events.NodeUpdated, ()),
    }
    weights = {
        "gpu_vram": ("vram_weight", rules.legacy.vram_weight),
        "timeout": ("timeout_weight", rules.legacy.timeout_weight),
    }
    for name, (rule, weight) in weights.items():
        if weight and name not in node_fields:
            yield f"no {name} of a node: legacy.{rule} has no effect"
