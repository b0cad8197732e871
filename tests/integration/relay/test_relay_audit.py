"""A relay is held to its own rows: an honest one agrees, and each lie is found where it began."""

import pytest
from hypothesis import example, given, strategies as st

from devnet.relay.relay_cast import RelayLies
from devnet.relay.relay_faults import RelayFault
from oracle.queries.relay_audit.own_figures import compute_figures_from_rows
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


# A silent member of a group that stands beside rows which could be of two.
@example(seed=28289, seconds=310)
# One that worked between all polls, with so low an H that little of it is much of Q.
@example(seed=3317515398, seconds=1222)
# One that a timeout took to the very line of exclusion.
@example(seed=95464464, seconds=1497)
@given(seed=st.integers(0, 2**32), seconds=st.integers(300, 1500))
@examples(12)
def test_no_node_of_honest_relay_differs(seed: int, seconds: int):
    found = WatchedRelay(history_of(seconds + 400, seed=seed), START + seconds).audit()

    assert differing(found) == []
    assert found.count_verdicts(Verdict.AGREES) > 0


def test_fold_computes_same_figures_as_relay():
    history = history_of()
    own = compute_figures_from_rows(
        rows_of(history), {one.row.id: int(one.time) for one in history.rows}
    )

    told = {node: book.states[-1] for node, book in history.book_by_node.items()}
    is_exact = [
        one.compute_long_term() == pytest.approx(told[node].long_term)
        for node, one in own.nodes.items()
    ]
    assert is_exact.count(True) == len(told) - 1
    end = history.end_time
    assert {node: one.compute_health(end) for node, one in own.nodes.items()} == pytest.approx(
        {node: mark.compute_health(end) for node, mark in told.items()}, abs=0.001
    )


def test_swapped_scores_of_two_members_part_at_their_group():
    one, other = differing(audit_of(RelayLies(swapped_group=40)))

    assert one.parting is not None
    assert other.parting is not None
    assert (one.parting.kind, one.parting.row) == (other.parting.kind, other.parting.row)
    assert one.parting.kind == "rank"


def test_omitted_zero_is_reported_as_missing():
    lying = history_of(4200, RelayLies(forgotten_zero=3), seed=2)

    (found,) = differing(WatchedRelay(lying, START + 3600).audit())

    assert found.parting is not None
    assert found.parting.kind == "missing_zero"
    assert found.theirs is not None
    assert found.theirs > found.ours


def test_ambiguous_zero_is_no_difference():
    """Two nodes were silent near one group that lacks one: whose 0 it is, nobody can say."""
    found, forgetful = audit_of(), audit_of(RelayLies(forgotten_zero=4))

    assert differing(found) == differing(forgetful) == []
    (unproven,) = (one for one in found.nodes if one.verdict is Verdict.UNPROVEN)
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
def test_long_term_score_of_relay_lies_within_computed_bounds(
    seed: int, gap: float, groups: float, cancelled: float
):
    history = history_of(
        3600, seed=seed, gap_seconds=gap, group_share=groups, cancelled_share=cancelled
    )
    nodes = compute_figures_from_rows(rows_of(history), {}).nodes

    for address, book in history.book_by_node.items():
        lowest, highest = nodes[address].compute_long_term_bounds()
        assert lowest - 1e-9 <= book.states[-1].long_term <= highest + 1e-9
    if not cancelled:
        # Members that time out are told apart: most figures are the relay's own.
        exact = sum(
            nodes[address].compute_long_term() == pytest.approx(book.states[-1].long_term)
            for address, book in history.book_by_node.items()
        )
        assert 2 * exact > len(history.book_by_node)


def test_unpenalised_timeout_is_reported_at_its_row():
    lies = RelayLies(free_timeout=3)
    timeouts = [
        one
        for one in history_of(4800, lies).rows
        if one.row.type == "TaskEndAborted" and one.row.args["abort_reason"] == 1
    ]
    free = timeouts[2]

    (found,) = differing(audit_of(lies, int(free.time) - START + 60))

    assert found.parting is not None
    assert (found.parting.kind, found.parting.row) == ("penalty", free.row.id)


def test_unjustified_kickout_is_reported_at_its_row():
    lies = RelayLies(early_kick=50)
    rows = history_of(7800, lies).rows
    (kickout,) = [one.row for one in rows if one.row.type == "NodeKickedOut"]

    (found,) = differing(audit_of(lies))

    assert found.parting is not None
    assert (found.parting.kind, found.parting.row) == ("kick_without_cause", kickout.id)


def test_pools_lost_by_relay_restart_are_distinguished_from_false_scores():
    lies = RelayLies(restart_at=START + 5000.0)
    before = [one.row.id for one in history_of(7800, lies).rows if one.time <= lies.restart_at]

    found = differing(audit_of(lies))

    partings = {one.parting for one in found}
    (parting,) = partings
    assert len(found) > 2
    assert parting is not None
    assert parting.kind == "restart"
    assert parting.row == pytest.approx(before[-1], abs=20)


def test_audit_without_witness_proves_no_penalty():
    """Without a witness H is unknown: a lie about it is not seen, and nothing is made up."""
    found = audit_of(RelayLies(free_timeout=6), 1800, witness=False)

    assert differing(found) == []
    assert {one.our_health for one in found.nodes} == {None}


def test_history_without_beginning_proves_no_partial_pool():
    relay = WatchedRelay(history_of(2400), START + 2000)
    relay.faults.switch_on(RelayFault.RETENTION, 100)

    found = relay.audit()

    assert found.first_id == 101
    assert {one.verdict for one in found.nodes} == {Verdict.UNPROVEN}


def test_row_changed_between_polls_is_reported():
    class Turning(WatchedRelay):
        def wait(self, seconds: float) -> None:
            super().wait(seconds)
            self.faults.switch_on(RelayFault.CHANGED_ROW, 40)

    found = Turning(history_of(1200), START + 600).audit()

    assert found.changed == [40]
