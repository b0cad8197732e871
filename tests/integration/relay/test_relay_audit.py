"""The audit of a relay: an honest one agrees with its rows, and each lie is located."""

import pytest
from hypothesis import example, given, strategies as st

from devnet.relay.relay_nodes import RelayLies
from devnet.relay.stand_in_relay import RelayFault
from oracle.queries.relay_audit.own_figures import derive_figures_from_rows
from oracle.queries.relay_audit.relay_audit import Verdict
from tests.integration.relay.watched_relay import (
    START,
    WatchedRelay,
    audit_of,
    differing,
    history_of,
    rows_of,
)
from tests.support.examples import examples

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow


# A silent member of a group beside rows that may belong to two groups.
@example(seed=28289, seconds=310)
# A node that worked between all polls, with an H so low that a small error of H is a large one of
# Q.
@example(seed=3317515398, seconds=1222)
# A node that a timeout brought exactly to the line of exclusion.
@example(seed=95464464, seconds=1497)
@given(seed=st.integers(0, 2**32), seconds=st.integers(300, 1500))
@examples(12)
def test_audit_of_an_honest_relay_finds_no_differing_node(seed: int, seconds: int):
    audit = WatchedRelay(history_of(seconds + 400, seed=seed), START + seconds).audit()

    assert differing(audit) == []
    assert audit.count_verdicts(Verdict.AGREES) > 0


def test_fold_computes_the_same_figures_as_the_relay():
    history = history_of()
    own = derive_figures_from_rows(
        rows_of(history), {timed_row.row.id: int(timed_row.time) for timed_row in history.rows}
    )

    final_state_by_node = {
        node: state_history.states[-1]
        for node, state_history in history.state_history_by_node.items()
    }
    is_exact = [
        node_figures.compute_long_term_score()
        == pytest.approx(final_state_by_node[node].long_term)
        for node, node_figures in own.nodes.items()
    ]
    assert is_exact.count(True) == len(final_state_by_node) - 1
    end = history.end_time
    assert {
        node: node_figures.compute_reliability(end) for node, node_figures in own.nodes.items()
    } == pytest.approx(
        {node: mark.compute_reliability(end) for node, mark in final_state_by_node.items()},
        abs=0.001,
    )


def test_swapped_scores_are_reported_at_the_row_of_the_group():
    first_audit, second_audit = differing(audit_of(RelayLies(swapped_group=40)))

    assert first_audit.parting is not None
    assert second_audit.parting is not None
    assert (first_audit.parting.kind, first_audit.parting.row) == (
        second_audit.parting.kind,
        second_audit.parting.row,
    )
    assert first_audit.parting.kind == "rank"


def test_omitted_zero_score_is_reported_as_missing():
    lying = history_of(4200, RelayLies(forgotten_zero=3), seed=2)

    (node_audit,) = differing(WatchedRelay(lying, START + 3600).audit())

    assert node_audit.parting is not None
    assert node_audit.parting.kind == "missing_zero"
    assert node_audit.theirs is not None
    assert node_audit.theirs > node_audit.ours


def test_ambiguous_zero_is_not_reported_as_a_difference():
    """Two nodes were silent near one group that lacks a member:
    whose 0 it is cannot be determined.
    """
    audit = audit_of()
    forgetful = audit_of(RelayLies(forgotten_zero=4))

    assert differing(audit) == differing(forgetful) == []
    (unproven,) = (
        node_audit for node_audit in audit.nodes if node_audit.verdict is Verdict.UNPROVEN
    )
    assert unproven.theirs is not None
    assert unproven.theirs == pytest.approx(unproven.lowest, abs=unproven.slack)
    assert unproven.ours == unproven.highest > unproven.lowest


@given(
    seed=st.integers(0, 2**32),
    gap=st.floats(8, 40),
    groups=st.floats(0.1, 0.6),
    cancelled=st.sampled_from([0.0, 0.0, 0.1, 0.3]),
)
@examples(20)
def test_long_term_score_of_the_relay_is_within_the_computed_bounds(
    seed: int, gap: float, groups: float, cancelled: float
):
    history = history_of(
        3600, seed=seed, gap_seconds=gap, group_share=groups, cancelled_share=cancelled
    )
    nodes = derive_figures_from_rows(rows_of(history), {}).nodes

    for address, state_history in history.state_history_by_node.items():
        lowest, highest = nodes[address].compute_long_term_score_bounds()
        assert lowest - 1e-9 <= state_history.states[-1].long_term <= highest + 1e-9
    if not cancelled:
        # Members that time out can be distinguished, so most figures are those of the
        # relay.
        exact = sum(
            nodes[address].compute_long_term_score()
            == pytest.approx(state_history.states[-1].long_term)
            for address, state_history in history.state_history_by_node.items()
        )
        assert 2 * exact > len(history.state_history_by_node)


def test_timeout_without_a_penalty_is_reported_at_its_row():
    lies = RelayLies(free_timeout=3)
    timeouts = [
        timed_row
        for timed_row in history_of(4800, lies).rows
        if timed_row.row.type == "TaskEndAborted" and timed_row.row.args["abort_reason"] == 1
    ]
    free = timeouts[2]

    (node_audit,) = differing(audit_of(lies, int(free.time) - START + 60))

    assert node_audit.parting is not None
    assert (node_audit.parting.kind, node_audit.parting.row) == ("penalty", free.row.id)


def test_kickout_without_a_reason_is_reported_at_its_row():
    lies = RelayLies(early_kick=50)
    rows = history_of(7800, lies).rows
    (kickout,) = [timed_row.row for timed_row in rows if timed_row.row.type == "NodeKickedOut"]

    (node_audit,) = differing(audit_of(lies))

    assert node_audit.parting is not None
    assert (node_audit.parting.kind, node_audit.parting.row) == ("kick_without_cause", kickout.id)


def test_pools_lost_in_a_relay_restart_are_reported_as_a_restart():
    lies = RelayLies(restart_at=START + 5000.0)
    before = [
        timed_row.row.id
        for timed_row in history_of(7800, lies).rows
        if timed_row.time <= lies.restart_at
    ]

    differing_audits = differing(audit_of(lies))

    partings = {node_audit.parting for node_audit in differing_audits}
    (parting,) = partings
    assert len(differing_audits) > 2
    assert parting is not None
    assert parting.kind == "restart"
    assert parting.row == pytest.approx(before[-1], abs=20)


def test_audit_without_witness_proves_no_penalty():
    """Without a witness H is unknown: a lie about it is not detected, and none is reported."""
    audit = audit_of(RelayLies(free_timeout=6), 1800, witness=False)

    assert differing(audit) == []
    assert {node_audit.our_health for node_audit in audit.nodes} == {None}


def test_no_node_is_proven_if_the_start_of_history_is_missing():
    relay = WatchedRelay(history_of(2400), START + 2000)
    relay.faults.switch_on(RelayFault.RETENTION, 100)

    audit = relay.audit()

    assert audit.first_id == 101
    assert {node_audit.verdict for node_audit in audit.nodes} == {Verdict.UNPROVEN}


def test_row_that_changes_between_polls_is_reported():
    class Turning(WatchedRelay):
        def wait(self, seconds: float) -> None:
            super().wait(seconds)
            self.faults.switch_on(RelayFault.CHANGED_ROW, 40)

    audit = Turning(history_of(1200), START + 600).audit()

    assert audit.changed == [40]
