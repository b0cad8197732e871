"""What the article on Pocket's node selector says with numbers and examples, once.

docs/fidelity/ says which statement is shown by which test.
See docs/reference/sources.md#pocket-node-selector.
"""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address
from oracle.systems.crynux.crynux_rule_sets import SEED
from oracle.systems.pocket.parameters import ARTICLE, PORTAL_API_HEAD, Parameters
from oracle.systems.pocket.picking import pick
from oracle.systems.pocket.pocket_policy import ARTICLE as ARTICLE_POLICY
from oracle.systems.pocket.ranking import Ranking, evaluate
from oracle.systems.pocket.record_scope import RecordScope
from oracle.systems.policy import CandidateVerdict, PolicyInput
from tests.support.histories import History, folded, task

MINUTE = 60.0
FAST, SLOW = Address("fast"), Address("slow")


def scope_of(
    *latencies: tuple[str, float], params: Parameters = ARTICLE, times: int = 5
) -> RecordScope:
    """Nodes that have each succeeded so many times at time 0 with their latency in seconds."""
    scope = RecordScope(params)
    for name, seconds in latencies:
        for _ in range(times):
            scope.succeeded(Address(name), seconds, 0)
    return scope


def ranking_of(scope: RecordScope, now: float = 0, names: tuple[str, ...] = ()) -> Ranking:
    """Evaluate, and let it have happened."""
    nodes = [Address(name) for name in names] or list(scope.records)
    ranking = evaluate(scope.records, nodes, now, scope.params)
    scope.apply(ranking.effects)
    return ranking


def tickets(scope: RecordScope, now: float = 0) -> dict[str, int]:
    return {row.node: row.tickets for row in ranking_of(scope, now).rows}


def verdicts(history: History) -> dict[str, CandidateVerdict]:
    """What the policy `article` says of each member about the task `t`, by name."""
    fold, _ = folded(history)
    follower = ARTICLE_POLICY.follow()
    for event in history.events:
        follower.take(event)
    policy_input = PolicyInput(fold.ledger.nodes, SEED, history.time)
    said = follower.verdicts(fold.ledger.tasks[task("t")], policy_input)
    return {bytes.fromhex(one.node[2:]).lstrip(b"\0").decode(): one for one in said}


# Who is in the session


def test_only_a_node_that_could_serve_is_ranked():
    history = History().joins("free", "busy", "paused", gpu_vram=24).joins("small", gpu_vram=8)
    history.starts("other", "busy").pauses("paused").creates("t", min_vram=16)
    said = verdicts(history)
    assert [name for name, one in said.items() if one.weight is not None] == ["free"]
    assert {said[name].out for name in ("busy", "paused", "small")} == {
        "busy", "paused", "vram_too_small",
    }  # fmt: skip


def test_events_of_a_network_are_its_relays():
    history = History().joins("A", "B")
    for n in range(3):
        history.starts(f"a{n}", "A").starts(f"b{n}", "B").after(1).submits(f"a{n}")
        history.succeeds(f"a{n}").after(4).submits(f"b{n}").succeeds(f"b{n}")
    for n in range(2):
        history.starts(f"late{n}", "A").times_out(f"late{n}")
    said = verdicts(history.creates("t"))
    assert (said["A"].parts["attempts"], said["A"].parts["median"]) == ("5", "1.00000")
    assert (said["B"].parts["attempts"], said["B"].parts["median"]) == ("3", "5.00000")


# The two data points


def test_a_failure_has_no_latency_and_leaves_the_others():
    scope = scope_of(("fast", 0.1))
    before = scope.records[FAST].median
    scope.failed(FAST, 1)
    assert scope.records[FAST].median == before
    assert len(scope.records[FAST].samples) == 5
    assert scope.records[FAST].failures == 1


@pytest.mark.parametrize(("since", "counted"), [(299, 1), (300, 0)])
def test_failures_are_forgotten_five_minutes_after_the_last_outcome(since, counted):
    scope = RecordScope(ARTICLE)
    scope.failed(FAST, 0)
    (row,) = ranking_of(scope, since).rows
    assert row.stats.attempts == counted


def test_success_rate_and_weighted_latency_are_what_the_formulas_say():
    scope = scope_of(("fast", 0.2), times=24)
    scope.failed(FAST, 0)
    scope.succeeded(FAST, 0.2, 0)
    (row,) = ranking_of(scope).rows
    assert row.stats.success_rate == 25 / 26
    assert (row.stats.median, row.stats.weighted) == (0.2, 0.26)


def test_every_relay_changes_the_next_ranking():
    scope = scope_of(("fast", 0.1), ("slow", 0.3), times=1)
    assert tickets(scope) == {"fast": 10, "slow": 5}
    scope.succeeded(SLOW, 0.2, 1)
    assert tickets(scope, 1) == {"fast": 10, "slow": 6}


def test_one_slow_outlier_does_not_move_a_median():
    scope = scope_of(("fast", 0.1))
    scope.succeeded(FAST, 60, 0)
    assert ranking_of(scope).rows[0].stats.median == 0.1


# Tickets


def test_latency_up_to_150_ms_is_the_top_tier_of_ten_tickets():
    scope = scope_of(("a", 0.042), ("b", 0.106), ("c", 0.15))
    assert set(tickets(scope).values()) == {10}


def test_the_next_node_loses_35_tickets_a_second_against_the_one_before():
    scope = scope_of(("first", 0.1), ("second", 0.194), ("third", 0.252))
    # 0.044 * 35 = 1.54 and 0.058 * 35 = 2.03, rounded: 2 and 2.
    assert tickets(scope) == {"first": 10, "second": 8, "third": 6}


def test_a_slow_node_has_one_ticket_and_with_fifty_attempts_none():
    assert tickets(scope_of(("fast", 0.1), ("slow", 2.0), times=5))["slow"] == 1
    assert tickets(scope_of(("fast", 0.1), ("slow", 2.0), times=50))["slow"] == 0


def test_a_new_node_has_full_weight():
    ranking = ranking_of(scope_of(("fast", 0.1)), names=("fast", "new"))
    assert {row.node: row.tickets for row in ranking.rows} == {"fast": 10, "new": 10}


def test_more_than_one_ticket_needs_success_above_95_in_100():
    scope = scope_of(("fast", 0.1), times=19)
    scope.failed(FAST, 0)
    assert tickets(scope) == {"fast": 1}
    scope.succeeded(FAST, 0.1, 0)
    assert tickets(scope) == {"fast": 10}


# The raffle


def test_everybody_with_a_ticket_wins_as_often_as_tickets_say():
    ranking = ranking_of(scope_of(("fast", 0.1), ("slow", 0.3), ("last", 2.0)))
    assert ranking.total == 16
    wins = Counter(pick(ranking, (n + 0.5) / 16) for n in range(16))
    assert wins == {"fast": 10, "slow": 5, "last": 1}


@given(st.floats(0, 1, exclude_max=True))
def test_the_same_number_picks_the_same_node(u):
    ranking = ranking_of(scope_of(("fast", 0.1), ("slow", 0.3)))
    assert pick(ranking, u) == (FAST if u * 15 < 10 else SLOW)


# Failures


def failing(params: Parameters, times: int) -> RecordScope:
    scope = scope_of(("fast", 0.1), params=params)
    for _ in range(times):
        scope.failed(SLOW, 0)
    return scope


def test_a_dead_node_is_out_for_up_to_five_minutes():
    scope = failing(ARTICLE, 50)
    assert tickets(scope) == {"fast": 10, "slow": 0}
    assert scope.records[SLOW].is_flagged(5 * MINUTE - 1)
    assert not scope.records[SLOW].is_flagged(5 * MINUTE)
    assert ranking_of(scope, 5 * MINUTE).row_of(SLOW) is not None
    assert tickets(scope, 5 * MINUTE)["slow"] == 10


def test_in_production_a_dead_node_keeps_ten_tickets():
    assert tickets(failing(PORTAL_API_HEAD, 50)) == {"slow": 10, "fast": 10}


@pytest.mark.parametrize("params", [ARTICLE, PORTAL_API_HEAD])
def test_a_node_with_one_success_is_never_flagged_however_often_it_fails(params):
    scope = failing(params, 100)
    scope.succeeded(SLOW, 0.1, 0)
    assert ranking_of(scope).row_of(SLOW) is not None
    assert not scope.records[SLOW].is_flagged(0)
    assert tickets(scope)["slow"] == 1


def test_where_all_fail_all_are_candidates():
    scope = RecordScope(ARTICLE)
    for name in (FAST, SLOW):
        for _ in range(50):
            scope.failed(name, 0)
    ranking = ranking_of(scope)
    assert ranking.degraded
    assert {row.node: row.chances for row in ranking.rows} == {FAST: 1, SLOW: 1}


def test_latencies_are_compared_within_a_kind_of_work_only():
    history = History().joins("A").creates("image", kind=TaskKind.SD).starts("image", "A")
    history.after(9).submits("image").succeeds("image").creates("t", kind=TaskKind.LLM)
    assert verdicts(history)["A"].parts["attempts"] == "0"
