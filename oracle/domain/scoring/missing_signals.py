"""Describes how events and fields that a network lacks affect scoring.

See docs/reference/scoring-rules.md, docs/reference/events-and-jsonl.md#vocabulary.
"""

from collections.abc import Collection, Iterator, Mapping

from oracle.domain.events import network_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.scoring.rules import Rules

EventTypes = Collection[type[DomainEvent]]


def describe_missing_event_types(event_types: EventTypes, rules: Rules) -> Iterator[str]:
    """Yield a sentence for each effect of event types that a profile lacks."""
    if network_events.NodeJoined not in event_types:
        yield "no node_joined: nobody is a member, so nobody has a QoS and nobody is kicked out"
    elif not {
        network_events.NodeQuit,
        network_events.NodeQuitAsked,
        network_events.NodeKickedOut,
        network_events.NodeSlashed,
    } & set(event_types):
        yield "nothing ends a membership: who leaves counts as a member for ever"
    if network_events.TaskStarted not in event_types:
        yield "no task_started: no node runs anything, so no time is measured and H stays 1"
        return
    yield from _describe_missing_for_scores(event_types, rules)
    yield from _describe_missing_for_reliability(event_types)


def _describe_missing_for_scores(event_types: EventTypes, rules: Rules) -> Iterator[str]:
    if rules.legacy is not None:
        has_rounds = {network_events.ResultCommitted, network_events.ResultDisclosed} <= set(
            event_types
        )
        if not has_rounds and network_events.GroupValidated not in event_types:
            yield "neither result_committed and result_disclosed nor group_validated: no scores"
        return
    if not {network_events.TaskSubmitted, network_events.TaskErrorReported} & set(event_types):
        yield "no task_submitted: nobody has a time, so no group is ever ranked"
    if rules.close == "validated" and network_events.GroupValidated not in event_types:
        yield "no group_validated: nothing is ranked, and every long-term score stays what it is"
    if rules.close == "terminal" and network_events.TaskCreated not in event_types:
        yield "no task_created: groups are known by it under rules.close = terminal, and none is"


def _describe_missing_for_reliability(event_types: EventTypes) -> Iterator[str]:
    if not {network_events.TaskTimedOut, network_events.TaskCancelled} & set(event_types):
        yield "no task_timed_out: no timeout lowers H, and nobody is ever excluded"
    if not {network_events.TaskSucceeded, network_events.TaskRefunded} & set(event_types):
        yield "no task_succeeded: H comes back by time alone"
    ending_types = {
        network_events.TaskSucceeded,
        network_events.TaskRefunded,
        network_events.TaskInvalidated,
        network_events.TaskAborted,
    }
    if not {*ending_types, network_events.TaskTimedOut, network_events.TaskCancelled} & set(
        event_types
    ):
        yield "no task ever ends: whoever starts one is busy for ever"


def describe_missing_fields(
    fields_by_type: Mapping[type[DomainEvent], Collection[str]], rules: Rules
) -> Iterator[str]:
    """Yield a sentence for each effect of a missing field; `fields_by_type` has the others."""
    if rules.legacy is None:
        creation_fields = fields_by_type.get(network_events.TaskCreated)
        if (
            rules.close == "terminal"
            and creation_fields is not None
            and "group" not in creation_fields
        ):
            yield (
                "no group of task_created: groups are known by it under rules.close = terminal, "
                "and none is"
            )
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
            yield f"no {name} of a node: legacy.{rule} counts for nobody"
