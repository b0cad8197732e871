"""A what-if equals the fold of a history in which the change really happened."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import compute_reliability, heal_reliability
from oracle.queries.advice.advice_record import AdviceRecord
from oracle.queries.advice.what_if import (
    MEAN_SECONDS,
    build_what_if,
    compute_mean_reliability,
    list_reliability_steps,
    rank_with_changed_times,
    restore_ranked_tasks,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import History, make_task_key
from tests.unit.queries.advice.records import race, record_of

SECONDS = st.one_of(st.none(), st.integers(1, 60))
RULES = st.sampled_from([CRYNUX, RELAY, replace(CRYNUX, ranked_answers="all")])


def find_nothing(_qos: int) -> None:
    """Return no rank and no chance, for any QoS."""


def record_race(elapsed, rules=CRYNUX) -> AdviceRecord:
    return record_of(race(History().joins("A", "B", "C"), "g", elapsed), rules=rules)


@given(SECONDS, SECONDS, st.integers(1, 60), st.integers(1, 60), RULES)
@examples(60)
def test_what_if_ranks_equal_those_of_a_group_with_other_times(b, c, before, after, rules):
    slow = record_race({"A": before, "B": b, "C": c}, rules)
    fast = record_race({"A": after, "B": b, "C": c}, rules)
    if not slow.scored_tasks:
        assert not fast.scored_tasks
        return
    group = slow.scored_tasks[0].group
    ranked_tasks = restore_ranked_tasks(group, slow.task_by_key, rules)
    assert ranked_tasks is not None
    again = rank_with_changed_times(group, ranked_tasks, rules, {make_task_key("g/A"): after})
    played = {member.task: member for member in fast.scored_tasks[0].group.members}
    assert {key: (member.rank, member.score) for key, member in again.items()} == {
        key: (member.rank, member.score) for key, member in played.items()
    }


def test_what_if_ignores_a_group_that_was_not_ranked_by_time():
    record = record_race({"A": 5, "B": 9, "C": 20})
    scored = record.scored_tasks[0]
    swapped = {1: 2, 2: 1, 3: 3}
    by_order = replace(
        scored.group,
        members=tuple(
            member._replace(rank=swapped[member.rank or 0]) for member in scored.group.members
        ),
    )
    assert restore_ranked_tasks(by_order, record.task_by_key, CRYNUX) is None
    assert restore_ranked_tasks(scored.group, {}, CRYNUX) is None
    assert restore_ranked_tasks(scored.group, record.task_by_key, CRYNUX) is not None


EVENTS = st.lists(st.tuples(st.booleans(), st.integers(1, 3_000)), min_size=1, max_size=8)


def play_events(events, skipped=None) -> History:
    """Let A time out or succeed again and again; the task `skipped` is aborted instead."""
    history = History().joins("A")
    for index, (times_out, seconds) in enumerate(events):
        key = f"t{index}"
        history.after(seconds).creates(key).starts(key, "A")
        if index == skipped:
            history.aborts(key)
        elif times_out:
            history.times_out(key)
        else:
            history.submits(key).succeeds(key)
    return history.after(30)


@given(EVENTS, RULES)
@examples(60)
def test_what_if_reliability_equals_that_of_history_without_timeout(events, rules):
    record = record_of(play_events(events), rules=rules)
    timeouts = [index for index, (times_out, _) in enumerate(events) if times_out]
    for skipped in timeouts:
        index = next(
            i
            for i, change in enumerate(record.changes)
            if change.task == make_task_key(f"t{skipped}")
        )
        played = record_of(play_events(events, skipped), rules=rules)
        time, reliability = list_reliability_steps(record, index)[-1]
        assert heal_reliability(reliability, time, record.time, rules) == compute_reliability(
            played.node, played.time, rules
        )


@given(EVENTS, st.integers(1, 2 * MEAN_SECONDS))
@examples(20)
def test_mean_reliability_lies_within_the_range_of_its_samples(events, seconds_after):
    record = record_of(play_events(events).after(seconds_after))
    first = max(record.known_since, record.time - MEAN_SECONDS)
    steps = list_reliability_steps(record)
    samples = []
    for time in range(first, record.time, max(1, (record.time - first) // 5_000)):
        since, base = [step for step in steps if step[0] <= time][-1]
        samples.append(heal_reliability(base, since, time, record.rules))
    # H rises between two samples, so the mean of the samples is slightly too low.
    mean = compute_mean_reliability(record)
    assert abs(mean - sum(samples) // len(samples)) < UNIT // 200


def test_what_if_does_not_depend_on_current_reliability():
    history = History().joins("A", "B", "C")
    race(history, "1", {"A": 20, "B": 18, "C": 30}).after(MEAN_SECONDS)
    race(history, "2", {"A": None, "B": 18, "C": 30})
    rows = [
        build_what_if(record_of(history.after(after)), find_nothing, find_nothing)
        for after in (1, 540)
    ]
    assert rows[0] is not None
    assert rows[1] is not None
    assert rows[1].reliability_now - rows[0].reliability_now > UNIT // 10
    assert abs(rows[1].rows[0].qos - rows[0].rows[0].qos) < UNIT // 100


def test_what_if_shows_rank_after_each_change():
    history = History().joins("A", "B", "C")
    race(history, "1", {"A": 20, "B": 18, "C": 30})
    race(history, "2", {"A": 20, "B": 10, "C": 12})
    race(history, "3", {"A": None, "B": 10, "C": 12})

    what_if = build_what_if(
        record_of(history), lambda qos: 1 if qos > UNIT // 2 else 3, lambda qos: qos // 2
    )

    assert what_if is not None
    assert what_if.groups == 3
    rows = {row.change: row for row in what_if.rows}
    assert list(rows) == ["as_it_is", "one_timeout_fewer", "faster"]
    # Second, third and no answer; an answer in last place; first in the first group.
    means = [row.mean_score * 3 / UNIT for row in rows.values()]
    assert [round(mean) for mean in means] == [7, 9, 12]
    assert rows["as_it_is"].qos < rows["one_timeout_fewer"].qos
    assert rows["one_timeout_fewer"].qos == 9 * UNIT // 30
    assert [row.rank for row in rows.values()] == [3, 3, 3]
    assert all(row.chance == row.qos // 2 for row in rows.values())


@pytest.mark.parametrize("history", [History().joins("A"), History().joins("A").scores("A", 10)])
def test_what_if_has_no_timeout_row_if_the_node_never_timed_out(history):
    what_if = build_what_if(record_of(history), find_nothing, find_nothing)
    if not record_of(history).entries:
        assert what_if is None
    else:
        assert what_if is not None
        assert [row.change for row in what_if.rows] == ["as_it_is", "faster"]


def test_what_if_is_unavailable_if_pool_differs_from_stored_scores():
    record = record_of(History().joins("A").scores("A", 10, 5))
    reseeded = replace(record, node=replace(record.node, pool=bytes((7, 7, 5))))
    assert build_what_if(reseeded, find_nothing, find_nothing) is None
