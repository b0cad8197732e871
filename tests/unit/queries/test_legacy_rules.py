"""The daemon under legacy rules, in which a node's score depends on all other nodes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.chain.profiles.profile import DEFAULT_TOKEN
from oracle.cli.inspect.explain_full import render_full_explanation as explained
from oracle.domain.events.jsonl import event_to_json, parse_events
from oracle.domain.fold.fold import Fold
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.kickout_review import ScoreHistory
from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.rules import Rules
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import FoldedState
from oracle.indexer.folder import EventFolder
from oracle.indexer.round_leaves import LeafCache
from oracle.indexer.rules_binding import bind_rules
from oracle.kickouts.kickout_cases import (
    load_kickout_cases,
    load_kickout_evidence,
    load_open_kickout_intervals,
)
from oracle.queries.explain import explain_score
from oracle.queries.population import load_all_nodes
from oracle.queries.replay import replay_events
from oracle.queries.status import compute_index_statistics, load_network_status
from oracle.reporting.recompute import build_tree_of_folded_state
from tests.support.answers import build_explanation_json
from tests.support.examples import examples
from tests.support.histories import History, make_node_address, make_task_key
from tests.support.rounds import build_contract_state
from tests.support.scripted_reader import Unread
from tests.unit.reporting.test_reporting import block, draw_reports, recompute
from tests.unit.systems.legacy.histories import histories
from tests.unit.systems.legacy.networks import RULES, legacy_with, ran, rules_with

SETTINGS = ReportSettings(deviation=1)
HOURLY = replace(RULES, legacy=legacy_with(window_seconds=3600))
MONTH = 31 * 86_400


def stops_of(events, numbers, wait):
    """Return a stop after each of these blocks, some seconds later, or at later blocks."""
    last = events[0].time
    stops = []
    for number in sorted(numbers):
        last = max([last] + [event.time for event in events if event.at.block <= number])
        stops.append(block(number, last + wait))
    return stops


@pytest.mark.slow
@examples(40)
@given(
    histories().map(lambda lines: parse_events(map(json.dumps, lines))),
    st.sets(st.integers(0, 30), max_size=6),
    st.sampled_from([0, 60, 4000]),
)
def test_incremental_legacy_report_matches_full_computation(
    new_sqlite_store, events, numbers, wait
):
    stops = stops_of(events, numbers, wait)
    with new_sqlite_store() as store, new_sqlite_store() as empty_store:
        played = draw_reports(store, events, stops, SETTINGS, HOURLY)
        reports = [
            recompute(empty_store, played, events, stop, SETTINGS, HOURLY) for stop in stops
        ]
    assert played.reports == reports


def compute_lanes(store, history: History, as_of) -> list[int]:
    """Return the lanes of all nodes as of a block, by seat."""
    folded = FoldedState(Fold(HOURLY), build_contract_state(), ScoreHistory(HOURLY))
    folded.fold.fold_events([event for event in history.events if event.at.block <= as_of.number])
    folded.record_changes()
    with store.read_transaction() as uow:
        return list(build_tree_of_folded_state(uow, Unread(), folded, as_of.time, HOURLY).lanes)


def test_larger_gpu_lowers_other_scores_in_next_report(new_sqlite_store):
    history = History().joins("A", gpu_vram=8, timeout=60).after(10)
    history.joins("B", gpu_vram=24, timeout=60)
    stops = [block(1, history.time - 5), block(2, history.time)]
    with new_sqlite_store() as store:
        lanes_of_a = [compute_lanes(store, history, stop)[0] for stop in stops]
    # R and P count a quarter each; lanes begin at 2.
    assert lanes_of_a == [5002, 3335]


def test_start_of_a_new_window_changes_the_report_without_any_event(new_sqlite_store):
    history = low()
    stops = [block(history.block, history.time), block(history.block + 1, history.time + 3600)]
    with new_sqlite_store() as store, new_sqlite_store() as empty_store:
        played = draw_reports(store, history.events, stops, SETTINGS, HOURLY)
        reports = [
            recompute(empty_store, played, history.events, stop, SETTINGS, HOURLY)
            for stop in stops
        ]
        lanes = [compute_lanes(empty_store, history, stop) for stop in stops]
    assert played.reports == reports
    assert lanes[0] != lanes[1]


def low() -> History:
    """Return three tasks; A is last in both rounds of each, C is the best."""
    history = History().joins("A", gpu_vram=8, timeout=120).joins("B", gpu_vram=16, timeout=60)
    history.joins("C", gpu_vram=24, timeout=300)
    for name in "123":
        ran(history, name, "CBA", "CBA")
    return history


def store_history(uow, history: History, later: int = 0, rules: Rules = RULES):
    """Fold a history into a database whose cursor is some seconds later."""
    last = history.block + 1
    EventFolder(rules, Unread()).fold_events(
        uow, DecodedEvents(history.events, []), final_number=last
    )
    as_of = block(last, history.time + later)
    uow.cursor.move_to(as_of, as_of, 0)
    return as_of


@pytest.mark.parametrize("later", [0, MONTH])
def test_kickout_is_not_due_after_the_end_of_its_window(new_sqlite_store, later):
    with new_sqlite_store() as store, store.transaction() as uow:
        store_history(uow, low(), later)
        open_ = uow.kickouts.list_open()
        due = load_open_kickout_intervals(uow, RULES)
        kickout_cases = load_kickout_cases(uow, LeafCache(), KickoutPolicy(RULES), SETTINGS)
    assert [interval.node for interval in open_] == [make_node_address("A")]
    assert due == ([] if later else open_)
    assert [kickout_case.node for kickout_case in kickout_cases] == [
        interval.node for interval in due
    ]


@pytest.mark.parametrize("later", [0, MONTH])
def test_due_kickouts_are_counted_only_for_the_current_window(new_sqlite_store, later):
    with new_sqlite_store() as store:
        with store.transaction() as uow:
            bind_rules(uow, RULES)
            store_history(uow, low(), later)
        counted = compute_index_statistics(store, KickoutPolicy(RULES), None)
        with store.read_transaction() as uow:
            status = load_network_status(uow)
    due = 0 if later else 1
    assert counted is not None
    assert (counted.kickouts["due"], status.kickouts_due) == (due, due)


def test_evidence_covers_scores_of_its_window(new_sqlite_store):
    with new_sqlite_store() as store, store.transaction() as uow:
        store_history(uow, low())
        (interval,) = uow.kickouts.list_open()
        evidence = json.loads(load_kickout_evidence(uow, KickoutPolicy(RULES), interval))
    assert [entry["score"] for entry in evidence["entries"]] == [4, 4, 4]
    assert (evidence["sum"], evidence["kickout_below"]) == (12, "7.000000000000000000")


def test_evidence_includes_scores_before_a_kick_by_the_network(new_sqlite_store):
    history = History().joins("A", "B", "C")
    for name in "12":
        ran(history, name, "CBA", "CBA")
    history.is_kicked_out("A").after(1).joins("A")
    ran(history, "3", "CBA", "CBA")
    with new_sqlite_store() as store, store.transaction() as uow:
        store_history(uow, history)
        (interval,) = load_open_kickout_intervals(uow, RULES)
        evidence = json.loads(load_kickout_evidence(uow, KickoutPolicy(RULES), interval))
    assert [entry["seq"] for entry in evidence["entries"]] == [1, 2, 3]


def test_evidence_covers_the_window_in_which_kickout_became_due(new_sqlite_store):
    history = ran(History().joins("A", "B", "C"), "0", "ABC", "ABC").after(MONTH)
    for name in "123":
        ran(history, name, "CBA", "CBA")
    with new_sqlite_store() as store, store.transaction() as uow:
        store_history(uow, history)
        (interval,) = load_open_kickout_intervals(uow, RULES)
        evidence = json.loads(load_kickout_evidence(uow, KickoutPolicy(RULES), interval))
    assert [entry["seq"] for entry in evidence["entries"]] == [2, 3, 4]


def test_scores_before_previous_kickout_are_not_evidence(new_sqlite_store):
    history = low().is_kicked_out("A").after(1).joins("A")
    for name in "456":
        ran(history, name, "CBA", "CBA")
    with new_sqlite_store() as store, store.transaction() as uow:
        store_history(uow, history)
        (interval,) = load_open_kickout_intervals(uow, RULES)
        evidence = json.loads(load_kickout_evidence(uow, KickoutPolicy(RULES), interval))
    assert [entry["seq"] for entry in evidence["entries"]] == [4, 5, 6]


def test_due_kickout_in_the_next_window_has_its_own_evidence(new_sqlite_store):
    rules = rules_with(kickout_tasks=1)
    history = ran(History().joins("A", "B", "C"), "1", "CBA", "CBA").after(MONTH)
    ran(history, "2", "CBA", "CBA")
    with new_sqlite_store() as store, store.transaction() as uow:
        store_history(uow, history, rules=rules)
        (interval,) = load_open_kickout_intervals(uow, rules)
        evidence = json.loads(load_kickout_evidence(uow, KickoutPolicy(rules), interval))
    assert [entry["seq"] for entry in evidence["entries"]] == [2]


def test_explanation_under_legacy_rules_lists_rounds_and_peers(new_sqlite_store):
    with new_sqlite_store() as store:
        with store.transaction() as uow:
            as_of = store_history(uow, low())
        explanation = explain_score(
            EventArchive(store, Unread(), RULES), make_node_address("B"), as_of
        )
        page = load_all_nodes(store, RULES, {}, 0)
        counted = compute_index_statistics(store, KickoutPolicy(RULES), None)
    answer = build_explanation_json(explanation)
    assert answer["pool"]["scores"] == [10, 10, 10]
    legacy = answer["row"]["legacy"]
    assert [rounds["task"] for rounds in answer["legacy_rounds"]] == [
        make_task_key(name) for name in "123"
    ]
    # R = 16/24, P = 1, B = 10/20.
    assert [legacy[name][:6] for name in "RPBQ"] == ["0.6666", "1.0000", "0.5000", "0.6666"]
    assert answer["row"]["qos"] == legacy["Q"]
    assert page is not None
    assert answer["row"] in page.model_dump(mode="json")["nodes"]
    assert counted is not None
    # Above 0.6, and up to 0.7.
    cumulated = dict(counted.qos.iterate_cumulative_buckets())
    assert cumulated["0.7"] - cumulated["0.6"] == 1

    text = "\n".join(explained(explanation, DEFAULT_TOKEN))
    assert f"#3 score 10 at block {explanation.scores[-1].at.block}" in text
    assert f"task {make_task_key('3')}: commitment rank 2 (5), disclosure rank 2 (5)" in text
    assert "Node score = 30 / 3 = 10.000000000000000000" in text
    assert "P = 1.000000000000000000 (timeout 60 s, range 60 to 300 s)" in text
    assert "(the best node score is 20.000000000000000000)" in text
    assert f"QoS = Q = {legacy['Q']}" in text


def test_explanation_of_a_departed_node_lists_no_peers(new_sqlite_store):
    with new_sqlite_store() as store:
        with store.transaction() as uow:
            as_of = store_history(uow, low().quits("B"), MONTH)
        explanation = explain_score(
            EventArchive(store, Unread(), RULES), make_node_address("B"), as_of
        )
    answer = build_explanation_json(explanation)
    legacy = answer["row"]["legacy"]
    assert (answer["row"]["qos"], legacy["Q"], legacy["tasks"]) == (None, None, 0)
    text = "\n".join(explained(explanation, DEFAULT_TOKEN))
    assert "Node score: none, no task ended in this window" in text
    assert "QoS: none, the node is not a member" in text


def test_replay_under_legacy_rules_shows_rounds_and_shares():
    history = low().starts("9", "A", place=0).after(60).aborts("9")
    lines = [event_to_json(event) for event in history.events]
    replay_output = json.loads(replay_events(lines, RULES, None, None))
    assert [row["task_scores"] for row in replay_output["nodes"]] == [[4] * 3, [10] * 3, [20] * 3]
    assert replay_output["nodes"][0]["long_term"] == "0.200000000000000000"
    assert [row["kickout_due"] for row in replay_output["nodes"]] == [True, False, False]
    assert [row["scored"] for row in replay_output["legacy"]] == [True, True, True, False]
    assert replay_output["legacy"][0]["nodes"][2] == {
        "node": make_node_address("A"),
        "round": 2,
        "commitment": {"rank": 3, "score": 2},
        "disclosure": {"rank": 3, "score": 2},
        "score": 4,
    }
    shares = [row["legacy"]["incentive_share"] for row in replay_output["nodes"]]
    assert sum(int(share.replace(".", "")) for share in shares) in range(10**18 - 3, 10**18 + 1)
