"""The output of `replay` is that of docs/reference/events-and-jsonl.md#what-replay-prints."""

import json

import pytest
from hypothesis import given, strategies as st

from oracle.domain.events.jsonl import event_to_json
from oracle.domain.events.network_events import LastStatus
from oracle.domain.fold.fold import Fold
from oracle.errors import InputError
from oracle.queries.replay import replay_events
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.histories import (
    History,
    build_changed_rules,
    make_group_key,
    make_node_address,
    make_task_key,
)
from tests.support.reference import Reference


def replay(history, rules=CRYNUX, close=None, at=None):
    lines = [event_to_json(event) for event in history.events]
    return json.loads(replay_events(lines, rules, close, at))


def go_to(history, block, time):
    return history.after(time - history.time, blocks=block - history.block)


def worked_example():
    """Return a history: A is first, second, then late among three;
    ten minutes later it has healed.
    """
    history = History().joins("A")
    go_to(history, 2, 1010).starts("1", "A")
    go_to(history, 3, 1020).submits("1").closes("g1", "1")
    go_to(history, 7, 1060).starts("2", "A").starts("3", "B").after(5).submits("3")
    history.after(5).submits("2").closes("g2", "2", "3")
    go_to(history, 30, 1100).starts("4", "A").starts("5", "B").starts("9", "C")
    history.after(9).submits("5").submits("9")
    go_to(history, 70, 1400).aborts("1").aborts("2").aborts("3")
    history.times_out("4", LastStatus.STARTED).closes("g3", "4", "5", "9")
    go_to(history, 80, 1900).aborts("6").aborts("7").submits("4")
    return go_to(history, 90, 2000).aborts("8")


def test_documented_replay_example_is_exact():
    printed = replay(worked_example())

    assert printed["rules"] == "crynux"
    assert printed["as_of"] == {"block": 90, "time": 2000}
    assert printed["nodes"][0] == {
        "node": make_node_address("A"),
        "status": "available",
        "task_scores": [10, 5, 0],
        "sum": 15,
        "count": 3,
        "long_term": "0.500000000000000000",
        "reliability": "0.498428082598347524",
        "reliability_base": "0.300000000000000000",
        "reliability_since": 1400,
        "qos": "0.249214041299173762",
        "excluded": False,
        "kickout_due": False,
    }
    assert printed["groups"][0] == {
        "group": make_group_key("g1"),
        "members": [
            {
                "task": make_task_key("1"),
                "node": make_node_address("A"),
                "rank": 1,
                "elapsed": 10,
                "score": 10,
            }
        ],
        "scored": True,
    }
    assert printed["anomalies"] == [
        {
            "block": 80,
            "tx": 2,
            "log": 2,
            "sub": 0,
            "rule": "after_terminal",
            "event": "task_submitted",
        }
    ]


def test_replay_keys_follow_documented_order():
    printed = replay(worked_example())
    assert list(printed) == ["rules", "as_of", "nodes", "groups", "anomalies"]
    assert list(printed["nodes"][0])[:4] == ["node", "status", "task_scores", "sum"]
    assert list(printed["groups"][0]["members"][0]) == ["task", "node", "rank", "elapsed", "score"]
    assert list(printed["anomalies"][0]) == ["block", "tx", "log", "sub", "rule", "event"]


def test_nodes_are_sorted_by_address_and_groups_by_closing_order():
    history = History().joins("C", "A", "B").starts("1", "C").submits("1")
    history.starts("2", "B").submits("2").closes("z", "2").closes("a", "1")
    printed = replay(history)
    assert [row["node"] for row in printed["nodes"]] == [
        make_node_address("A"),
        make_node_address("B"),
        make_node_address("C"),
    ]
    assert [row["group"] for row in printed["groups"]] == [
        make_group_key("z"),
        make_group_key("a"),
    ]


def test_node_that_never_joined_is_printed_as_unknown():
    (row,) = replay(History().starts("1", "A"))["nodes"]
    assert (row["status"], row["qos"], row["excluded"]) == ("unknown", None, False)


def test_group_without_ranked_member_has_no_scores():
    history = History().starts("1", "A").after(4).submits("1").aborts("1").closes("g", "1", "2")
    (row,) = replay(history)["groups"]
    assert row["scored"] is False
    assert row["members"] == [
        {
            "task": make_task_key("1"),
            "node": make_node_address("A"),
            "rank": None,
            "elapsed": 4,
            "score": None,
        },
        {"task": make_task_key("2"), "node": None, "rank": None, "elapsed": None, "score": None},
    ]


def test_replay_at_time_omits_later_events():
    printed = replay(worked_example(), at=1500)
    assert printed["as_of"] == {"block": 70, "time": 1500}
    assert printed["anomalies"] == []
    # 1 - 0.7 e^(-100/1800)
    assert printed["nodes"][0]["reliability"].startswith("0.33782837176526")


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8), st.booleans())
def test_replay_without_an_end_time_includes_events_with_earlier_times(steps, is_last_lower):
    history = History().joins("A", "B")
    for number, step in enumerate([*steps, -40 if is_last_lower else 40]):
        history.after(step).starts(str(number), "A").submits(str(number))
        history.closes(f"g{number}", str(number))
    fold = Fold(CRYNUX)
    fold.fold_events(history.events)
    nodes = {row["node"]: row for row in replay(history)["nodes"]}
    assert {address: row["count"] for address, row in nodes.items()} == {
        address: len(state.pool) for address, state in fold.ledger.nodes.items()
    }


def test_replay_before_first_event_is_empty():
    printed = replay(worked_example(), at=5)
    assert printed["as_of"] == {"block": None, "time": 5}
    assert (printed["nodes"], printed["groups"], printed["anomalies"]) == ([], [], [])


def test_replay_accepts_terminal_as_close_option():
    history = History().creates("1", "2", "3", of="g")
    history.starts("1", "A").starts("2", "B").starts("3", "C")
    history.after(1).submits("1").after(1).submits("2").succeeds("1").is_refunded("2")
    history.times_out("3")
    assert replay(history)["groups"] == []
    (row,) = replay(history, close="terminal")["groups"]
    assert [member["score"] for member in row["members"]] == [10, 5, 0]
    with pytest.raises(ValueError, match="close: must be one of"):
        replay(history, close="now")


def test_replay_uses_the_given_rules_and_names_them():
    history = History().joins("A").starts("1", "A").times_out("1")
    bases = [replay(history, rules)["nodes"][0]["reliability_base"] for rules in (CRYNUX, RELAY)]
    assert bases == ["0.300000000000000000", "0.950000000000000000"]
    assert replay(history, build_changed_rules(name="ours"))["rules"] == "ours"


def test_integers_above_2_53_are_printed_as_strings():
    history = go_to(History().joins("A"), 2**53 + 1, 2**60).pauses("A")
    assert replay(history)["as_of"] == {"block": str(2**53 + 1), "time": str(2**60)}


def test_invalid_file_raises_error_with_line_and_field():
    with pytest.raises(InputError, match="line 2: type: the field is missing"):
        replay_events([event_to_json(History().joins("A").events[0]), "{}"], CRYNUX, None, None)


def test_full_pool_replay_matches_reference_implementation():
    history = History().joins("A", "B")
    for n in range(20):
        history.scores("A", 2, 0, 2).scores("B", 10, 0, 5)
        if n == 17:
            history.is_kicked_out("A").after(100).joins("A")
    history.quits("B").after(77).joins("B")
    lines = [event_to_json(event) for event in history.events]
    expected = Reference().run([json.loads(line) for line in lines], history.time)
    printed = replay(history)

    assert printed["nodes"] == expected["nodes"]
    assert printed["groups"] == expected["groups"]
    assert {row["count"] for row in printed["nodes"]} >= {50, 6}
