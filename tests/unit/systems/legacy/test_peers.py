"""R, P, B, Q and the incentive among all nodes, in the cases that the formulas leave open."""

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.lanes import compute_kickout_line_steps
from oracle.domain.scoring.legacy_factors import (
    PopulationMaxima,
    compute_incentive_shares,
    compute_node_factors,
    compute_population_maxima,
    compute_promptness,
    compute_speed_factor,
    compute_vram_share,
)
from oracle.domain.scoring.node_scores import (
    compute_legacy_factors,
    compute_long_term_score,
    compute_node_qos,
    is_kickout_due,
)
from oracle.domain.state import Membership
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, fold_node, make_node_address
from tests.unit.systems.legacy.networks import (
    RULES,
    add_scores,
    legacy_with,
    member,
    ran,
    rules_with,
)

LEGACY = legacy_with()


def test_departed_node_does_not_count_as_peer():
    gone = add_scores(member("A", gpu_vram=80, timeout=900, membership=Membership.QUIT), 20, 1)
    assert compute_population_maxima(
        [gone, member("B", gpu_vram=8, timeout=60)], 0, RULES
    ) == PopulationMaxima(8, 60, 0)


def test_rules_other_than_legacy_have_no_peers():
    assert compute_population_maxima([member("A")], 0, CRYNUX) is None
    assert compute_legacy_factors(member("A"), 0, CRYNUX, None) is None
    assert compute_incentive_shares([member("A")], 0, CRYNUX) == {}


def test_legacy_score_without_peers_is_rejected():
    with pytest.raises(ValueError, match="`population_maxima` is required"):
        compute_node_qos(member("A"), 0, RULES)
    assert compute_node_qos(member("A", membership=Membership.QUIT), 0, RULES) is None


@pytest.mark.parametrize(("vram", "max_vram", "size"), [(None, 24, 0), (0, 0, 0), (24, 24, UNIT)])
def test_unknown_or_zero_video_memory_counts_as_zero(vram, max_vram, size):
    assert compute_vram_share(vram, PopulationMaxima(max_vram, 0, 0)) == size


@pytest.mark.parametrize(
    ("timeout", "longest", "promptness"),
    [
        (None, 300, 0),
        (60, 60, UNIT),
        # Shorter than the network allows.
        (30, 300, UNIT),
        (30, 50, UNIT),
        (300, 300, 0),
        (180, 300, UNIT // 2),
    ],
)
def test_node_with_shorter_timeout_has_higher_promptness(timeout, longest, promptness):
    assert compute_promptness(timeout, PopulationMaxima(0, longest, 0), LEGACY) == promptness


def test_speed_is_zero_without_peers_and_none_without_tasks():
    assert compute_speed_factor(0, PopulationMaxima(0, 0, 0)) == 0
    assert compute_speed_factor(None, PopulationMaxima(0, 0, UNIT)) is None


def test_missing_speed_counts_as_zero_in_sum():
    fresh = member("A", gpu_vram=8, timeout=60)
    old = add_scores(member("B"), 20, 1)
    peers = compute_population_maxima([fresh, old], 0, RULES)
    assert peers is not None
    assert compute_node_factors(fresh, 0, LEGACY, peers).speed is None
    assert compute_node_qos(fresh, 0, RULES, peers) == UNIT // 2
    assert compute_long_term_score(fresh, RULES, 0) == 0
    assert compute_long_term_score(add_scores(old, 33, 2), RULES, 0) == 33 * UNIT // 40


def test_incentive_shares_follow_online_time():
    nodes = [member(name, gpu_vram=8, timeout=60, online_since=0) for name in "ABC"]
    nodes[2].online_since = 30
    shares = compute_incentive_shares(nodes, 60, RULES)
    assert shares == {
        make_node_address("A"): UNIT * 2 // 5,
        make_node_address("B"): UNIT * 2 // 5,
        make_node_address("C"): UNIT // 5,
    }
    assert set(compute_incentive_shares(nodes, 0, RULES).values()) == {0}


def test_online_time_includes_pauses_within_window():
    history = History().joins("A").after(100).pauses("A").after(50).quits("A").after(1000)
    history.joins("A").after(7)
    tally = compute_node_factors(
        fold_node(history, "A", RULES), history.time, LEGACY, PopulationMaxima(0, 0, 0)
    ).tally
    assert tally.online_seconds == 157
    later = history.time + 31 * 86_400
    tally = compute_node_factors(
        fold_node(history, "A", RULES), later, LEGACY, PopulationMaxima(0, 0, 0)
    ).tally
    assert (tally.window, tally.online_seconds) == (1, later - 31 * 86_400)


def low():
    history = History().joins("A", "B", "C")
    for name in "123":
        ran(history, name, "BCA", "BCA")
    return history


def test_kickout_is_due_within_the_window_after_enough_low_scores():
    history = low()
    scored_node = fold_node(history, "A", RULES)
    assert scored_node.kickout_due_since == history.events[-1].at
    assert is_kickout_due(scored_node, RULES, history.time)
    assert is_kickout_due(scored_node, RULES)
    assert not is_kickout_due(scored_node, RULES, history.time + 31 * 86_400)
    assert not is_kickout_due(fold_node(low().quits("A"), "A", RULES), RULES)


def test_group_scores_can_make_a_kickout_due_like_round_scores():
    history = History().joins("A", "B", "C")
    for group in "xyz":
        names = [f"{group}{place}" for place in "ABC"]
        for name in names:
            history.starts(name, name[-1])
        for name in reversed(names):
            history.after(5).submits(name)
        history.closes(group, *names)
        for name in names:
            history.succeeds(name)
    scored_node = fold_node(history, "A", RULES)
    assert (scored_node.window_sum, scored_node.window_count) == (3 * 4, 3)
    assert is_kickout_due(scored_node, RULES, history.time)
    assert not is_kickout_due(fold_node(history, "B", RULES), RULES)


def test_node_with_score_at_kickout_line_is_not_due_for_kickout():
    scored_node = add_scores(member("A"), 21, 3)
    assert not is_kickout_due(scored_node, RULES, 0)
    assert is_kickout_due(add_scores(scored_node, 20, 3), RULES, 0)
    assert not is_kickout_due(add_scores(scored_node, 0, 2), RULES, 0)


def test_contract_kickout_line_follows_node_score_line():
    assert compute_kickout_line_steps(rules_with(kickout_below=4 * UNIT)) == 2000
    assert compute_kickout_line_steps(rules_with(kickout_below=20 * UNIT)) == 10_000
    assert compute_kickout_line_steps(CRYNUX) == 2000
