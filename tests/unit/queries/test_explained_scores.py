"""The explanation begins with the result: a node's score and its reasons, in true sentences."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import ZERO_HASH
from oracle.domain.scoring.node_scores import (
    compute_exclusion_end_time,
    compute_long_term_score,
    compute_node_qos,
    compute_reliability,
    is_excluded,
)
from oracle.domain.scoring.rules import Rules
from oracle.queries.explain import Explanation
from oracle.queries.node_sentences import (
    NodeSummary,
    format_headline,
    format_improvement,
    format_secondary_details,
)
from oracle.queries.node_standing import build_node_summary_from_explanation, compute_score_costs
from oracle.queries.population import OnChainScores, Population
from oracle.queries.text.human_numbers import format_duration, format_time
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import History, make_node_address


def explain_after(history: History, rules: Rules = CRYNUX, later: int = 0) -> Explanation:
    """Explain the node A some seconds after a history, from the fold alone."""
    fold = Fold(rules)
    fold.fold_events(history.events)
    changes = fold.drain_changes()
    current_node = fold.ledger.nodes[make_node_address("A")]
    time = history.time + later
    scores = [entry for entry in changes.scores if entry.node == make_node_address("A")]
    population = Population(
        time, rules, peers=None, shares={}, on_chain=OnChainScores(None, ()), uses_feed=False
    )
    return Explanation(
        as_of=BlockRef(history.block, ZERO_HASH, ZERO_HASH, time),
        population=population,
        node=current_node,
        node_scores=population.compute_node_scores(current_node),
        place=1,
        scores=scores[len(scores) - min(len(scores), rules.pool_size) :],
        rule_set_by_score={},
        changes=[
            change for change in changes.reliability if change.node == make_node_address("A")
        ],
        kickouts=[],
        members_by_position={result.closed_at: result.members for result in changes.results},
        transaction_by_position={},
        task_by_key={},
        on_chain_lane=None,
        reported_lane=None,
        membership_change=next(
            (
                transition
                for transition in reversed(changes.memberships)
                if transition.node == make_node_address("A")
            ),
            None,
        ),
    )


def standing(history: History, rules: Rules = CRYNUX, later: int = 0) -> NodeSummary:
    """Return the sentences about A with its rank."""
    return replace(
        build_node_summary_from_explanation(explain_after(history, rules, later)),
        place=2,
        members=12,
    )


def build_race(*ranks: int, history: History | None = None) -> History:
    """Let A be first, second or third of three in consecutive groups; 0: no result."""
    history = history or History().joins("A", "B", "C")
    for group, rank in enumerate(ranks):
        names = [f"{group} {name}" for name in "ABC"]
        history.creates(*names)
        for name, on in zip(names, "ABC", strict=True):
            history.starts(name, on)
        other_names = [names[1], names[2]]
        order = (
            other_names
            if rank == 0
            else [*other_names[: rank - 1], names[0], *other_names[rank - 1 :]]
        )
        for name in order:
            history.after(1).submits(name)
        history.closes(f"group {group}", *names)
        for name in order:
            history.succeeds(name)
        if rank == 0:
            history.times_out(names[0])
    return history


def test_headline_states_that_the_node_was_always_first():
    assert (
        format_headline(standing(build_race(1, 1, 1)))
        == "First of three in all of its last three tasks."
    )


def test_headline_states_the_rank_of_most_tasks():
    history = build_race(3, 3, 3, 1)
    summary = standing(history)
    assert format_headline(summary) == "Third of three in three of its last four tasks."
    assert [cost.cause for cost in compute_score_costs(explain_after(history), summary)] == [
        "third of three in 3 of 4"
    ]


def test_headline_counts_ranks_if_none_has_a_majority():
    headline = format_headline(standing(build_race(1, 1, 2, 2, 3)))
    assert (
        headline == "Of its last five tasks it was first in two, second in two, and third in one."
    )


def test_exclusion_headline_shows_remaining_time():
    summary = standing(build_race(1, 0, 0, 0), later=5)
    headline = format_headline(summary)
    assert re.fullmatch(r"Excluded for .+ more: three timeouts in the last \d+ s\.", headline)
    assert format_secondary_details(summary).endswith("2nd of 12 nodes.")
    assert re.match(r"In \d+ .+ it can be given tasks again", format_improvement(summary) or "")


def test_exclusion_ends_at_announced_time():
    explanation = explain_after(build_race(1, 0, 0, 0))
    back = compute_exclusion_end_time(explanation.node.base, explanation.node.since, CRYNUX)
    assert is_excluded(explanation.node, back - 1, CRYNUX)
    assert not is_excluded(explanation.node, back, CRYNUX)
    assert (
        f"Excluded for {format_duration(back - explanation.as_of.time)} more"
        in format_headline(build_node_summary_from_explanation(explanation))
    )


def test_each_node_status_has_its_own_headline():
    left = build_race(1).quits("A")
    slashed = build_race(1).is_slashed("A")
    assert format_headline(standing(left)) == f"It left the network on {format_time(left.time)}."
    slashed_at = f"Slashed on {format_time(slashed.time)}, and out of the network."
    assert format_headline(standing(slashed)) == slashed_at
    assert format_headline(standing(History().joins("A"))).startswith("No task was scored yet")
    paused = build_race(1).pauses("A")
    assert (
        format_headline(standing(paused))
        == f"Paused by its owner since {format_time(paused.time)}."
    )


def test_advice_states_the_number_of_first_places_needed():
    summary = standing(History().joins("A").scores("A", *[0] * 40, *[5] * 10))
    assert format_headline(summary).startswith("A kickout is due: its last 50 tasks brought 1.00")
    assert format_secondary_details(summary).startswith("At least 2.00 are needed.")
    # Ten points replace each of the oldest zeros; 50 points are missing.
    assert "five first places in a row would lift it above the threshold" in (
        format_improvement(summary) or ""
    )


@pytest.mark.parametrize("rules", [CRYNUX, RELAY])
@examples(60)
@given(ranks=st.lists(st.integers(0, 3), max_size=12), later=st.integers(0, 5_000), ends=st.data())
def test_every_node_state_has_valid_sentences_and_reasons(rules, ranks, later, ends):
    history = build_race(*ranks)
    departure = ends.draw(
        st.sampled_from(["stays", "quits", "pauses", "is_slashed", "is_kicked_out"])
    )
    if departure != "stays":
        getattr(history, departure)("A")
    explanation = explain_after(history, rules, later)
    as_said = standing(history, rules, later)
    for sentence in filter(
        None,
        (format_headline(as_said), format_secondary_details(as_said), format_improvement(as_said)),
    ):
        assert 0 < len(sentence) < 300
        assert sentence.endswith(".")
        assert not {"None", "  ", "(s)"} & {sentence[at : at + n] for n in (2, 3, 4)
                                           for at in range(len(sentence))}  # fmt: skip
    qos = compute_node_qos(explanation.node, explanation.as_of.time, rules)
    if qos is None:
        assert compute_score_costs(explanation, as_said) == []
        return
    costs = sum(cost.amount for cost in compute_score_costs(explanation, as_said))
    # Each part is rounded down separately.
    assert UNIT - 5 <= qos + costs <= UNIT + 5
    assert compute_long_term_score(explanation.node, rules, explanation.as_of.time) <= UNIT
    assert compute_reliability(explanation.node, explanation.as_of.time, rules) <= UNIT
