"""The statements of the article on Pocket's node selector with numbers and examples, each once.

docs/fidelity/ names the test of each statement. See
docs/reference/sources.md#pocket-node-selector.
"""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from gateway.sync_check import find_out_of_sync_nodes
from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.parameters import ARTICLE, PORTAL_API_HEAD, Parameters
from oracle.systems.pocket.pocket_policy import ARTICLE as ARTICLE_POLICY
from oracle.systems.pocket.ranking import Ranking
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from oracle.systems.policy import CandidateVerdict, PolicyInput
from tests.support.document.pocket_draws import pick_node
from tests.support.histories import History, fold_history, make_task_key

MINUTE = 60_000
CHAIN = "0021"
FAST = Address("fast")
SLOW = Address("slow")


class Session:
    """The relays of a session, in milliseconds; every node that relayed is in it."""

    def __init__(self, params: Parameters = ARTICLE) -> None:
        self.selector = NodeSelector(params)
        self.nodes: list[Address] = []

    def succeeds(self, node: str, latency: float, at: int = 0, times: int = 1) -> "Session":
        return self._relays(RelayOutcome(Address(node), CHAIN, at, OutcomeKind.OK, latency), times)

    def fails(self, node: str, at: int = 0, times: int = 1) -> "Session":
        return self._relays(RelayOutcome(Address(node), CHAIN, at, OutcomeKind.TIMEOUT), times)

    def ranking(self, now: int = 0) -> Ranking:
        return self.selector.rank_nodes(CHAIN, self.nodes, now)

    def tickets(self, now: int = 0) -> dict[str, int]:
        return {row.node: row.tickets for row in self.ranking(now).rows}

    def _relays(self, outcome: RelayOutcome, times: int) -> "Session":
        if outcome.node not in self.nodes:
            self.nodes.append(outcome.node)
        for _ in range(times):
            self.selector.record_outcome(outcome)
        return self


def session_of(*latencies: tuple[str, float], times: int = 5) -> Session:
    """Return a session in which each node succeeded this often at time 0, with this latency."""
    session = Session()
    for name, latency in latencies:
        session.succeeds(name, latency, times=times)
    return session


def verdicts(history: History) -> dict[str, CandidateVerdict]:
    """Return the verdict of the policy `article` on each member for the task `t`, by name."""
    fold, _ = fold_history(history)
    follower = ARTICLE_POLICY.create_evaluator()
    for event in history.events:
        follower.apply_event(event)
    policy_input = PolicyInput(fold.ledger.nodes, CRYNUX, history.time)
    candidate_verdicts = follower.evaluate_candidates(
        fold.ledger.tasks[make_task_key("t")], policy_input
    )
    return {
        bytes.fromhex(verdict.node[2:]).lstrip(b"\0").decode(): verdict
        for verdict in candidate_verdicts
    }


# Session members


def test_only_eligible_nodes_are_ranked():
    history = History().joins("free", "busy", "paused", gpu_vram=24, stake=1)
    history.joins("small", gpu_vram=8, stake=1).joins("unstaked", gpu_vram=24, stake=0)
    history.starts("other", "busy").pauses("paused").creates("t", min_vram=16)
    verdict_by_name = verdicts(history)
    assert [name for name, verdict in verdict_by_name.items() if verdict.weight is not None] == [
        "free"
    ]
    assert {verdict_by_name[name].reason for name in ("busy", "paused", "small", "unstaked")} == {
        "busy", "paused", "vram_too_small", "not_staked",
    }  # fmt: skip


def test_node_behind_latest_height_is_not_ranked():
    out = find_out_of_sync_nodes(
        {Address("fast"): 100, Address("slow"): 90, Address("new"): 100}, 5
    )
    ranking = session_of(("slow", 100)).selector.rank_nodes(CHAIN, [FAST, SLOW], 0, out)
    assert [row.node for row in ranking.rows] == [FAST]


def test_task_events_of_the_network_count_as_relays():
    history = History().joins("A", "B", stake=1)
    for n in range(3):
        history.starts(f"a{n}", "A").starts(f"b{n}", "B").after(1).submits(f"a{n}")
        history.succeeds(f"a{n}").after(4).submits(f"b{n}").succeeds(f"b{n}")
    for n in range(2):
        history.starts(f"late{n}", "A").times_out(f"late{n}")
    verdict_by_name = verdicts(history.creates("t"))
    assert (verdict_by_name["A"].parts["attempts"], verdict_by_name["A"].parts["median"]) == (
        "5",
        "1.00000",
    )
    assert (verdict_by_name["B"].parts["attempts"], verdict_by_name["B"].parts["median"]) == (
        "3",
        "5.00000",
    )


# The two data points


def test_failure_does_not_change_latency_of_its_node():
    session = session_of(("fast", 100)).fails("fast", 1_000)
    (row,) = session.ranking(1_000).rows
    assert (row.stats.median, row.stats.attempts) == (0.1, 6)


@pytest.mark.parametrize(("since", "counted"), [(5 * MINUTE - 1, 1), (5 * MINUTE, 0)])
def test_failures_expire_after_five_minutes(since, counted):
    session = Session().fails("fast").fails("slow", 4 * MINUTE)
    (row,) = (row for row in session.ranking(since).rows if row.node == FAST)
    assert row.stats.attempts == counted


def test_success_rate_and_weighted_latency_match_formulas():
    session = session_of(("fast", 200), times=25).fails("fast")
    (row,) = session.ranking().rows
    assert row.stats.success_rate == 25 / 26
    assert (row.stats.median, row.stats.weighted) == (0.2, 0.26)


def test_every_relay_changes_next_ranking():
    session = session_of(("fast", 100), ("slow", 300), times=1)
    assert session.tickets() == {"fast": 10, "slow": 5}
    assert session.succeeds("slow", 200, 1).tickets(1) == {"fast": 10, "slow": 6}


def test_one_slow_outlier_does_not_change_median():
    session = session_of(("fast", 100)).succeeds("fast", 60_000)
    assert session.ranking().rows[0].stats.median == 0.1


# Tickets


def test_latency_up_to_150_ms_gives_ten_tickets():
    session = session_of(("a", 42), ("b", 106), ("c", 150))
    assert set(session.tickets().values()) == {10}


def test_one_second_behind_preceding_node_costs_35_tickets():
    session = session_of(("first", 100), ("second", 194), ("third", 252))
    # 0.044 * 35 = 1.54 and 0.058 * 35 = 2.03, rounded: 2 and 2.
    assert session.tickets() == {"first": 10, "second": 8, "third": 6}


@pytest.mark.parametrize("times", [5, 50])
def test_slowest_node_has_only_one_ticket(times):
    assert session_of(("fast", 100), ("slow", 2_000), times=times).tickets()["slow"] == 1


def test_untested_node_has_full_weight():
    session = session_of(("fast", 100))
    session.nodes.append(Address("new"))
    assert session.tickets() == {"fast": 10, "new": 10}


def test_more_than_one_ticket_requires_success_rate_above_95_percent():
    session = Session().fails("fast").succeeds("fast", 100, 1_000, times=19)
    session.succeeds("slow", 100, 1_000)
    assert session.tickets(6_000)["fast"] == 1
    assert session.succeeds("fast", 100, 6_000).tickets(6_000)["fast"] == 10


# The raffle


def test_win_counts_are_proportional_to_tickets():
    ranking = session_of(("fast", 100), ("slow", 300), ("last", 2_000)).ranking()
    assert ranking.total == 16
    wins = Counter(pick_node(ranking, (n + 0.5) / 16) for n in range(16))
    assert wins == {"fast": 10, "slow": 5, "last": 1}


@given(st.floats(0, 1, exclude_max=True))
def test_same_random_number_picks_same_node(u):
    ranking = session_of(("fast", 100), ("slow", 300)).ranking()
    assert pick_node(ranking, u) == (FAST if u * 15 < 10 else SLOW)


# Failures


def test_failures_exclude_node_for_up_to_five_minutes():
    session = session_of(("fast", 100)).fails("slow", times=500)
    assert session.tickets(5 * MINUTE - 1)["slow"] == 0
    assert session.tickets(5 * MINUTE)["slow"] == 10


def test_exclusion_time_is_proportional_to_failures():
    session = session_of(("fast", 100)).fails("once", times=3).fails("twice", times=6)
    assert session.tickets(17_999) == {"fast": 10, "once": 0, "twice": 0}
    assert session.tickets(18_000) == {"fast": 10, "once": 1, "twice": 0}
    assert session.tickets(36_000) == {"fast": 10, "once": 1, "twice": 1}


def test_dead_node_keeps_ten_tickets_under_portal_api_head():
    session = Session(PORTAL_API_HEAD).fails("slow", times=50).succeeds("fast", 100)
    assert session.tickets() == {"slow": 10, "fast": 10}


def test_failing_nodes_are_candidates_when_all_nodes_are_failing():
    ranking = Session().fails("fast").fails("slow").ranking()
    assert ranking.degraded
    assert {row.node: row.chances for row in ranking.rows} == {FAST: 1, SLOW: 1}


def test_attempts_of_another_task_kind_do_not_count():
    history = History().joins("A", stake=1).creates("image", kind=TaskKind.SD).starts("image", "A")
    history.after(9).submits("image").succeeds("image").creates("t", kind=TaskKind.LLM)
    assert verdicts(history)["A"].parts["attempts"] == "0"
