"""The leaves of folded nodes state what the contract computes from them."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_review import KickoutReview, KickoutReviewer
from oracle.domain.reports.lanes import DO_NOT_SELECT, HIGHEST_SCORE
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf
from oracle.domain.roots.node_leaves import ScoringContext, build_node_leaf, build_scoring_context
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.examples import examples
from tests.support.histories import History, make_node_address
from tests.support.random_histories import any_histories

CONTRACT = Address("0x" + 40 * "c")
LATER = st.integers(0, 10_000)


def fold(events: list[DomainEvent], rules: Rules = CRYNUX) -> Fold:
    folded = Fold(rules)
    folded.fold_events(events)
    return folded


def not_held(_: Node) -> KickoutReview:
    return KickoutReview(None, has_dead_letter=False)


def context_of(
    folded: Fold, time: int, review_kickout: KickoutReviewer = not_held
) -> ScoringContext:
    return build_scoring_context(folded.ledger.nodes, time, folded.rules, review_kickout)


def leaf_of(
    history: History,
    name: str,
    time: int | None = None,
    review_kickout: KickoutReviewer = not_held,
) -> NodeLeaf:
    folded = fold(history.events)
    context = context_of(folded, time or history.time, review_kickout)
    return build_node_leaf(folded.ledger.nodes[make_node_address(name)], CONTRACT, context, keccak)


def zeros_of(name: str) -> History:
    history = History().joins(name)
    for _ in range(CRYNUX.pool_size):
        history = history.scores(name, 0)
    return history


@examples(40)
@given(any_histories(), LATER)
def test_lane_can_be_computed_from_the_other_fields_of_the_leaf(events, later):
    folded = fold(events)
    time = max((event.time for event in events), default=0) + later
    context = context_of(folded, time)
    for folded_node in folded.ledger.nodes.values():
        leaf = build_node_leaf(folded_node, CONTRACT, context, keccak)
        is_open = leaf.flags & (LeafFlag.MEMBER | LeafFlag.PAUSED | LeafFlag.EXCLUDED)
        if is_open != LeafFlag.MEMBER:
            assert leaf.lane == DO_NOT_SELECT
        elif leaf.score_count:
            mean = leaf.score_sum * UNIT // (leaf.score_count * CRYNUX.q_max)
            assert leaf.lane == mean * leaf.reliability // UNIT // 10**14 + 2
        else:
            assert DO_NOT_SELECT < leaf.lane < HIGHEST_SCORE


def test_leaf_of_new_member_has_no_score_and_full_reliability():
    leaf = leaf_of(History().joins("A", "B"), "B")

    assert (leaf.seat, leaf.flags, leaf.reliability) == (1, LeafFlag.MEMBER, UNIT)
    assert (leaf.score_count, leaf.score_sum, leaf.last_scored_at) == (0, 0, 0)
    assert leaf.pool_hash == keccak(b"")


def test_leaf_contains_the_times_of_its_last_score_and_due_kickout():
    history = zeros_of("A")
    leaf = leaf_of(history, "A", history.time + 5)

    assert leaf.score_count == CRYNUX.pool_size
    assert leaf.last_scored_at == leaf.kickout_due_since
    assert history.time - 60 < leaf.kickout_due_since <= history.time
    assert leaf.pool_hash == keccak(bytes(CRYNUX.pool_size))


def test_departed_node_keeps_its_leaf_and_seat():
    history = History().joins("A").scores("A", 10).quits("A")
    leaf = leaf_of(history, "A")

    assert (leaf.seat, leaf.flags, leaf.lane) == (0, LeafFlag(0), DO_NOT_SELECT)
    assert (leaf.score_count, leaf.score_sum) == (1, 10)


def test_held_kickout_is_flagged_in_leaf():
    history = zeros_of("A")
    free = leaf_of(history, "A")
    held = leaf_of(
        history, "A", review_kickout=lambda _: KickoutReview("why", has_dead_letter=False)
    )

    assert held == replace(free, flags=free.flags | LeafFlag.HELD)
    assert held.kickout_due_since > 0


@pytest.mark.parametrize("hold_reason", [None, "why"])
def test_kickout_is_not_due_if_its_evidence_has_a_dead_letter(hold_reason):
    history = zeros_of("A")
    free = leaf_of(history, "A")
    review = KickoutReview(hold_reason, has_dead_letter=True)

    assert leaf_of(history, "A", review_kickout=lambda _: review) == replace(
        free, kickout_due_since=0
    )


def test_only_due_kickouts_are_reviewed():
    def reject(_: Node) -> KickoutReview:
        raise AssertionError("no kickout is due")

    history = zeros_of("A").scores("A", *10 * [10])
    assert leaf_of(history, "A", review_kickout=reject).kickout_due_since == 0


def test_kickout_stays_due_in_the_leaf_of_a_node_that_quit():
    due = leaf_of(zeros_of("A"), "A")
    left = leaf_of(zeros_of("A").quits("A"), "A")

    assert left.kickout_due_since == due.kickout_due_since > 0
    assert left.flags == LeafFlag(0)
