"""What a node keeps that leaves and joins again: leaving must never pay.

See docs/reference/scoring-rules.md#coming-back.
"""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_node_qos,
    compute_reliability,
    is_excluded,
    is_kickout_due,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.histories import (
    History,
    build_changed_rules,
    fold_history,
    fold_node,
    make_node_address,
)
from tests.unit.domain.fold.test_pending import in_one_transaction

LEAVING = (History.quits, History.is_slashed, History.is_kicked_out)
TO_THE_LETTER = build_changed_rules(rejoin_heals=True)
scores = st.lists(st.sampled_from((0, 2, 5, 10)), max_size=60)


def timed_out(history: History, times: int) -> History:
    for n in range(times):
        history.starts(f"late {n}", "A").times_out(f"late {n}")
    return history


@pytest.mark.parametrize("leaves", LEAVING)
def test_rejoining_does_not_restore_reliability(leaves):
    stayed = timed_out(History().joins("A"), 3)
    left = timed_out(History().joins("A"), 3)
    leaves(left, "A").after(1).joins("A")
    rejoined_node = fold_node(left, "A")
    assert is_excluded(rejoined_node, left.time, CRYNUX)
    for later in (left.time, left.time + 600, left.time + 10**5):
        assert compute_reliability(rejoined_node, later, CRYNUX) == compute_reliability(
            fold_node(stayed, "A"), later, CRYNUX
        )


def test_rejoin_is_not_recorded_as_a_reliability_change():
    _, changes = fold_history(timed_out(History().joins("A"), 1).quits("A").joins("A"))
    assert [change.cause for change in changes.reliability] == ["joined", "timed_out"]


@pytest.mark.parametrize("leaves", LEAVING)
@given(
    scores.filter(lambda drawn_scores: len(drawn_scores) < 50 or sum(drawn_scores[-50:]) >= 100)
)
def test_rejoining_node_keeps_its_scores_if_no_kickout_is_due(leaves, given_scores):
    history = leaves(History().joins("A").scores("A", *given_scores), "A").after(9).joins("A")
    assert fold_node(history, "A").pool == bytes(given_scores[-50:])


@given(scores, st.sampled_from(LEAVING), st.integers(0, 5000), st.integers(0, 5000))
def test_rejoining_never_improves_qos(given_scores, leaves, away, later):
    """The exception is a node that was kicked out while due: it needs a readmission."""
    stayed = History().joins("A").scores("A", *given_scores)
    left = History().joins("A").scores("A", *given_scores)
    was_due = is_kickout_due(fold_node(left, "A"), CRYNUX)
    leaves(left, "A").after(away).joins("A")
    time = left.time + later
    back, remained = (fold_node(history, "A") for history in (left, stayed))
    if was_due and leaves is History.is_kicked_out:
        assert compute_node_qos(back, time, CRYNUX) == UNIT // 2
    else:
        assert compute_node_qos(back, time, CRYNUX) == compute_node_qos(remained, time, CRYNUX)


def test_rejoin_after_due_kickout_clears_pool_and_reliability():
    history = History().joins("A").scores("A", *[0] * 50).is_kicked_out("A")
    assert fold_node(history, "A").pool == bytes(50)

    history.after(1).joins("A")
    rejoined_node = fold_node(history, "A")
    assert (rejoined_node.pool, rejoined_node.base, rejoined_node.since) == (
        b"",
        UNIT,
        history.time,
    )
    assert not is_kickout_due(rejoined_node, CRYNUX)
    # Only once: the next quit and join have no such effect.
    history.scores("A", 2).is_kicked_out("A").joins("A")
    assert fold_node(history, "A").pool == bytes([2])


def test_kickout_stays_due_if_the_node_quits_and_rejoins():
    history = History().joins("A").scores("A", *[0] * 50)
    opened_at = fold_node(history, "A").kickout_due_since
    history.quits("A").after(3600).joins("A")
    rejoined_node = fold_node(history, "A")
    assert opened_at is not None
    assert rejoined_node.kickout_due_since == opened_at
    assert compute_long_term_score(rejoined_node, CRYNUX, history.time) == 0


def test_kickout_in_the_same_transaction_as_quit_clears_the_pool():
    """A network may emit both events: the quit does not end the due kickout."""
    history = History().joins("A").scores("A", *[0] * 50).starts("1", "A").asks_to_quit("A")
    events = in_one_transaction(history.after(12).aborts("1").is_kicked_out("A"), 2)
    join = history.after(12).joins("A").events[-1]
    fold, changes = fold_history([*events, join])
    assert changes.anomalies == []
    assert fold.ledger.nodes[make_node_address("A")].pool == b""


def test_late_score_does_not_restore_a_cleared_pool():
    history = History().joins("A").scores("A", *[0] * 50).starts("1", "A").is_kicked_out("A")
    history.after(1).submits("1").closes("g", "1").joins("A")
    assert fold_node(history, "A").pool == b""


def test_rejoin_restores_reliability_if_the_rules_say_so():
    history = timed_out(History().joins("A"), 3).quits("A").after(1).joins("A")
    rejoined_node = fold_node(history, "A", TO_THE_LETTER)
    assert (rejoined_node.base, rejoined_node.since) == (UNIT, history.time)
    assert fold_node(history, "A", RELAY).base == UNIT


def test_relay_keeps_pool_after_kickout():
    history = History().joins("A").scores("A", *[0] * 50).is_kicked_out("A").joins("A")
    assert fold_node(history, "A", RELAY).pool == bytes(50)
    _, changes = fold_history(history, RELAY)
    opened = [interval for interval in changes.kickouts if interval.node == make_node_address("A")]
    assert opened[-1].closed_at is None
