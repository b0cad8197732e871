"""The measurements of a system: intervals to the second, kickouts, scores,
distribution of tasks.
"""

import pytest

from lab.backtest.event_history import EVENTS_PER_CHUNK, write_history
from lab.backtest.measurement import MeasurementPlan
from lab.backtest.results import NetworkKick
from lab.backtest.task_distribution import CHANCE_UNIT, sample_start_numbers
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import heal_reliability
from oracle.errors import InputError
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.histories import (
    GENESIS_TIME,
    History,
    build_changed_rules,
    fold_history,
    make_node_address,
)
from tests.support.txmgr.backtests import Bench, ByName


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def twice_late():
    """Return a node that times out twice in ten seconds: H falls to 0.3, then to about 0.09."""
    late = History().joins("A").starts("1", "A").after(10).times_out("1")
    return late.starts("2", "A").after(10).times_out("2")


def test_exclusion_interval_lasts_from_timeout_until_recovery(bench):
    history = twice_late()
    base = fold_history(history)[0].ledger.nodes[make_node_address("A")].base
    began = history.time
    # Long enough for the exclusion to end.
    measured = bench.measure(history.after(5000).joins("B"))
    (interval,) = measured.intervals
    assert (interval.node, interval.block, interval.since) == (make_node_address("A"), 3, began)
    assert interval.until is not None
    assert heal_reliability(base, began, interval.until - 1, CRYNUX) < UNIT // 10
    assert heal_reliability(base, began, interval.until, CRYNUX) >= UNIT // 10
    assert interval.seconds == interval.until - began


def test_open_exclusion_interval_ends_at_last_event(bench):
    (interval,) = bench.measure(twice_late().after(5).joins("B")).intervals
    assert (interval.until, interval.seconds) == (None, 5)


def test_success_ends_exclusion_interval(bench):
    history = History().joins("A").starts("1", "A").starts("2", "A").starts("3", "A")
    history.after(10).times_out("1").times_out("2").after(7).submits("3").succeeds("3")
    (interval,) = bench.measure(history.after(100).joins("B")).intervals
    assert (interval.since, interval.until, interval.seconds) == (1010, 1017, 7)


def test_quit_ends_exclusion_interval(bench):
    history = twice_late().after(4).quits("A").after(50).joins("B")
    (interval,) = bench.measure(history).intervals
    assert interval.until == history.time - 50
    assert interval.seconds == 4


def test_second_timeout_extends_exclusion_interval(bench):
    history = History().joins("A").starts("1", "A").starts("2", "A").starts("3", "A")
    history.after(10).times_out("1").times_out("2").after(5).times_out("3")
    (interval,) = bench.measure(history.after(9000).joins("B")).intervals
    base = fold_history(history.events[:-1])[0].ledger.nodes[make_node_address("A")].base
    assert interval.since == 1010
    assert interval.until is not None
    assert heal_reliability(base, 1015, interval.until - 1, CRYNUX) < UNIT // 10
    assert heal_reliability(base, 1015, interval.until, CRYNUX) >= UNIT // 10


def test_relay_exclusion_lasts_until_exit_threshold(bench):
    history = History().joins("A")
    for name in "1234":
        history.starts(name, "A").after(1).times_out(name)
    base = fold_history(history, RELAY)[0].ledger.nodes[make_node_address("A")].base
    began = history.time
    *_, interval = bench.measure(history.after(90_000).joins("B"), RELAY).intervals
    assert interval.until is not None
    assert heal_reliability(base, began, interval.until - 1, RELAY) < 8 * UNIT // 10
    assert heal_reliability(base, began, interval.until, RELAY) >= 8 * UNIT // 10


def test_exclusion_is_clipped_to_the_first_measured_block(bench):
    history = twice_late().after(3).joins("B").after(4).joins("C")
    (interval,) = bench.measure(history, blocks=(4, None)).intervals
    assert (interval.since, interval.seconds, interval.began_before) == (1020, 4, True)


def test_exclusion_interval_that_ended_before_first_block_is_not_counted(bench):
    history = twice_late().after(9000).joins("B").after(4).joins("C")
    assert bench.measure(history, blocks=(history.block - 1, None)).intervals == ()


def third_for_ever(times):
    """Return a node that times out repeatedly, in groups whose other tasks succeed."""
    return History().joins("A").scores("A", *[0] * times)


def test_kickout_becomes_due_when_low_score_pool_is_full(bench):
    rules = build_changed_rules(pool_size=3)
    history = third_for_ever(3)
    (due,) = bench.measure(history.after(10).joins("B"), rules).kickouts
    assert (due.node, due.block, due.time) == (make_node_address("A"), 4, GENESIS_TIME + 3)
    assert (due.closed_block, due.kicked_block) == (None, None)


def test_no_kickout_is_measured_if_none_is_due(bench):
    assert bench.measure(third_for_ever(2), build_changed_rules(pool_size=3)).kickouts == ()


def test_measured_kickout_states_when_the_network_kicked_the_node(bench):
    history = third_for_ever(3).after(10).is_kicked_out("A")
    measured = bench.measure(history, build_changed_rules(pool_size=3))
    (due,) = measured.kickouts
    assert (due.closed_block, due.closed_time) == (5, history.time)
    assert (due.kicked_block, due.kicked_time) == (5, history.time)
    assert measured.kicks == (NetworkKick(make_node_address("A"), 5, history.time, was_due=True),)


def test_kick_by_the_network_without_a_due_kickout_is_reported(bench):
    history = third_for_ever(3).after(10).is_kicked_out("A")
    measured = bench.measure(history)
    assert measured.kickouts == ()
    assert measured.kicks == (NetworkKick(make_node_address("A"), 5, history.time, was_due=False),)


def test_kickout_that_closed_before_first_block_is_not_counted(bench):
    history = third_for_ever(3).scores("A", 10).after(10).joins("B")
    rules = build_changed_rules(pool_size=3)
    assert len(bench.measure(history, rules).kickouts) == 1
    assert bench.measure(history, rules, blocks=(history.block, None)).kickouts == ()


def test_expected_shares_are_weights_divided_by_their_sum(bench):
    history = History().joins("A", "B", "C").starts("1", "B")
    spread = bench.measure(history, policy=ByName({"A": 1, "B": 2, "C": 1})).spread
    quarter = CHANCE_UNIT // 4
    assert spread.expected == {
        make_node_address("A"): quarter,
        make_node_address("B"): 2 * quarter,
        make_node_address("C"): quarter,
    }
    assert spread.actual == {make_node_address("B"): 1}


def test_busy_node_is_not_a_candidate(bench):
    history = History().joins("A", "B").starts("1", "A").after(1).starts("2", "B")
    spread = bench.measure(history).spread
    half = CHANCE_UNIT // 2
    assert spread.expected == {
        make_node_address("A"): half,
        make_node_address("B"): half + CHANCE_UNIT,
    }


def test_nodes_have_equal_chances_when_all_weights_are_zero(bench):
    history = History().joins("A", "B").starts("1", "A")
    spread = bench.measure(history, policy=ByName({"A": 0, "B": 0})).spread
    assert spread.expected == {
        make_node_address("A"): CHANCE_UNIT // 2,
        make_node_address("B"): CHANCE_UNIT // 2,
    }


def test_task_start_without_a_candidate_is_counted_as_unplaced(bench):
    history = History().starts("1", "A").joins("B").starts("2", "B")
    spread = bench.measure(history).spread
    assert (spread.judged, spread.unplaced) == (2, 1)


def test_node_with_a_task_of_the_group_is_not_a_candidate(bench):
    history = History().joins("A", "B").creates("1", "2", of="g").starts("1", "A").submits("1")
    history.aborts("1").starts("2", "B")
    spread = bench.measure(history).spread
    assert spread.expected == {
        make_node_address("A"): CHANCE_UNIT // 2,
        make_node_address("B"): CHANCE_UNIT // 2 + CHANCE_UNIT,
    }


def test_node_of_a_group_that_started_earlier_is_not_a_candidate(bench):
    history = History().joins("A", "B").creates("1", "2", of="g").starts("1", "A").aborts("1")
    history.after(1).starts("2", "B")
    spread = bench.measure(history, blocks=(2, None)).spread
    assert spread.expected == {make_node_address("B"): CHANCE_UNIT}
    assert spread.actual == {make_node_address("B"): 1}


def test_every_run_of_a_multi_node_task_counts_as_a_start(bench):
    history = History().joins("A", "B").starts("1", "A", place=0).starts("1", "B", place=1)
    spread = bench.measure(history).spread
    assert spread.actual == {make_node_address("A"): 1, make_node_address("B"): 1}
    assert spread.expected == {
        make_node_address("A"): CHANCE_UNIT // 2,
        make_node_address("B"): CHANCE_UNIT // 2 + CHANCE_UNIT,
    }


def test_illegal_start_is_not_counted(bench):
    history = History().joins("A", "B").starts("1", "A").starts("1", "B")
    assert bench.measure(history).spread.actual == {make_node_address("A"): 1}


def test_unsampled_starts_are_counted_but_not_evaluated(bench):
    history = History().joins("A", "B").starts("1", "A").starts("2", "B").aborts("1").aborts("2")
    spread = bench.measure(history, plan=MeasurementPlan(chosen_starts=frozenset({1}))).spread
    assert spread.expected == {make_node_address("B"): CHANCE_UNIT}
    assert spread.actual == {make_node_address("A"): 1, make_node_address("B"): 1}


def test_policy_receives_all_events_in_order(bench):
    policy = ByName()
    history = History().joins("A").after(1).starts("1", "A").submits("1")
    bench.measure(history, policy=policy, blocks=(2, None))
    assert policy.seen == history.events


def test_members_and_nodes_with_tasks_are_listed_as_present(bench):
    history = History().joins("A", "B").quits("A").updates("U", stake=1).after(1)
    history.joins("C").starts("1", "D")
    assert bench.measure(history).present_nodes == tuple(map(make_node_address, "ABCD"))
    assert bench.measure(history, blocks=(2, None)).present_nodes == tuple(
        map(make_node_address, "BCD")
    )


def test_scores_at_time_include_all_events_of_that_time(bench):
    history = History().joins("A").starts("1", "A").after(10).times_out("1").after(10).quits("A")
    over_time = bench.measure(
        history, plan=MeasurementPlan(instants=(1009, 1010, 1020))
    ).scores_over_time
    assert over_time == {make_node_address("A"): (UNIT // 2, 15 * UNIT // 100, None)}


def test_events_after_last_measured_block_are_not_read(bench):
    history = History().joins("A").after(5).joins("B")
    assert [end.node for end in bench.measure(history, blocks=(0, 1)).nodes] == [
        make_node_address("A")
    ]
    assert bench.kept.to_time == GENESIS_TIME


def test_history_without_events_in_block_range_is_rejected(tmp_path):
    path = tmp_path / "events"
    events = History().after(1).joins("A").events
    for first, last, message in ((0, None, "empty"), (3, None, "--from 3"), (0, 1, "--to 1")):
        with pytest.raises(InputError, match=message):
            write_history(events if first or last else [], path, first, last)


@pytest.mark.slow
def test_history_of_several_chunks_round_trips(tmp_path):
    history = History()
    for number in range(EVENTS_PER_CHUNK + 1):
        history.updates("A", stake=number)
    written_history = write_history(history.events, tmp_path / "events")
    assert [len(chunk) for chunk in written_history.read_chunks()] == [EVENTS_PER_CHUNK, 1]
    assert [event for chunk in written_history.read_chunks() for event in chunk] == history.events


def test_sample_of_starts_has_the_requested_size_and_depends_on_the_seed():
    assert sample_start_numbers(10, 10, 0) is None
    sample = sample_start_numbers(1000, 10, 0)
    assert sample is not None
    assert len(sample) == 10
    assert sample == sample_start_numbers(1000, 10, 0) != sample_start_numbers(1000, 10, 1)
