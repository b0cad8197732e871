"""The statements of the legacy QoS document with numbers and examples, each once.

docs/fidelity/ names the test of each statement. See docs/reference/sources.md#crynux-qos-of-2024.
"""

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.group_ranking import split_fee_by_scores
from oracle.domain.scoring.legacy_factors import (
    Factors,
    compute_incentive_shares,
    compute_node_factors,
    compute_population_maxima,
)
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.node_scores import (
    compute_node_qos,
    count_effective_scores,
    is_kickout_due,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems.crynux.requirements import build_requirement, find_misfit_reason
from oracle.systems.registry import build_rules
from tests.support.histories import (
    GENESIS_TIME,
    History,
    fold_history,
    make_node_address,
    make_task_key,
)

# None of these numbers was published
# (docs/explanation/crynux.md#contradictions-between-the-sources), so they are round numbers.
CHOSEN = {
    "legacy.vram_weight": "0.25",
    "legacy.timeout_weight": "0.25",
    "legacy.speed_weight": "0.5",
    "legacy.least_timeout_seconds": "60",
    "legacy.kickout_below": "7",
    "legacy.kickout_tasks": "3",
}
RULES = build_rules("legacy", CHOSEN)
IN_MARCH, IN_APRIL = (int(datetime(2024, month, 1, tzinfo=UTC).timestamp()) for month in (3, 4))


def legacy() -> LegacyRules:
    assert RULES.legacy is not None
    return RULES.legacy


def runs(history: History, name: str, *nodes: str, silent: tuple[str, ...] = ()) -> History:
    """Run a task on three nodes that commit and disclose in the given order, a second apart."""
    for place, on in enumerate((*nodes, *silent)):
        history.starts(name, on, place=place)
    for on in nodes:
        history.after(1).commits(name, on)
    for on in nodes:
        history.after(1).discloses(name, on)
    return history.succeeds(name) if nodes else history.aborts(name)


def nodes_after(history: History, rules: Rules = RULES) -> dict[str, Node]:
    fold, _ = fold_history(history, rules)
    address_node_pairs = fold.ledger.nodes.items()
    return {
        bytes.fromhex(address[2:]).lstrip(b"\0").decode(): ledger_node
        for address, ledger_node in address_node_pairs
    }


def factors(history: History, name: str) -> Factors:
    node_by_name = nodes_after(history)
    peers = compute_population_maxima(node_by_name.values(), history.time, RULES)
    assert peers is not None
    return compute_node_factors(node_by_name[name], history.time, legacy(), peers)


def task_scores(history: History) -> dict[str, list[int]]:
    _, changes = fold_history(history, RULES)
    scores_by_name: dict[str, list[int]] = {}
    for entry in changes.scores:
        name = bytes.fromhex(entry.node[2:]).lstrip(b"\0").decode()
        scores_by_name.setdefault(name, []).append(entry.score)
    return scores_by_name


# The three scores


def test_factors_and_sum_match_formulas():
    history = History().joins("A", gpu_vram=24, timeout=120).joins("B", gpu_vram=8, timeout=60)
    history.joins("C", gpu_vram=16, timeout=300)
    runs(history, "t", "B", "A", "C")
    node_factors = factors(history, "A")
    # Node scores 20, 10 and 4; V 24 of 24; O 120 between 60 and 300.
    assert (node_factors.size, node_factors.promptness) == (UNIT, 3 * UNIT // 4)
    assert node_factors.speed == UNIT // 2
    assert node_factors.combined == UNIT // 4 + 3 * UNIT // 16 + UNIT // 4
    assert factors(history, "B").size == UNIT // 3


def test_node_with_shorter_timeout_has_higher_promptness():
    history = History()
    for seconds in (60, 120, 180, 300):
        history.joins(str(seconds), timeout=seconds)
    promptness_values = [
        factors(history, str(seconds)).promptness for seconds in (60, 120, 180, 300)
    ]
    assert promptness_values == [UNIT, 3 * UNIT // 4, UNIT // 2, 0]


def test_equal_memory_gives_equal_size_factor():
    history = History().joins("new", gpu_name="RTX 4060", gpu_vram=8)
    history.joins("old", gpu_name="RTX 3060", gpu_vram=8).joins("big", gpu_vram=24)
    assert factors(history, "new").size == factors(history, "old").size == UNIT // 3


def test_gpu_with_6_gb_does_not_fit_task_that_needs_12_gb():
    history = History().joins("6", gpu_vram=6).joins("12", gpu_vram=12).creates("t", min_vram=12)
    fold, _ = fold_history(history, RULES)
    requirement = build_requirement(fold.ledger.tasks[make_task_key("t")])
    fits = [
        find_misfit_reason(fold.ledger.nodes[make_node_address(name)], requirement)
        for name in ("6", "12")
    ]
    assert fits == ["vram_too_small", None]


# Submission speed


def test_each_round_is_scored_by_its_submission_order():
    history = History()
    for place, name in enumerate("ABC"):
        history.starts("t", name, place=place)
    for name in "ABC":
        history.after(1).commits("t", name)
    for name in "CA":
        history.after(1).discloses("t", name)
    # 10 and 5; 5 and silent; 2 and 10.
    assert task_scores(history.succeeds("t")) == {"A": [15], "B": [5], "C": [12]}


def test_task_without_submissions_is_not_scored():
    history = runs(History().joins("A", "B", "C"), "t", silent=("A", "B", "C"))
    assert task_scores(history) == {}
    assert factors(history, "A").speed is None
    history = runs(history, "u", "A", silent=("B", "C"))
    assert task_scores(history) == {"A": [20], "B": [0], "C": [0]}


def test_node_score_changes_at_task_end():
    history = History().joins("A", "B", "C")
    node_scores = []
    for n, order in enumerate(("ABC", "BAC", "BCA")):
        runs(history, str(n), *order)
        node_scores.append(factors(history, "A").tally.node_score)
    assert node_scores == [20 * UNIT, 15 * UNIT, 34 * UNIT // 3]


def test_new_month_resets_node_score():
    history = History().joins("A", "B", "C").after(IN_MARCH - GENESIS_TIME)
    runs(history, "t", "A", "B", "C")
    assert factors(history, "A").tally.node_score == 20 * UNIT
    history.after(IN_APRIL - 1 - history.time)
    assert factors(history, "A").tally.node_score == 20 * UNIT
    assert factors(history.after(1), "A").tally.node_score is None


def test_scores_are_reset_at_the_end_of_a_window_given_in_seconds():
    rules = build_rules("legacy", CHOSEN | {"legacy.window_seconds": "100"})
    history = runs(History().joins("A", "B", "C"), "t", "A", "B", "C")
    assert count_effective_scores(nodes_after(history, rules)["A"], history.time, rules) == 1
    later = history.time // 100 * 100 + 100
    assert count_effective_scores(nodes_after(history, rules)["A"], later, rules) == 0


def test_node_without_a_task_in_the_window_has_no_speed():
    history = runs(History().joins("A", "B", "C", "idle"), "t", "A", "B", "C")
    assert [factors(history, name).speed for name in ("A", "idle")] == [UNIT, None]
    assert not factors(history, "idle").tally.tasks


# Uses of the scores


@pytest.mark.parametrize(
    ("scores", "shares"), [((20, 10, 4), [588, 294, 118]), ((20, 0, 0), [1000, 0, 0])]
)
def test_fee_is_split_by_task_scores(scores, shares):
    assert split_fee_by_scores(1000, scores) == shares


def test_node_below_line_with_enough_tasks_is_due_for_kickout():
    history = History().joins("A", "B", "C")
    for n in range(2):
        runs(history, str(n), "A", "B", "C")
    assert not is_kickout_due(nodes_after(history)["C"], RULES)
    node_by_name = nodes_after(runs(history, "3", "A", "B", "C"))
    assert [name for name in node_by_name if is_kickout_due(node_by_name[name], RULES)] == ["C"]


def test_silent_node_scores_0_and_becomes_due_for_kickout():
    history = runs(History().joins("A", "B", "off"), "good", "off", "A", "B")
    due = []
    for n in range(4):
        runs(history, str(n), "A", "B", silent=("off",))
        due.append(is_kickout_due(nodes_after(history)["off"], RULES))
    # Means of 10, 6 2/3, 5 and 4; at least three tasks.
    assert due == [False, True, True, True]


def test_month_of_low_scores_makes_a_node_due_for_kickout():
    history = History().joins("A", "B", "off")
    for n in range(3):
        runs(history, str(n), "A", "B", silent=("off",))
        _, changes = fold_history(history, RULES)
        low = [kickout.node for kickout in changes.kickouts if kickout.closed_at is None]
        assert low == ([make_node_address("off")] if n == 2 else [])


def test_reported_qos_is_weighted_sum_of_factors():
    history = History().joins("A", "B", "C", gpu_vram=8, timeout=60)
    node_by_name = nodes_after(runs(history, "t", "A", "B", "C"))
    peers = compute_population_maxima(node_by_name.values(), history.time, RULES)
    qos_by_name = {
        name: compute_node_qos(scored_node, history.time, RULES, peers)
        for name, scored_node in node_by_name.items()
    }
    # 0.25 of R and P each, and half of a B of 1, 1/2 and 1/5.
    assert qos_by_name == {"A": UNIT, "B": 3 * UNIT // 4, "C": 6 * UNIT // 10}


def test_incentives_follow_score_and_online_time():
    history = History().joins("A", "B", "C", gpu_vram=8, timeout=60)
    runs(history, "t", "A", "B", "C").after(1000).quits("C")
    shares = compute_incentive_shares(nodes_after(history).values(), history.time, RULES)
    assert shares.keys() == {make_node_address("A"), make_node_address("B")}
    # At equal times Q decides: 0.25 + 0.25 + 0.5 against 0.25 + 0.25 + 0.25.
    assert Fraction(
        shares[make_node_address("A")], shares[make_node_address("B")]
    ) == pytest.approx(Fraction(4, 3))
    later = history.joins("C").after(1000)
    grown = compute_incentive_shares(nodes_after(later).values(), later.time, RULES)
    assert 0 < grown[make_node_address("C")] < grown[make_node_address("B")]
