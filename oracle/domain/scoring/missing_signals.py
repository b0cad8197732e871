"""Describes the effect on scoring of events and fields that a network lacks.

See docs/reference/scoring-rules.md, docs/reference/events-and-jsonl.md#vocabulary.
"""

from collections.abc import Collection, Iterator, Mapping

from oracle.domain.events import network_events as said
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.scoring.rules import Rules

Kinds = Collection[type[DomainEvent]]


def missing_event_types(says: Kinds, rules: Rules) -> Iterator[str]:
    """Yield a sentence for each consequence of the event types that a profile lacks."""
    if said.NodeJoined not in says:
        yield "no node_joined: nobody is a member, so nobody has a QoS and nobody is kicked out"
    elif not {said.NodeQuit, said.NodeQuitAsked, said.NodeKickedOut, said.NodeSlashed} & set(says):
        yield "nothing ends a membership: who leaves counts as a member for ever"
    if said.TaskStarted not in says:
        yield "no task_started: no node runs anything, so no time is measured and H stays 1"
        return
    yield from _missing_for_scores(says, rules)
    yield from _missing_for_reliability(says)


def _missing_for_scores(says: Kinds, rules: Rules) -> Iterator[str]:
    if rules.legacy is not None:
        in_rounds = {said.ResultCommitted, said.ResultDisclosed} <= set(says)
        if not in_rounds and said.GroupValidated not in says:
            yield "neither result_committed and result_disclosed nor group_validated: no scores"
        return
    if not {said.TaskSubmitted, said.TaskErrorReported} & set(says):
        yield "no task_submitted: nobody has a time, so no group is ever ranked"
    if rules.close == "validated" and said.GroupValidated not in says:
        yield "no group_validated: nothing is ranked, and every long-term score stays what it is"
    if rules.close == "terminal" and said.TaskCreated not in says:
        yield "no task_created: groups are known by it under rules.close = terminal, and none is"


def _missing_for_reliability(says: Kinds) -> Iterator[str]:
    if not {said.TaskTimedOut, said.TaskCancelled} & set(says):
        yield "no task_timed_out: no timeout lowers H, and nobody is ever excluded"
    if not {said.TaskSucceeded, said.TaskRefunded} & set(says):
        yield "no task_succeeded: H comes back by time alone"
    ends = {said.TaskSucceeded, said.TaskRefunded, said.TaskInvalidated, said.TaskAborted}
    if not {*ends, said.TaskTimedOut, said.TaskCancelled} & set(says):
        yield "no task ever ends: whoever starts one is busy for ever"


def missing_fields(
    tells: Mapping[type[DomainEvent], Collection[str]], rules: Rules
) -> Iterator[str]:
    """Yield a sentence for each consequence of a missing field, given the fields present."""
    if rules.legacy is None:
        created = tells.get(said.TaskCreated)
        if rules.close == "terminal" and created is not None and "group" not in created:
            yield (
                "no group of task_created: groups are known by it under rules.close = terminal, "
                "and none is"
            )
        return
    told = {*tells.get(said.NodeJoined, ()), *tells.get(said.NodeUpdated, ())}
    weights = {
        "gpu_vram": ("vram_weight", rules.legacy.vram_weight),
        "timeout": ("timeout_weight", rules.legacy.timeout_weight),
    }
    for name, (rule, weight) in weights.items():
        if weight and name not in told:
            yield f"no {name} of a node: legacy.{rule} counts for nobody"
