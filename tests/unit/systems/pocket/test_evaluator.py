"""Pocket's policies over histories of events: which outcomes count, for which node, and when."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    TaskKind,
    TaskStarted,
    TaskSubmitted,
)
from oracle.domain.fold.fold import Fold
from oracle.domain.state import Task, create_task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.pocket.node_selector import PortalMemory
from oracle.systems.pocket.parameters import PORTAL_API_HEAD as HEAD
from oracle.systems.pocket.pocket_policy import (
    ARTICLE,
    PORTAL_API_HEAD,
    PocketEvaluator,
    PocketPolicy,
)
from oracle.systems.policy import (
    CandidateEvaluator,
    CandidateVerdict,
    PolicyInput,
    SelectionPolicy,
)
from tests.support.examples import examples
from tests.support.histories import History, fold_history, make_node_address, make_task_key
from tests.support.random_histories import any_histories

POLICIES: tuple[SelectionPolicy, ...] = (ARTICLE, PORTAL_API_HEAD)
# The portal's code without its bug, as its comments describe it.
MEANT = PocketPolicy("meant", 1, replace(HEAD, zero_success_rate=0))
EACH = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
SD = replace(create_task(make_task_key("asked")), kind=TaskKind.SD)


def build_members(*names: str, stake: int | None = 1, **values: Any) -> History:
    return History().joins(*names, stake=stake, **values)


def follow_history(history: History, policy: SelectionPolicy = ARTICLE) -> CandidateEvaluator:
    evaluator = policy.create_evaluator()
    for event in history.events:
        evaluator.apply_event(event)
    return evaluator


def policy_input(history: History, *reserved_names: str) -> PolicyInput:
    fold, _ = fold_history(history)
    return PolicyInput(
        fold.ledger.nodes,
        CRYNUX,
        history.time,
        frozenset(make_node_address(name) for name in reserved_names),
    )


def judge_members(
    history: History, policy: SelectionPolicy = ARTICLE, judged_task: Task = SD
) -> dict[str, CandidateVerdict]:
    """Return the verdicts at the end of the history, by the names of the nodes."""
    verdicts = follow_history(history, policy).evaluate_candidates(
        judged_task, policy_input(history)
    )
    return {bytes.fromhex(v.node[2:]).lstrip(b"\0").decode(): v for v in verdicts}


def does(history: History, name: str, *, times: int = 1, seconds: int = 5) -> History:
    """Let a node complete tasks, one after the other."""
    for _ in range(times):
        key = f"t{len(history.events)}"
        history.creates(key, kind=TaskKind.SD).starts(key, name)
        history.after(seconds).submits(key).validates(key).succeeds(key)
    return history


def misses(history: History, name: str, *, times: int = 1, seconds: int = 1) -> History:
    for _ in range(times):
        key = f"t{len(history.events)}"
        history.creates(key, kind=TaskKind.SD).starts(key, name)
        history.after(seconds).times_out(key)
    return history


@EACH
def test_untested_node_has_all_tickets(policy: SelectionPolicy):
    verdict = judge_members(build_members("A"), policy)["A"]
    assert (verdict.weight, verdict.reason, verdict.parts["reason"]) == (10, None, "untested")


def test_duration_of_a_success_lasts_from_start_to_submission():
    history = build_members("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(7).submits("t").after(20).validates("t").succeeds("t")
    parts = judge_members(history)["A"].parts
    assert (parts["attempts"], parts["median"]) == ("1", "7.00000")


def test_refunded_group_member_counts_as_success():
    history = build_members("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(3).reports_error("t").after(1).validates("t").is_refunded("t")
    assert judge_members(history)["A"].parts["median"] == "3.00000"


def test_commitment_ends_the_duration_of_only_its_own_node():
    history = build_members("A", "B").creates("t", kind=TaskKind.SD)
    history.starts("t", "A", place=0).starts("t", "B", place=1)
    history.after(4).commits("t", "A").after(5).commits("t", "B")
    history.after(6).discloses("t", "A").discloses("t", "B").succeeds("t")
    parts = {name: verdict.parts for name, verdict in judge_members(history).items()}
    assert (parts["A"]["median"], parts["B"]["median"]) == ("4.00000", "9.00000")


def test_duration_ends_at_first_submission():
    history = build_members("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(4).submits("t").after(5).submits("t").succeeds("t")
    assert judge_members(history)["A"].parts["median"] == "4.00000"


@pytest.mark.parametrize("reason", [*AbortReason, None])
def test_aborted_task_never_counts_as_an_attempt(reason: AbortReason | None):
    history = build_members("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(5).aborts("t", reason)
    assert judge_members(history)["A"].parts["attempts"] == "0"


def test_invalidated_result_counts_as_a_failure():
    history = build_members("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(5).submits("t").is_invalidated("t")
    parts = judge_members(history)["A"].parts
    assert (parts["attempts"], parts["success_rate"][:3]) == ("1", "0.0")


@pytest.mark.parametrize(("policy", "weight", "reason"), [
    (ARTICLE, 0, "out"),
    (MEANT, 0, "flagged"),
    (PORTAL_API_HEAD, 10, "top_tier"),
], ids=["article", "meant", "head"])  # fmt: skip
def test_dead_node_is_excluded_only_under_article_rules(policy, weight, reason):
    history = misses(does(build_members("A", "B"), "B"), "A", times=51)
    verdict = judge_members(history, policy)["A"]
    assert (verdict.weight, verdict.parts["reason"]) == (weight, reason)


def test_each_failure_excludes_node_for_six_seconds():
    history = misses(build_members("A", "B"), "A", times=2)
    last = history.time
    # The first was a second before.
    for later, weight in ((10, 0), (11, 1)):
        history.time = last + later
        assert judge_members(history)["A"].weight == weight


def test_node_with_unknown_stake_is_ineligible_under_article_rules():
    history = build_members("known").joins("unknown").joins("none", stake=0)
    article = judge_members(history)
    head = judge_members(history, PORTAL_API_HEAD)
    assert {name: verdict.reason for name, verdict in article.items()} == {
        "known": None, "unknown": "stake_unknown", "none": "not_staked",
    }  # fmt: skip
    assert {verdict.weight for verdict in head.values()} == {10}


def test_millisecond_times_are_used_for_durations():
    history = build_members("A").creates("t", kind=TaskKind.SD)
    history.emits(TaskStarted, task=make_task_key("t"), node=make_node_address("A"))
    history.after(1).emits(TaskSubmitted, task=make_task_key("t"), node=make_node_address("A"))
    history.succeeds("t")
    start = history.events[-3].time * 1000 + 950
    end = history.events[-2].time * 1000 + 80
    history.events[-3] = replace(history.events[-3], time_ms=start)
    history.events[-2] = replace(history.events[-2], time_ms=end)
    assert judge_members(history)["A"].parts["median"] == "0.13000"


@EACH
def test_node_with_alternating_timeouts_keeps_only_one_ticket(policy: SelectionPolicy):
    history = build_members("A", "B")
    for _ in range(30):
        misses(does(history, "A", seconds=4), "A", seconds=4)
    # Every reason for its ineligibility is over.
    does(history, "A", seconds=120)
    verdict = judge_members(history, policy)["A"]
    assert (verdict.weight, verdict.parts["reason"]) == (1, "low_success")


def test_nodes_have_equal_weights_if_all_are_shelved():
    verdicts = judge_members(misses(misses(build_members("A", "B"), "A", times=50), "B", times=2))
    assert [v.weight for v in verdicts.values()] == [1, 1]
    assert [v.parts["tickets"] for v in verdicts.values()] == ["0", "0"]


def test_rejoined_node_has_no_history():
    history = misses(build_members("A"), "A", times=60).quits("A")
    assert judge_members(history.joins("A", stake=1))["A"].parts["reason"] == "untested"


def test_second_join_of_member_keeps_its_history():
    history = misses(build_members("A", "B"), "A", times=60).joins("A")
    assert judge_members(history)["A"].weight == 0


def test_task_kinds_are_scored_separately():
    history = misses(build_members("A", "B"), "A", times=60)
    llm = replace(SD, kind=TaskKind.LLM)
    assert judge_members(history, judged_task=llm)["A"].weight == 10


def test_task_created_again_keeps_its_kind():
    history = build_members("A").creates("t", kind=TaskKind.SD).creates("t", kind=TaskKind.LLM)
    history.starts("t", "A").after(5).submits("t").succeeds("t")
    assert judge_members(history)["A"].parts["attempts"] == "1"


def test_expected_duration_scales_latency_penalty():
    history = does(does(build_members("A", "B"), "A", seconds=20), "B", seconds=30)
    slow = replace(ARTICLE, params=replace(ARTICLE.params, expected=20.0))
    assert judge_members(history)["B"].weight == 1
    # 10 s above 20 s are half of 5.25 tickets.
    assert judge_members(history, slow)["B"].weight == 7


def test_ineligible_members_are_listed_with_reason():
    history = build_members("A", "B", "C", gpu_vram=8).joins("D", "E", "F", gpu_vram=24)
    history.pauses("D").creates("t").starts("t", "E").joins("Q").quits("Q")
    demanding_task = replace(SD, min_vram=16)
    evaluator = follow_history(history)
    verdict_by_node = {
        v.node: v
        for v in evaluator.evaluate_candidates(demanding_task, policy_input(history, "F"))
    }
    out = {name: verdict_by_node[make_node_address(name)].reason for name in "ABCDEF"}
    assert out == dict.fromkeys("ABC", "vram_too_small") | {
        "D": "paused", "E": "busy", "F": "taken",
    }  # fmt: skip
    assert all(verdict.weight is None for verdict in verdict_by_node.values())
    assert list(verdict_by_node) == sorted(verdict_by_node)
    assert make_node_address("Q") not in verdict_by_node


def test_failing_node_is_flagged_when_the_next_task_starts():
    history = misses(build_members("A", "B"), "A", times=50)
    for _ in range(3):
        assert judge_members(history, MEANT)["A"].parts["reason"] == "shelved"
    history.creates("t", kind=TaskKind.SD).starts("t", "B")
    assert judge_members(history, MEANT)["A"].parts["reason"] == "flagged"
    # The flag outlives the counts by the time between their settings.
    history.after(299)
    assert judge_members(history, MEANT)["A"].parts["reason"] == "flagged"
    history.after(1)
    assert judge_members(history, MEANT)["A"].parts["reason"] == "untested"


def list_memories(evaluator: PocketEvaluator, now: int) -> dict[str, object]:
    """Return the memory's values for every node; for the portal's, each record."""
    nodes = [make_node_address(name) for name in "ABCDEFGHIJ"]
    return {
        chain: memory.records
        if isinstance(memory, PortalMemory)
        else [memory.compute_stats(address, 1000 * now) for address in nodes]
        for chain, memory in evaluator.selector.chains.items()
    }


@pytest.mark.parametrize("policy", [*POLICIES, MEANT], ids=lambda policy: policy.name)
@examples(60)
@given(events=any_histories(), cut=st.integers(0, 80))
def test_replay_equals_incremental_evaluation(events: list[DomainEvent], cut, policy):
    queried_evaluator = policy.create_evaluator()
    replaying = policy.create_evaluator()
    fold = Fold(CRYNUX)
    for event in events:
        queried_evaluator.apply_event(event)
        fold.fold_events([event])
        queried_evaluator.evaluate_candidates(
            SD, PolicyInput(fold.ledger.nodes, CRYNUX, event.time)
        )
    for event in events[:cut]:
        replaying.apply_event(event)
    replaying = deepcopy(replaying)
    for event in events[cut:]:
        replaying.apply_event(event)
    last = max((event.time for event in events), default=0)
    assert list_memories(queried_evaluator, last) == list_memories(replaying, last)


@EACH
@given(events=any_histories())
@examples(40)
def test_every_member_has_verdict_in_address_order(events: list[DomainEvent], policy):
    evaluator = policy.create_evaluator()
    fold = Fold(CRYNUX)
    fold.fold_events(events)
    for event in events:
        evaluator.apply_event(event)
    now = max((event.time for event in events), default=0)
    verdicts = evaluator.evaluate_candidates(SD, PolicyInput(fold.ledger.nodes, CRYNUX, now))
    members = [a for a, n in fold.ledger.nodes.items() if n.membership.value == "member"]
    assert [verdict.node for verdict in verdicts] == sorted(members)
    assert all((v.weight is None) == (v.reason is not None) for v in verdicts)
