"""The differences between versions 1 and 2 of `crynux`: tests/vectors/seed-2.json."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_evidence import (
    compute_creator_spread,
    find_incident_hold_reason,
)
from oracle.domain.scoring.node_scores import (
    compute_reliability,
    is_below_kickout_threshold,
    is_kickout_due,
)
from oracle.domain.scoring.rule_fields import parse_fraction
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING, compute_weight
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import (
    History,
    build_changed_rules,
    fold_history,
    fold_node,
    make_node_address,
)
from tests.support.vectors import vectors_of
from tests.unit.domain.scoring.test_vectors_groups import build_history_of_times

_LEAVES = {
    "quit": History.quits,
    "slashed": History.is_slashed,
    "kicked_out": History.is_kicked_out,
}


def units(text: str) -> int:
    return parse_fraction("vector", text)


@vectors_of("error_rank", file="seed-2")
def test_errors_rank_behind_results(vector):
    _, changes = fold_history(build_history_of_times(vector["members"]))
    (result,) = changes.results
    expected = {make_node_address(name): score for name, score in vector["expected"].items()}
    assert {member.node: member.score for member in result.members} == expected


@vectors_of("coming_back", file="seed-2")
def test_rejoined_node_matches_vectors(vector):
    history = History().joins("A")
    # The timeouts of the zeros must heal before anything else is checked.
    history.scores("A", *vector["scores"]).after(10**7)
    for n in range(vector["timeouts"]):
        history.starts(f"late {n}", "A").times_out(f"late {n}")
    _LEAVES[vector["leaves"]](history, "A").after(vector["away_seconds"]).joins("A")
    rejoined_node = fold_node(history, "A")
    expected = vector["expected"]

    assert rejoined_node.pool == bytes(expected["pool"])
    # Vectors are rounded to nearest, the product rounds down at every step.
    assert (
        abs(compute_reliability(rejoined_node, history.time, CRYNUX) - units(expected["h"])) <= 2
    )
    assert is_kickout_due(rejoined_node, CRYNUX) is expected["kickout_due"]


@vectors_of("kickout_line", file="seed-2")
def test_kickout_line_matches_vectors(vector):
    rules = build_changed_rules(kickout_below=units(vector["kickout_below"]))
    assert is_below_kickout_threshold(vector["sum"], rules) is vector["due"]


@vectors_of("least_timeout", file="seed-2")
def test_timeout_with_a_too_short_limit_matches_vectors(vector):
    rules = build_changed_rules(least_timeout_seconds=vector["least_timeout_seconds"])
    history = History().joins("A", "B", "C").creates("1", "2", "3", timeout=vector["limit"])
    history.starts("1", "A").starts("2", "B").starts("3", "C").after(1).submits("2").submits("3")
    scored_node = fold_node(history.times_out("1").closes("g", "1", "2", "3"), "A", rules)
    assert scored_node.pool == bytes(vector["expected"]["pool"])
    assert scored_node.base == units(vector["expected"]["h"])


@vectors_of("creator_share", file="seed-2")
def test_kickout_is_held_when_single_creator_dominates_scores(vector):
    rules = build_changed_rules(kick_creator_share=units(vector["share"]))
    named: list[Address | None] = [
        make_node_address(f"creator {n}")
        for n, count in enumerate(vector["scores"])
        for _ in range(count)
    ]
    every = [*named, *[None] * vector["unknown"]]
    spread = compute_creator_spread([(creator, 0) for creator in every], rules)
    assert (spread.find_hold_reason(rules) is not None) is vector["held"]


@vectors_of("incident_share", file="seed-2")
def test_kickout_is_held_if_incidents_caused_too_many_zeros(vector):
    rules = build_changed_rules(kick_incident_share=units(vector["share"]))
    reason = find_incident_hold_reason(vector["scores"], vector["in_incidents"], rules)
    assert (reason is not None) is vector["held"]


@vectors_of("weight_floor", file="seed-2")
def test_eligible_node_weight_is_at_least_floor(vector):
    stake = units(vector["s"])
    qos = units(vector["qos"])
    assert compute_weight(UNIT, stake, qos, CRYNUX_WEIGHTING) == units(vector["weight"])
