"""The network is the same whether it is read from the database or folded from its events."""

from dataclasses import replace
from itertools import groupby

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.events.jsonl import parse_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.state import Task
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.stored_events import export_events
from oracle.queries.selection.network_snapshot import (
    SnapshotQuery,
    build_snapshot_from_events,
    load_snapshot,
)
from oracle.systems.policy import CandidateVerdict, PolicyInput
from oracle.systems.task_queue import is_waiting
from tests.support.draws import create_draw
from tests.support.histories import History, make_group_key, make_node_address, make_task_key
from tests.support.scripted import ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import RULES, Follower, mine_blocks

EVERYTHING = BlockRange(0, 10**9)
HISTORY = (
    History()
    .joins("A", "B", "C")
    .creates("1", "2", "3", of="g")
    .after(10)
    .starts("1", "A")
    .after(10)
    .submits("1")
    .after(10)
    .times_out("1")
    .creates("4")
)


class Witness:
    """A policy's evaluator that records its input."""

    def __init__(self) -> None:
        self.seen: list[DomainEvent] = []

    def apply_event(self, event: DomainEvent) -> None:
        self.seen.append(event)

    def evaluate_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        raise AssertionError(f"nobody asks it of {task.key} at {policy_input.time}")


def index_events(store, events):
    blocks = [list(block) for _, block in groupby(events, key=lambda event: event.at.block)]
    Follower(mine_blocks(blocks), store).catch_up()
    return EventArchive(store, ScriptedReader(), RULES)


def export_and_parse(archive):
    with archive.store.read_transaction() as uow:
        return parse_events(export_events(uow, archive.reader, EVERYTHING))


@pytest.fixture
def archive(store):
    return index_events(store, HISTORY.events)


def test_snapshot_from_store_equals_snapshot_from_events(store):
    Follower(mine_blocks(Traffic(5).blocks(40)), store).catch_up()
    archive = EventArchive(store, ScriptedReader(), RULES)
    stored = load_snapshot(archive, SnapshotQuery(RULES))
    folded = build_snapshot_from_events(
        export_and_parse(archive), SnapshotQuery(RULES, max_time=stored.time)
    )

    assert stored.nodes == {
        address: replace(folded_node) for address, folded_node in folded.nodes.items()
    }
    assert list(stored.waiting) == list(folded.waiting)
    assert stored.nodes_by_group == folded.nodes_by_group
    assert len(stored.nodes) > 3


def test_snapshot_lists_tasks_that_wait_for_a_start(archive):
    survey = load_snapshot(archive, SnapshotQuery(RULES))

    assert [waiting_task.key for waiting_task in survey.waiting] == [
        make_task_key("2"),
        make_task_key("3"),
        make_task_key("4"),
    ]
    assert all(map(is_waiting, survey.waiting))


def test_snapshot_lists_nodes_with_tasks_of_the_group(archive):
    survey = load_snapshot(archive, SnapshotQuery(RULES))

    assert survey.get_group_nodes(make_group_key("g")) == {make_node_address("A")}
    assert survey.get_group_nodes(make_group_key("h")) == frozenset()
    assert survey.get_group_nodes(None) == frozenset()


def test_pending_draw_reserves_its_node(archive):
    with archive.store.transaction() as uow:
        cursor = uow.cursor.get()
        block = uow.blocks.find_canonical(cursor.number)
        uow.draws.add(create_draw(make_task_key("2"), block, make_node_address("B")))
    survey = load_snapshot(archive, SnapshotQuery(RULES))
    waiting = {waiting_task.key: waiting_task for waiting_task in survey.waiting}

    assert survey.drawn_node_by_task == {make_task_key("2"): make_node_address("B")}
    assert survey.find_unavailable_nodes(waiting[make_task_key("4")]) == {make_node_address("B")}
    assert survey.find_unavailable_nodes(waiting[make_task_key("2")]) == {make_node_address("A")}


def test_snapshot_at_earlier_time_is_folded_from_store(archive):
    now = load_snapshot(archive, SnapshotQuery(RULES))
    then = load_snapshot(archive, SnapshotQuery(RULES, max_time=now.time - 10))

    assert now.nodes[make_node_address("A")].running == 0
    assert then.nodes[make_node_address("A")].running == 1
    assert (then.block, now.block) == (3, 4)


def test_snapshot_at_a_later_time_differs_only_in_its_time(archive):
    now = load_snapshot(archive, SnapshotQuery(RULES))
    later = load_snapshot(archive, SnapshotQuery(RULES, max_time=now.time + 500))

    assert later.nodes == now.nodes
    assert later.time == now.time + 500


def test_snapshot_under_other_rules_folds_the_events_again(archive):
    harsh = replace(RULES, penalty=RULES.boost)

    stored_node = load_snapshot(archive, SnapshotQuery(RULES)).nodes[make_node_address("A")]
    refolded_node = load_snapshot(archive, SnapshotQuery(harsh)).nodes[make_node_address("A")]

    assert stored_node.base == RULES.penalty
    assert refolded_node.base == harsh.penalty


def test_policy_evaluator_gets_events_up_to_the_snapshot_time(archive):
    witness = Witness()
    late = Witness()
    events = export_and_parse(archive)
    load_snapshot(archive, SnapshotQuery(RULES, evaluator=witness))
    load_snapshot(archive, SnapshotQuery(RULES, max_time=events[0].time, evaluator=late))

    assert witness.seen == events
    assert late.seen == [event for event in events if event.time == events[0].time]


def test_empty_database_error_suggests_run_once(store):
    with pytest.raises(InputError, match="run --once"):
        load_snapshot(EventArchive(store, ScriptedReader(), RULES), SnapshotQuery(RULES))
