"""The sentences about a node: the result first, and true for every history."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ReliabilityChange
from oracle.domain.ids import Address
from oracle.domain.scoring.node_figures import NODE_STATES, compute_node_scores
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.queries.advice.kickout_outlook import KickoutOutlook
from oracle.queries.api.lifting import NO_LIFT, NodeLift
from oracle.queries.node_sentences import (
    NodeSummary,
    format_headline,
    format_improvement,
    format_secondary_details,
    format_short_cause,
)
from oracle.queries.text.reliability_decreases import name_decrease_causes
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, fold_node

NOW = 10_000
NODE = Address("A")


def build_timeouts(*times: int) -> tuple[ReliabilityChange, ...]:
    """Return a timeout at each time."""
    return tuple(
        ReliabilityChange(NODE, Position(1, 0, 0), time, ReliabilityCause.TIMED_OUT, None, UNIT, 0)
        for time in times
    )


FIGURES = replace(
    compute_node_scores(fold_node(History().joins("A"), "A"), NOW, CRYNUX),
    long_term=UNIT,
    qos=UNIT,
)
CALM = NodeSummary(
    node_scores=FIGURES,
    time=NOW,
    rules=CRYNUX,
    ranks=(1, 1, 1),
    points=10 * UNIT,
    group_size=3,
    decreases=(),
    place=1,
    members=12,
    lift=NO_LIFT,
)
EXCLUDED = {
    "state": "excluded",
    "back_at": NOW + 41,
    "decreases": build_timeouts(NOW - 300, NOW - 60),
    "reliability": UNIT // 20,
}


def calm_but(**changes: Any) -> NodeSummary:
    """Return the standing with other values, and other figures."""
    node_scores = {name: changes.pop(name) for name in FIGURES.__slots__ if name in changes}
    return replace(CALM, node_scores=replace(FIGURES, **node_scores), **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "First of three in all of its last three tasks."),
        ({"ranks": (3, 3, 1, 3, None)}, ("Third of three in three of its last five tasks, "
         "and no right answer in one.")),
        ({"ranks": (3, 3, 1), "group_size": None}, "Third in two of its last three tasks."),
        ({"ranks": (1, 2, 3, None)}, ("Of its last four tasks it was first in one, second in one, "
         "third in one, and gave no right answer in one.")),
        ({"ranks": (None, None)}, "Of its last two tasks it gave no right answer in two."),
        ({"ranks": ()}, "No task was scored yet, so it counts as an average node."),
        ({"state": "paused"}, "Paused by its owner."),
        (EXCLUDED, "Excluded for 41 s more: two timeouts in the last 5 min."),
        ({"decreases": build_timeouts(NOW - 60), "reliability": 3 * UNIT // 10},
         "One timeout in the last 60 s: reliability is down to 0.30."),
        ({"kick_at": NOW + 7_200, "is_kickout_due": True},
         "To be kicked out in 2 h, unless its scores rise."),
        ({"state": "kicked_out", "ranks": (3,) * 50, "points": 174 * UNIT // 100},
         "Kicked out: its last 50 tasks brought 1.74 points on average."),
    ],
)  # fmt: skip
def test_headline_matches_node_state(changes, expected):
    assert format_headline(calm_but(**changes)) == expected


def test_improvement_text_of_an_excluded_node_starts_with_waiting():
    lift = NO_LIFT.model_copy(update={"first_places": 1, "place_then": 11})
    summary = calm_but(state="excluded", back_at=NOW + 41, place=12, lift=lift)
    assert format_improvement(summary) == (
        "In 41 s it can be given tasks again; then one first place would make it the 11th of 12."
    )


def test_details_mention_reliability_if_it_costs_as_much_as_ranks():
    summary = calm_but(reliability=UNIT // 2)
    assert format_secondary_details(summary) == (
        f"Reliability, which {name_decrease_causes(CRYNUX)} lower, is down to 0.50 and recovers "
        "by itself. Best of 12 nodes."
    )


few = st.none() | st.integers(0, 200)
standings = st.builds(
    NodeSummary,
    node_scores=st.builds(
        replace,
        st.just(FIGURES),
        state=st.sampled_from(NODE_STATES),
        long_term=st.integers(0, UNIT),
        reliability=st.integers(0, UNIT),
        back_at=st.none() | st.integers(NOW, NOW * 100),
    ),
    time=st.just(NOW),
    rules=st.just(CRYNUX),
    ranks=st.lists(st.none() | st.integers(1, 9), max_size=50).map(tuple),
    points=st.integers(0, 10 * UNIT),
    group_size=st.none() | st.integers(1, 9),
    decreases=st.lists(st.integers(0, NOW), max_size=5).map(
        lambda times: build_timeouts(*sorted(times))
    ),
    place=st.none() | st.integers(1, 40),
    members=st.integers(1, 40),
    lift=st.builds(
        NodeLift, first_places=few, place_then=few, successes=few, timeouts=few, zeros=few
    ),
    kick_at=st.none() | st.integers(0, NOW * 100),
)


@given(standings)
def test_every_sentence_is_well_formed(summary):
    for text in (
        format_headline(summary),
        format_secondary_details(summary),
        format_improvement(summary) or "-.",
        format_short_cause(summary) + ".",
    ):
        if not text:
            continue
        assert len(text) < 300
        assert not re.search(r"None|  |\bone \w*[^s\W]s\b(?! in| of)|\(s\)", text), text
        assert text.endswith("."), text
    # Larger numbers are written in digits.
    assert format_headline(summary)[0].isupper() or format_headline(summary)[0].isdigit()


NEAR = KickoutOutlook(
    scores=11, seconds=2 * 86_400, recent_scores=20, first_places=2, second_places=6
)


@pytest.mark.parametrize(
    ("outlook", "headline", "improvement"),
    [
        (NEAR, "At this rate a kickout is due in eleven scored tasks, in about 2 days.",
         "Two first places or six second places in these tasks would avoid the kickout."),
        (NEAR.model_copy(update={"seconds": None, "scores": 1, "first_places": 1,
                                 "second_places": None}),
         "At this rate a kickout is due in one scored task.",
         "One first place in these tasks would avoid the kickout."),
        (NEAR.model_copy(update={"first_places": None, "second_places": None}),
         "At this rate a kickout is due in eleven scored tasks, in about 2 days.",
         "Not even first places in all of these tasks would avoid the kickout."),
    ],
)  # fmt: skip
def test_near_kickout_is_listed_first_with_remedy(outlook, headline, improvement):
    summary = calm_but(kickout=outlook, ranks=(3,) * 50, **EXCLUDED)
    assert format_headline(summary) == headline
    assert improvement.lower()[:-1] in (format_improvement(summary) or "").lower()
    assert "of its last 50 tasks" in format_secondary_details(summary).lower()


def test_distant_kickout_is_not_in_headline():
    summary = calm_but(kickout=NEAR.model_copy(update={"scores": 16}))
    assert format_headline(summary) == format_headline(CALM)
    assert "avoid" not in (format_improvement(summary) or "")
