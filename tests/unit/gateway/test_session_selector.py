"""The node that a session's relay is sent to, which anyone can recompute."""

from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from gateway.gateway_records import ReportedOutcome
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckRules, NodeChecks, ProbeAnswer
from gateway.session_selector import (
    NoCandidatePassesError,
    NodeSelection,
    SelectionRequest,
    SelectorHooks,
    SessionSelector,
)
from oracle.domain.ids import Address
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.parameters import ARTICLE
from oracle.systems.pocket.relay_outcomes import OutcomeKind
from tests.support.document.pocket_draws import compute_unit_draw, pick_nodes
from tests.support.examples import examples
from tests.unit.gateway.relays import (
    CHAIN,
    NODES,
    T0,
    build_failure,
    build_request,
    histories,
    make_outcome,
    return_counting_seeds,
    selector,
)

NOW = T0 + 400_000
SEED = (1).to_bytes(32, "big")


@given(histories(), st.integers(1, 7))
@examples(100)
def test_draws_match_reference_selector(history: list[ReportedOutcome], max_nodes: int):
    plain = NodeSelector(ARTICLE)
    session_selector = selector(ranking_ms=0)
    for reported_outcome in history:
        plain.record_outcome(reported_outcome.outcome)
        session_selector.record_outcomes([reported_outcome], reported_outcome.outcome.t_ms)

    done = session_selector.select_nodes(build_request(max_nodes=max_nodes), NOW)

    ranking = plain.rank_nodes(CHAIN, map(Address, NODES), NOW)
    expected_nodes = pick_nodes(
        ranking, [compute_unit_draw(done.epoch.seed, "s", n) for n in range(max_nodes)]
    )
    assert done.nodes == expected_nodes
    assert done.ranking.ranking.rows == ranking.rows


def repeat_draw(done: NodeSelection) -> str:
    """Repeat the draw of a node as described in docs/explanation/gateway.md,
    independently of the product.
    """
    draw = sha256(done.epoch.seed + b"s" + done.counter.to_bytes(8, "big")).digest()
    total = sum(tickets for _, tickets in done.ranking.chances)
    number = int.from_bytes(draw[:8], "big") * total // 2**64
    for node, tickets in done.ranking.chances:
        if number < tickets:
            return node
        number -= tickets
    raise AssertionError("nobody holds it")


def test_draw_is_reproducible_from_seed_session_and_counter():
    session_selector = selector()
    session_selector.record_outcomes(
        [make_outcome(node, latency=100.0 * n) for n, node in enumerate(NODES, 1)], T0
    )
    done = [session_selector.select_nodes(build_request(), T0) for _ in range(50)]
    assert [selection.nodes for selection in done] == [
        [repeat_draw(selection)] for selection in done
    ]
    assert [selection.counter for selection in done] == list(range(50))


def test_node_is_selected_in_proportion_to_its_tickets():
    # docs/explanation/pocket.md: 0.1 s and 0.2 s are 10 and 8 tickets.
    session_selector = selector()
    session_selector.record_outcomes(
        [make_outcome("fast"), make_outcome("slow", latency=200.0)], T0
    )
    won = Counter(
        session_selector.select_nodes(build_request("fast", "slow"), T0).nodes[0]
        for _ in range(9_000)
    )
    assert abs(won["fast"] - 5_000) < 250


def test_failed_node_is_not_selected_for_six_seconds():
    session_selector = selector(ranking_ms=0)
    session_selector.record_outcomes([build_failure("a"), make_outcome("b")], T0)
    for later, drawn in ((0, {"b"}), (5_999, {"b"}), (6_000, {"a", "b"})):
        selected_nodes = {
            session_selector.select_nodes(build_request("a", "b"), T0 + later).nodes[0]
            for _ in range(200)
        }
        assert selected_nodes == drawn


def test_all_nodes_have_equal_chances_when_all_of_them_failed():
    session_selector = selector()
    session_selector.record_outcomes([build_failure("a"), build_failure("b")], T0)
    done = session_selector.select_nodes(build_request("a", "b"), T0)
    assert done.ranking.degraded
    assert done.ranking.chances == (("a", 1), ("b", 1))


def test_excluded_node_is_not_selected_on_retry():
    session_selector = selector()
    request = build_request("a", "b")._replace(exclude=("a",))
    assert {session_selector.select_nodes(request, T0).nodes[0] for _ in range(50)} == {"b"}


def test_retry_with_only_failed_nodes_left_is_degraded():
    session_selector = selector()
    session_selector.record_outcomes([build_failure("b"), build_failure("c")], T0)
    done = session_selector.select_nodes(build_request("a", "b", "c")._replace(exclude=("a",)), T0)
    assert done.nodes[0] in {"b", "c"}
    assert done.ranking.degraded


def test_no_node_is_selected_if_all_candidates_are_excluded():
    request = build_request("a")._replace(exclude=("a",))
    assert selector().select_nodes(request, T0).nodes == []


def test_ranking_is_cached_for_configured_milliseconds():
    session_selector = selector(ranking_ms=100)
    assert session_selector.get_ranking(build_request("a"), T0).as_of == T0
    assert session_selector.get_ranking(build_request("a"), T0 + 99).as_of == T0
    assert session_selector.get_ranking(build_request("a"), T0 + 100).as_of == T0 + 100


def test_ranking_cache_size_is_limited():
    session_selector = selector(max_rankings=10)
    for number in range(100):
        session_selector.get_ranking(build_request("a", session=str(number)), T0)
    assert len(session_selector._rankings) == 10


@pytest.mark.parametrize("kind", [OutcomeKind.EXHAUSTED, OutcomeKind.SESSION_INVALID])
def test_ended_session_excludes_node_only_for_that_session(kind: OutcomeKind):
    session_selector = selector(ranking_ms=0)
    session_selector.record_outcomes([make_outcome("a", kind=kind, session="over")], T0)
    over = session_selector.get_ranking(build_request("a", "b", session="over"), T0)
    assert over.ranking.left_out == {"a": "session_ended"}
    assert (
        session_selector.get_ranking(build_request("a", "b", session="other"), T0).ranking.left_out
        == {}
    )
    assert (
        session_selector.get_ranking(
            build_request("a", session="over"), T0 + 3_600_000
        ).ranking.left_out
        == {}
    )


def build_checked_selector(*, all_where_none_passes: bool = True) -> SessionSelector:
    """Return a selector for which node `a` passes the checks and `b` is on another chain."""
    rules = CheckRules(chain_id=1, allows_degraded_draw=all_where_none_passes)
    checks = NodeChecks(rules)
    checks.apply_probe_answers({"a": ProbeAnswer(1, 100), "b": ProbeAnswer(2, 100)}, T0)
    return SessionSelector(GatewayRules(ranking_ms=0), {CHAIN: checks}, return_counting_seeds())


def test_node_that_fails_its_check_is_left_out_with_a_reason():
    session_ranking = build_checked_selector().get_ranking(build_request("a", "b"), T0)
    assert session_ranking.chances == (("a", 10),)
    assert session_ranking.ranking.left_out == {"b": "wrong_chain"}


def test_draw_is_degraded_if_no_node_passes_its_check():
    session_ranking = build_checked_selector().get_ranking(build_request("b"), T0)
    assert session_ranking.chances == (("b", 10),)
    assert session_ranking.degraded


def test_no_node_is_drawn_if_degraded_draws_are_disabled():
    with pytest.raises(NoCandidatePassesError):
        build_checked_selector(all_where_none_passes=False).get_ranking(build_request("b"), T0)


def test_node_without_stake_is_not_drawn_even_if_degraded():
    checks = NodeChecks(CheckRules(chain_id=1, needs_stake=True))
    checks.apply_probe_answers({"a": ProbeAnswer(2, 1), "b": ProbeAnswer(2, 1)}, T0)
    session_selector = SessionSelector(
        GatewayRules(ranking_ms=0), {CHAIN: checks}, return_counting_seeds()
    )
    with pytest.raises(NoCandidatePassesError):
        session_selector.get_ranking(build_request("a", "b"), T0)
    checks.staked_nodes = frozenset({"a"})
    session_ranking = session_selector.get_ranking(build_request("a", "b"), T0)
    assert (session_ranking.chances, session_ranking.degraded) == ((("a", 10),), True)


def test_passed_check_restores_the_node_and_is_stored():
    stored: list[tuple[str, list[str], int]] = []
    hooks = SelectorHooks(
        on_passed_checks=lambda chain, nodes, now: stored.append((chain, list(nodes), now))
    )
    session_selector = SessionSelector(
        GatewayRules(ranking_ms=0), hooks=return_counting_seeds(hooks)
    )
    session_selector.record_outcomes([build_failure("a"), make_outcome("b")], T0)

    session_selector.record_passed_checks(CHAIN, ["a", "b", "never heard of"], T0 + 3_000)

    assert session_selector.get_ranking(build_request("a"), T0 + 3_000).chances == (("a", 1),)
    # The other sessions had nothing to end.
    assert stored == [(CHAIN, ["a"], T0 + 3_000)]


def test_ranking_an_unseen_chain_stores_nothing():
    session_selector = selector()
    for number in range(100):
        session_selector.get_ranking(SelectionRequest(f"chain-{number}", "s", ("a",)), T0)
    assert session_selector.records._selector.chains == {}
