"""Outcomes are attributed to the same nodes as by the fold, for any history."""

from typing import Any

from hypothesis import given

from oracle.domain.blocks import Position
from oracle.domain.events import network_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import WorkingSet
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Ending
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.pocket.pocket_policy import Answer, TaskTracker, Terminal
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from tests.support.examples import examples
from tests.support.random_histories import any_events, any_histories

WELL = (Ending.SUCCEEDED, Ending.REFUNDED)
FAULT = (Ending.INVALIDATED, Ending.TIMED_OUT)
OutcomeRow = tuple[str, Address, float | None]


def parts(ledger: WorkingSet, key: TaskKey) -> dict[Address, tuple[int, Any, Ending | None]]:
    """Return a task's nodes with the times of their starts and first answers, and their ends."""
    task = ledger.tasks.get(key)
    if task is None:
        return {}
    part_by_node = {
        run.node: (run.started_time, run.committed_at or run.reported_at, run.ending)
        for run in task.runs
    }
    if task.node is not None:
        part_by_node[task.node] = (task.started_time or 0, task.stopped_at, task.ending)
    return part_by_node


def by_the_fold(events: list[DomainEvent]) -> list[OutcomeRow]:
    """Return the fold's result of a history, as outcomes."""
    fold = Fold(CRYNUX)
    notes = list[OutcomeRow]()
    times = dict[Position, int]()
    for event in events:
        times[event.at] = event.time
        key = getattr(event, "task", None)
        before = parts(fold.ledger, key) if key else {}
        fold.fold_events([event])
        if key is None:
            continue
        for node, (started, answered, ending) in parts(fold.ledger, key).items():
            if node not in before:
                assert isinstance(event, network_events.TaskStarted)
                notes.append(("assigned", node, None))
            elif ending is not before[node][2]:
                stopped = event.time if answered is None else times[answered]
                notes.append(expected_outcome(node, ending, max(0, stopped - started)))
    return notes


def expected_outcome(node: Address, ending: Ending | None, seconds: int) -> OutcomeRow:
    if ending in WELL:
        return "succeeded", node, float(seconds)
    return ("failed" if ending in FAULT else "released"), node, None


def by_us(events: list[DomainEvent]) -> list[OutcomeRow]:
    tasks = TaskTracker()
    notes = list[OutcomeRow]()
    for event in events:
        if isinstance(event, network_events.TaskCreated):
            tasks.record_creation(event)
        elif isinstance(event, network_events.TaskStarted):
            if tasks.record_start(event) is not None:
                notes.append(("assigned", event.node, None))
        elif isinstance(event, Answer):
            tasks.record_answer(event)
        elif isinstance(event, Terminal):
            notes += [_describe_outcome(outcome) for outcome in tasks.record_ending(event)]
    return notes


def _describe_outcome(outcome: RelayOutcome) -> OutcomeRow:
    if outcome.kind is OutcomeKind.OK:
        return "succeeded", outcome.node, outcome.latency_ms / 1000
    ending = "failed" if outcome.kind is OutcomeKind.TIMEOUT else "released"
    return ending, outcome.node, None


@examples(100)
@given(any_histories(any_events))
def test_attributed_outcomes_match_task_endings_of_fold(events):
    assert by_us(events) == by_the_fold(events)
