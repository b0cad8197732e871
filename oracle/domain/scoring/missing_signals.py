"""Describes the effect on scoring of events and fields that a network lacks.

See docs/reference/scoring-rules.md, docs/reference/events-and-jsonl.md#vocabulary.
"""

from collections.abc import Collection, Iterator, Mapping

from oracle.domain.events import network_events as said
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.scoring.rules import Rules

EventTypes = Collection[type[DomainEvent]]


def describe_missing_event_types(event_types: EventTypes, rules: Rules) -> Iterator[str]:
    """Yield a sentence for each consequence of the event types that a profile lacks."""
    if said.NodeJoined not in event_types:
        yield "no node_joined: nobody is a member, so nobody has a QoS and nobody is kicked out"
    elif not {said.NodeQuit, said.NodeQuitAsked, said.NodeKickedOut, said.NodeSlashed} & set(
        event_types
    ):
        yield "nothing ends a membership: who leaves counts as a member for ever"
    if said.TaskStarted not in event_types:
        yield "no task_started: no node runs anything, so no time is measured and H stays 1"
        return
    yield from _describe_missing_for_scores(event_types, rules)
    yield from _describe_missing_for_reliability(event_types)


def _describe_missing_for_scores(event_types: EventTypes, rules: Rules) -> Iterator[str]:
    if rules.legacy is not None:
        has_rounds = {said.ResultCommitted, said.ResultDisclosed} <= set(event_types)
        if not has_rounds and said.GroupValidated not in event_types:
            yield "neither result_committed and result_disclosed nor group_validated: no scores"
        return
    if not {said.TaskSubmitted, said.TaskErrorReported} & set(event_types):
        yield "no task_submitted: nobody has a time, so no group is ever ranked"
    if rules.close == "validated" and said.GroupValidated not in event_types:
        yield "no group_validated: nothing is ranked, and every long-term score stays what it is"
    if rules.close == "terminal" and said.TaskCreated not in event_types:
        yield "no task_created: groups are known by it under rules.close = terminal, and none is"


def _describe_missing_for_reliability(event_types: EventTypes) -> Iterator[str]:
    if not {said.TaskTimedOut, said.TaskCancelled} & set(event_types):
        yield "no task_timed_out: no timeout lowers H, and nobody is ever excluded"
    if not {said.TaskSucceeded, said.TaskRefunded} & set(event_types):
        yield "no task_succeeded: H comes back by time alone"
    ending_types = {said.TaskSucceeded, said.TaskRefunded, said.TaskInvalidated, said.TaskAborted}
    if not {*ending_types, said.TaskTimedOut, said.TaskCancelled} & set(event_types):
        yield "no task ever ends: whoever starts one is busy for ever"


def describe_missing_fields(
    fields_by_type: Mapping[type[DomainEvent], Collection[str]], rules: Rules
) -> Iterator[str]:
    """Yield a sentence for each consequence of a missing field, given the fields present."""
    if rules.legacy is None:
        creation_fields = fields_by_type.get(said.TaskCreated)
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
        *fields_by_type.get(said.NodeJoined, ()),
        *fields_by_type.get(said.NodeUpdated, ()),
    }
    weights = {
        "gpu_vram": ("vram_weight", rules.legacy.vram_weight),
        "timeout": ("timeout_weight", rules.legacy.timeout_weight),
    }
    for name, (rule, weight) in weights.items():
        if weight and name not in node_fields:
            yield f"no {name} of a node: legacy.{rule} counts for nobody"
