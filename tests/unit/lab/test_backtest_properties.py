"""For any history, intervals are the seconds of exclusion, and both ways to weigh nodes agree."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, strategies as st

from lab.backtest.event_history import write_history
from lab.backtest.measurement import MeasurementPlan, measure_system
from lab.backtest.system_columns import SystemColumn
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import is_excluded, is_kickout_due
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_POLICY,
    RELAY_POLICY,
    CrynuxPolicy,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import build_changed_rules, fold_history
from tests.support.random_histories import any_histories, disturbed_histories, legal_histories

# So strict that one timeout excludes.
HARD = build_changed_rules(penalty=UNIT // 20)
# So strict that the first bad scores make a kickout due.
LOW = build_changed_rules(penalty=UNIT // 20, pool_size=2, kickout_below=6 * UNIT)
REMEMBERED = build_changed_rules(penalty=UNIT // 20, exclude_exit=UNIT // 2)


@dataclass(frozen=True)
class OneByOne:
    """The same policy, but every node is judged for every task separately."""

    policy: CrynuxPolicy
    name: str = "one by one"
    version: int = 1

    def create_evaluator(self) -> CrynuxPolicy:
        return self.policy.create_evaluator()


def measure_history(events, rules, policy, measurement_plan, blocks=(0, None)):
    with TemporaryDirectory() as folder:
        history = write_history(events, Path(folder) / "events", *blocks)
        return history, measure_system(
            SystemColumn("under test", rules, policy.name), policy, history, measurement_plan
        )


@given(legal_histories().filter(bool), st.sampled_from([HARD, REMEMBERED]), st.data())
@examples(60)
def test_node_is_excluded_exactly_within_its_exclusion_intervals(events, rules, data):
    history, measurement = measure_history(
        events, rules, CRYNUX_POLICY, MeasurementPlan(measures_task_spread=False)
    )
    if history.from_time == history.to_time:
        return
    second = data.draw(st.integers(history.from_time, history.to_time - 1))
    nodes = fold_history([event for event in events if event.time <= second], rules)[
        0
    ].ledger.nodes
    excluded = {key for key, node in nodes.items() if is_excluded(node, second, rules)}
    assert excluded == {
        interval.node
        for interval in measurement.intervals
        if interval.since <= second and (interval.until is None or second < interval.until)
    }


@given(legal_histories().filter(bool), st.data())
@examples(60)
def test_block_range_has_same_exclusions_and_kickouts_as_full_history(events, data):
    places = sorted({event.at.block for event in events})
    first, last = sorted(data.draw(st.tuples(st.sampled_from(places), st.sampled_from(places))))
    history, measurement = measure_history(
        events, LOW, CRYNUX_POLICY, MeasurementPlan(measures_task_spread=False), (first, last)
    )
    at = data.draw(st.sampled_from([place for place in places if first <= place <= last]))
    until_then = [event for event in events if event.at.block <= at]
    nodes = fold_history(until_then, LOW)[0].ledger.nodes
    second = until_then[-1].time
    excluded = {key for key, node in nodes.items() if is_excluded(node, second, LOW)}
    in_intervals = [
        interval
        for interval in measurement.intervals
        if interval.since <= second and (interval.until is None or second < interval.until)
    ]
    # A second that is only partly in the history counts for no node.
    if second < history.to_time:
        assert excluded == {interval.node for interval in in_intervals}
    assert all(
        interval.began_before == (interval.block < first) for interval in measurement.intervals
    )
    length = history.to_time - history.from_time
    assert all(0 < interval.seconds <= length for interval in measurement.intervals)
    assert {key for key, node in nodes.items() if is_kickout_due(node, LOW)} == {
        due.node
        for due in measurement.kickouts
        if due.block <= at and (due.closed_block is None or due.closed_block > at)
    }


@given(any_histories() | disturbed_histories(), st.sampled_from([CRYNUX_POLICY, RELAY_POLICY]))
@examples(60)
def test_candidate_pool_gives_the_same_measurement_as_its_policy(events, policy):
    if not events:
        return
    rules = {"crynux": CRYNUX, "relay": RELAY}[policy.name]
    fast, slow = (
        measure_history(events, rules, tested_policy, MeasurementPlan())[1]
        for tested_policy in (policy, OneByOne(policy))
    )
    assert fast == slow
