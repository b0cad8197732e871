"""Scores of any history equal those of an independent implementation, in parts or at once."""

import json
from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.domain.events.jsonl import parse_events
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.queries.replay import replay_events
from tests.support.examples import examples
from tests.unit.systems.legacy.histories import histories
from tests.unit.systems.legacy.networks import RULES
from tests.unit.systems.legacy.reference import Reference

thirds = st.integers(0, UNIT // 3)


@st.composite
def numbers(draw):
    return LegacyRules(
        vram_weight=draw(thirds),
        timeout_weight=draw(thirds),
        speed_weight=draw(st.integers(1, UNIT // 3)),
        least_timeout_seconds=draw(st.integers(0, 200)),
        kickout_below=draw(st.integers(0, 20 * UNIT)),
        kickout_tasks=draw(st.integers(1, 3)),
        window_seconds=draw(st.none() | st.sampled_from([10, 5_000, 30 * 86_400])),
    )


def lines_of(events):
    return [json.dumps(event) for event in events]


def reference_of(events, legacy):
    reference = Reference({name: getattr(legacy, name) for name in LegacyRules.__slots__})
    for event in events:
        reference.read(event)
    return reference


@examples(100)
@given(histories(), numbers(), st.integers(0, 50 * 86_400))
def test_legacy_replay_matches_reference(events, legacy, later):
    time = events[-1]["time"] + later
    replay_output = json.loads(
        replay_events(lines_of(events), replace(RULES, legacy=legacy), None, time)
    )
    reference = reference_of(events, legacy)
    nodes = {
        row["node"]: row["legacy"] | {key: row[key] for key in ("task_scores", "kickout_due")}
        for row in replay_output["nodes"]
    }
    assert replay_output["anomalies"] == []
    assert nodes == reference.shown_nodes(time)
    assert replay_output["legacy"] == reference.shown_tasks()
    for row in replay_output["nodes"]:
        assert row["qos"] == row["legacy"]["Q"]


@examples(30)
@given(histories(), numbers(), st.data())
def test_legacy_fold_in_batches_equals_single_fold(events, legacy, data):
    rules = replace(RULES, legacy=legacy)
    parsed = parse_events(lines_of(events))
    cut = data.draw(st.integers(0, len(parsed)))
    single_fold = Fold(rules)
    pieces = Fold(rules)
    single_fold.fold_events(parsed)
    pieces.fold_events(parsed[:cut])
    first = pieces.drain_changes()
    pieces.fold_events(parsed[cut:])
    second = pieces.drain_changes()
    at_once = single_fold.drain_changes()
    assert pieces.ledger.nodes == single_fold.ledger.nodes
    assert first.scores + second.scores == at_once.scores
    assert first.kickouts + second.kickouts == at_once.kickouts


@examples(30)
@given(histories(), numbers())
def test_kickout_interval_is_open_exactly_while_kickout_is_due(events, legacy):
    """Compare as of each node's last event, because the start of a new window alone does not end
    an interval.
    """
    fold = Fold(replace(RULES, legacy=legacy))
    fold.fold_events(parse_events(lines_of(events)))
    for node in fold.ledger.nodes.values():
        enough = node.window_count >= legacy.kickout_tasks
        low = node.window_sum * UNIT < legacy.kickout_below * node.window_count
        due = enough and low and node.membership.value == "member"
        assert (node.kickout_due_since is not None) is due


@examples(60)
@given(histories(), numbers())
def test_kickout_interval_ends_with_its_window(events, legacy):
    fold = Fold(replace(RULES, legacy=legacy))
    windows = {}
    for event in parse_events(lines_of(events)):
        fold.fold_events([event])
        for interval in fold.drain_changes().kickouts:
            windows[interval.node, interval.opened_at] = fold.ledger.nodes[interval.node].window
        for node in fold.ledger.nodes.values():
            if node.kickout_due_since is not None:
                assert windows[node.address, node.kickout_due_since] == node.window
