"""Properties of the fold for every history, legal or not."""

import json
from copy import deepcopy
from itertools import groupby
from typing import TypeVar

import pytest
from hypothesis import given, strategies as st

from oracle.domain.events.jsonl import event_to_json, parse_events
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import (
    Fold,
    collect_node_addresses,
    collect_open_group_keys,
    collect_open_group_task_keys,
    collect_task_keys,
)
from oracle.domain.fold.working_set import Changes, MembershipTransition, PreImages
from oracle.domain.incidents import IncidentDetector
from oracle.domain.scoring.node_scores import compute_node_qos, compute_reliability, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, PendingLeave
from oracle.queries.replay import replay_events
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import build_changed_rules, fold_history
from tests.support.random_histories import (
    any_histories,
    disturbed_histories,
    legal_histories,
    ordinary_events,
)
from tests.support.reference import Reference

K = TypeVar("K")
V = TypeVar("V")

TERMINAL = build_changed_rules(close="terminal", group_size=2)
SMALL_POOL = build_changed_rules(pool_size=2, kickout_below=3 * UNIT)
RESTARTING = Rules.from_json(
    json.dumps({**json.loads(RELAY.to_json()), "restarts": [1300, 1301, 4000]})
)
DOUBTING = build_changed_rules(
    least_timeout_seconds=1000, rejoin_heals=True, error_rank="as_reported"
)
rule_sets = st.sampled_from((CRYNUX, RELAY, TERMINAL, SMALL_POOL, RESTARTING, DOUBTING))
histories = any_histories() | legal_histories() | disturbed_histories()

ordinary_histories = (
    any_histories(ordinary_events) | disturbed_histories(ordinary_events) | legal_histories()
)

# Folding a history takes about a millisecond; drawing it is slow.
quick = examples(60)


def lists_of(changes: Changes) -> tuple[list[object], ...]:
    return (
        list(changes.scores),
        list(changes.reliability),
        list(changes.memberships),
        list(changes.results),
        list(changes.anomalies),
        list(changes.kickouts),
    )


def rows_of(fold: Fold) -> tuple[object, ...]:
    ledger = fold.ledger
    rows = (ledger.nodes, ledger.tasks, ledger.groups, fold.last, detector_rows(ledger.detector))
    return deepcopy(rows)


def detector_rows(detector: IncidentDetector) -> tuple[object, ...]:
    return detector.minutes, detector.open_incidents, detector.incident_count


@quick
@given(histories, rule_sets, st.data())
def test_fold_in_batches_equals_single_fold(events, rules, data):
    fold_at_once, changes = fold_history(events, rules)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=5).map(sorted))
    pieces = Fold(rules)
    drained = []
    for first, last in zip([0, *cuts], [*cuts, len(events)], strict=True):
        pieces.fold_events(events[first:last])
        drained.append(pieces.drain_changes())

    assert rows_of(pieces) == rows_of(fold_at_once)
    sums = [lists_of(piece) for piece in drained]
    together = tuple(
        [entry for piece in sums for entry in piece[n]] for n in range(len(lists_of(changes)))
    )
    assert together == lists_of(changes)


@quick
@given(histories, rule_sets)
def test_journaled_fold_equals_plain_fold(events, rules):
    plain_fold, changes = fold_history(events, rules)
    journaled = Fold(rules)
    for number, block in groupby(events, key=lambda event: event.at.block):
        journaled.fold_block(number, list(block), journal=True)

    assert rows_of(journaled) == rows_of(plain_fold)
    assert lists_of(journaled.drain_changes()) == lists_of(changes)


def put_back(rows: dict[K, V], before: dict[K, V | None]) -> None:
    for key, row in before.items():
        if row is None:
            del rows[key]
        else:
            rows[key] = row


def undone(fold: Fold, images: PreImages) -> None:
    put_back(fold.ledger.nodes, images.nodes)
    put_back(fold.ledger.tasks, images.tasks)
    put_back(fold.ledger.groups, images.groups)
    detector = fold.ledger.detector
    minutes = {row.minute: row for row in detector.minutes}
    put_back(minutes, images.incidents.minutes)
    fold.ledger.detector = IncidentDetector(minutes.values())
    fold.last = images.last[0]


@quick
@given(histories, rule_sets)
def test_pre_images_restore_state_before_every_block(events, rules):
    fold = Fold(rules)
    before = []
    for number, block in groupby(events, key=lambda event: event.at.block):
        before.append(rows_of(fold))
        fold.fold_block(number, list(block), journal=True)
    images = fold.drain_changes().pre_images

    assert len(images) == len(before)
    for image, rows in zip(reversed(images), reversed(before), strict=True):
        undone(fold, image)
        assert rows_of(fold) == rows


@quick
@given(histories, rule_sets)
def test_block_can_be_folded_with_only_the_rows_it_needs(events, rules):
    """Every block is folded by a fold that contains only the rows that `needs` names."""
    stored = Fold(rules)
    for number, block in groupby(events, key=lambda event: event.at.block):
        block_events = list(block)
        fold = Fold(rules)
        have = stored.ledger
        fold.last = stored.last
        tasks = {
            key: have.tasks[key] for key in collect_task_keys(block_events) if key in have.tasks
        }
        groups = {
            key: have.groups[key]
            for key in collect_open_group_keys(block_events, tasks, rules)
            if key in have.groups
        }
        members = collect_open_group_task_keys(groups.values())
        tasks |= {key: have.tasks[key] for key in members if key in have.tasks}
        nodes = {
            key: have.nodes[key]
            for key in collect_node_addresses(block_events, tasks)
            if key in have.nodes
        }
        ledger = fold.ledger
        ledger.nodes, ledger.tasks, ledger.groups = deepcopy((nodes, tasks, groups))
        ledger.detector = IncidentDetector(have.detector.minutes)
        fold.fold_block(number, block_events, journal=False)
        changes = fold.drain_changes()
        have.nodes.update(changes.nodes)
        have.tasks.update(changes.tasks)
        have.groups.update(changes.groups)
        stored.last = changes.last
        have.detector = ledger.detector

    full_fold, _ = fold_history(events, rules)
    assert rows_of(stored) == rows_of(full_fold)


@quick
@given(histories.filter(bool), st.randoms(use_true_random=False))
def test_replay_does_not_depend_on_the_order_of_lines(events, random):
    lines = [event_to_json(event) for event in events]
    shuffled = list(lines)
    random.shuffle(shuffled)

    assert parse_events(shuffled) == events
    assert replay_events(shuffled, CRYNUX, None, None) == replay_events(lines, CRYNUX, None, None)


@quick
@given(histories, rule_sets, st.integers(-100, 10_000))
def test_folded_numbers_stay_in_range(events, rules, later):
    fold, changes = fold_history(events, rules)
    time = (fold.last.time if fold.last else 1000) + later
    nodes = fold.ledger.nodes.values()
    assert sorted(node.seat for node in nodes) == list(range(len(nodes)))
    assert fold.last is None or fold.last.node_count == len(nodes)
    for node in fold.ledger.nodes.values():
        assert 0 <= compute_reliability(node, time, rules) <= UNIT
        qos = compute_node_qos(node, time, rules)
        assert 0 <= (qos or 0) <= UNIT
        assert (qos is not None) == (node.membership is Membership.MEMBER)
        assert len(node.pool) <= rules.pool_size
        assert node.pool_sum == sum(node.pool)
        assert node.running >= 0
        assert (node.kickout_due_since is not None) == is_kickout_due(node, rules)
        assert (node.kickout_due_time is None) == (node.kickout_due_since is None)
        assert (node.last_scored_at is None) == (node.scored == 0)
    for change in changes.reliability:
        assert 0 <= change.after <= UNIT


@quick
@given(any_histories() | disturbed_histories(), rule_sets)
def test_rows_are_the_same_without_the_ignored_events(events, rules):
    """A fold without these events has the same rows, except for the anomalies."""
    listed = {"node_differs", "last_status_differs", "time_fell", "group_names_unseen_task"}
    listed |= {"task_scored_before", "limit_not_believed"}
    fold, changes = fold_history(events, rules)
    ignored = {anomaly.at for anomaly in changes.anomalies if anomaly.rule not in listed}
    cleaned, left = fold_history([event for event in events if event.at not in ignored], rules)

    assert rows_of(cleaned)[:3] == rows_of(fold)[:3]
    for which in range(3):
        assert lists_of(left)[which] == lists_of(changes)[which]


@quick
@given(legal_histories())
def test_legal_history_has_no_anomalies(events):
    _, changes = fold_history(events)
    assert changes.anomalies == []


@pytest.mark.slow
@examples(200)
@given(
    ordinary_histories.filter(bool),
    st.none() | st.integers(0, 40_000),
)
def test_crynux_replay_matches_reference_implementation(events, at):
    lines = [event_to_json(event) for event in events]
    replayed = json.loads(replay_events(lines, CRYNUX, None, at))
    time = replayed["as_of"]["time"]
    objects = [json.loads(line) for line in lines]
    # Without a time, every event counts, as in the daemon.
    counted = [
        event_object for event_object in objects if at is None or event_object["time"] <= at
    ]
    expected = Reference().run(counted, time)

    assert replayed["nodes"] == expected["nodes"]
    assert replayed["groups"] == expected["groups"]
    odd = [(row["block"], row["tx"], row["log"], row["sub"]) for row in replayed["anomalies"]]
    assert odd == expected["odd"]


def standing(turns: list[MembershipTransition]) -> tuple[Membership, bool, PendingLeave | None]:
    """Compute membership, pause and pending request from the membership events alone."""
    membership, paused, pending = Membership.UNKNOWN, False, None
    for turn in turns:
        match turn:
            case MembershipTransition.PAUSE_ASKED:
                pending = PendingLeave.PAUSE
            case MembershipTransition.QUIT_ASKED:
                pending = PendingLeave.QUIT
            case MembershipTransition.PAUSED | MembershipTransition.RESUMED:
                paused = turn is MembershipTransition.PAUSED
                pending = None if pending is PendingLeave.PAUSE else pending
            case MembershipTransition.JOINED:
                membership, paused, pending = Membership.MEMBER, False, None
            case _:
                membership = Membership(turn.value)
                paused = False
                pending = None
    return membership, paused, pending


@quick
@given(histories, rule_sets)
def test_recorded_membership_changes_lead_to_the_current_membership(events, rules):
    fold, changes = fold_history(events, rules)
    for address, node in fold.ledger.nodes.items():
        turns = [change.transition for change in changes.memberships if change.node == address]
        assert standing(turns) == (node.membership, node.paused, node.pending)
