"""The scoring rules that cannot be applied if a network omits an event."""

import pytest

from oracle.domain.events import network_events
from oracle.domain.events.network_events import NAME_BY_TYPE, DomainEvent
from oracle.domain.scoring.missing_signals import (
    describe_missing_event_types,
    describe_missing_fields,
)
from oracle.systems.registry import build_rules

EVERYTHING = set(NAME_BY_TYPE)
WEIGHTS = dict.fromkeys(("vram_weight", "timeout_weight", "speed_weight"), "0.25")
LEGACY = WEIGHTS | {"least_timeout_seconds": "60", "kickout_below": "5", "kickout_tasks": "9"}


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({network_events.NodeJoined}, "no node is a member"),
        (
            {
                network_events.NodeQuit,
                network_events.NodeQuitAsked,
                network_events.NodeKickedOut,
                network_events.NodeSlashed,
            },
            "no event ends a membership",
        ),
        ({network_events.TaskStarted}, "no node runs anything"),
        ({network_events.GroupValidated}, "no group is ranked"),
        ({network_events.TaskSubmitted, network_events.TaskErrorReported}, "no answer has a time"),
        ({network_events.TaskTimedOut, network_events.TaskCancelled}, "no node is ever excluded"),
        ({network_events.TaskSucceeded, network_events.TaskRefunded}, "by time alone"),
    ],
)
def test_missing_event_type_is_reported_with_its_effect(
    missing: set[type[DomainEvent]], words: str
):
    (sentence,) = describe_missing_event_types(EVERYTHING - missing, build_rules("crynux", {}))

    assert words in sentence


def test_required_events_depend_on_rules():
    terminal = build_rules("crynux", {"close": "terminal"})
    legacy = build_rules("legacy", {f"legacy.{name}": text for name, text in LEGACY.items()})

    assert not list(
        describe_missing_event_types(EVERYTHING - {network_events.GroupValidated}, terminal)
    )
    assert list(describe_missing_event_types(EVERYTHING - {network_events.TaskCreated}, terminal))
    rounds = {network_events.ResultCommitted, network_events.ResultDisclosed}
    assert not list(describe_missing_event_types(EVERYTHING - rounds, legacy))
    assert list(
        describe_missing_event_types(EVERYTHING - rounds - {network_events.GroupValidated}, legacy)
    )


def test_profile_with_all_event_types_is_complete():
    assert list(describe_missing_event_types(EVERYTHING, build_rules("crynux", {}))) == []


def test_missing_field_is_reported_with_its_effect():
    terminal = build_rules("crynux", {"close": "terminal"})
    legacy = build_rules("legacy", {f"legacy.{name}": text for name, text in LEGACY.items()})
    tells = {network_events.TaskCreated: {"task"}, network_events.NodeJoined: {"node", "gpu_vram"}}
    more = {
        network_events.TaskCreated: {"group"},
        network_events.NodeUpdated: {"timeout", "gpu_vram"},
    }

    assert [line.split(":")[0] for line in describe_missing_fields(tells, terminal)] == [
        "no group of task_created"
    ]
    assert list(describe_missing_fields(tells, legacy)) == [
        "no timeout of a node: legacy.timeout_weight has no effect"
    ]
    assert not [
        *describe_missing_fields(tells, build_rules("crynux", {})),
        *describe_missing_fields(more, terminal),
    ]
    assert not list(describe_missing_fields(more, legacy))
