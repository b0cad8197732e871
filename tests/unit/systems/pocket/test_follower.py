"""Pocket's profiles along histories of our events: what counts, for whom, and since when."""

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.events.network_events import AbortReason, DomainEvent, TaskKind
from oracle.domain.fold.fold import Fold
from oracle.domain.state.task import Task, new_task
from oracle.systems.crynux.crynux_rule_sets import SEED
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.pocket.parameters import compute
from oracle.systems.pocket.pocket_policy import ARTICLE, PORTAL_API_HEAD, PocketPolicy
from oracle.systems.policy import CandidateVerdict, Follower, PolicyInput, SelectionPolicy
from tests.support.examples import examples
from tests.support.histories import History, folded, node, task
from tests.support.random_histories import any_histories

POLICIES: tuple[SelectionPolicy, ...] = (ARTICLE, PORTAL_API_HEAD)
EACH = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
SD = replace(new_task(task("asked")), kind=TaskKind.SD)


def followed(history: History, policy: SelectionPolicy = ARTICLE) -> Follower:
    follower = policy.follow()
    for event in history.events:
        follower.take(event)
    return follower


def policy_input(history: History, *taken: str) -> PolicyInput:
    fold, _ = folded(history)
    return PolicyInput(
        fold.ledger.nodes, SEED, history.time, frozenset(node(name) for name in taken)
    )


def judged(
    history: History, policy: SelectionPolicy = ARTICLE, asked: Task = SD
) -> dict[str, CandidateVerdict]:
    """The verdicts as the history stands, by the names of the nodes."""
    verdicts = followed(history, policy).verdicts(asked, policy_input(history))
    return {bytes.fromhex(v.node[2:]).lstrip(b"\0").decode(): v for v in verdicts}


def does(history: History, name: str, *, times: int = 1, seconds: int = 5) -> History:
    """Let a node do tasks well, one after the other."""
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
def test_who_has_done_nothing_has_every_ticket(policy: SelectionPolicy):
    verdict = judged(History().joins("A"), policy)["A"]
    assert (verdict.weight, verdict.out, verdict.parts["reason"]) == (10, None, "untested")


def test_a_success_lasts_from_start_to_submission_whenever_it_is_validated():
    history = History().joins("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(7).submits("t").after(20).validates("t").succeeds("t")
    parts = judged(history)["A"].parts
    assert (parts["attempts"], parts["median"], parts["unit"]) == ("1", "7.00000", "s")


def test_a_refunded_member_of_a_group_has_succeeded_like_the_paid_one():
    history = History().joins("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(3).reports_error("t").after(1).validates("t").is_refunded("t")
    assert judged(history)["A"].parts["median"] == "3.00000"


def test_a_committed_result_stops_the_clock_of_its_node_alone():
    history = History().joins("A", "B").creates("t", kind=TaskKind.SD)
    history.starts("t", "A", place=0).starts("t", "B", place=1)
    history.after(4).commits("t", "A").after(5).commits("t", "B")
    history.after(6).discloses("t", "A").discloses("t", "B").succeeds("t")
    parts = {name: verdict.parts for name, verdict in judged(history).items()}
    assert (parts["A"]["median"], parts["B"]["median"]) == ("4.00000", "9.00000")


def test_a_nodes_clock_stops_once():
    history = History().joins("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(4).submits("t").after(5).submits("t").succeeds("t")
    assert judged(history)["A"].parts["median"] == "4.00000"


@pytest.mark.parametrize("reason", [*AbortReason, None])
def test_an_abort_is_nobodys_attempt_whatever_its_reason(reason: AbortReason | None):
    history = History().joins("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(5).aborts("t", reason)
    assert judged(history)["A"].parts["attempts"] == "0"


def test_an_invalidated_result_is_a_failure():
    history = History().joins("A").creates("t", kind=TaskKind.SD).starts("t", "A")
    history.after(5).submits("t").is_invalidated("t")
    parts = judged(history)["A"].parts
    assert (parts["attempts"], parts["success_rate"][:3]) == ("1", "0.0")


@pytest.mark.parametrize(("policy", "weight", "reason"), [
    (ARTICLE, 0, "flagged"),
    (PORTAL_API_HEAD, 10, "top_tier"),
], ids=["article", "head"])  # fmt: skip
def test_a_dead_node_is_shelved_by_the_article_and_favoured_at_the_head(policy, weight, reason):
    history = misses(does(History().joins("A", "B"), "B"), "A", times=51)
    verdict = judged(history, policy)["A"]
    assert (verdict.weight, verdict.parts["reason"]) == (weight, reason)


@EACH
def test_alternating_success_and_timeout_leaves_one_ticket(policy: SelectionPolicy):
    history = History().joins("A", "B")
    for _ in range(30):
        misses(does(history, "A", seconds=1), "A")
    verdict = judged(history, policy)["A"]
    assert (verdict.weight, verdict.parts["reason"]) == (1, "low_success")


def test_where_all_are_shelved_all_have_the_same_weight():
    verdicts = judged(misses(misses(History().joins("A", "B"), "A", times=50), "B", times=50))
    assert [v.weight for v in verdicts.values()] == [1, 1]
    assert [v.parts["tickets"] for v in verdicts.values()] == ["0", "0"]


def test_a_node_that_joins_anew_has_no_history():
    history = misses(History().joins("A"), "A", times=60).quits("A")
    assert judged(history.joins("A"))["A"].parts["reason"] == "untested"


def test_joining_twice_washes_nothing():
    history = misses(History().joins("A", "B"), "A", times=60).joins("A")
    assert judged(history)["A"].weight == 0


def test_kinds_of_work_are_scopes_of_their_own():
    history = misses(History().joins("A", "B"), "A", times=60)
    llm = replace(SD, kind=TaskKind.LLM)
    assert judged(history, asked=llm)["A"].weight == 10
    one_scope = replace(ARTICLE, by_kind=False)
    assert judged(history, one_scope, llm)["A"].weight == 0


def test_a_task_that_is_created_again_stays_what_it_was():
    history = History().joins("A").creates("t", kind=TaskKind.SD).creates("t", kind=TaskKind.LLM)
    history.starts("t", "A").after(5).submits("t").succeeds("t")
    assert judged(history)["A"].parts["attempts"] == "1"


def test_a_size_counts_where_durations_are_scaled_by_it():
    special = replace(ARTICLE, params=compute(1, expected_per_size=2))
    history = History().joins("A").creates("t", kind=TaskKind.SD, size=7)
    history.starts("t", "A").after(30).submits("t").succeeds("t")
    assert judged(history, special)["A"].parts["median"] == "2.00000"


def test_a_timeout_long_before_its_time_removes_a_node_where_that_is_asked_for():
    strict = replace(ARTICLE, params=replace(ARTICLE.params, early_failures=1))
    history = History().joins("A").creates("t", kind=TaskKind.SD, timeout=60)
    history.starts("t", "A").after(5).times_out("t")
    assert judged(history, strict)["A"].out == "left_out"


def test_a_scope_may_have_parameters_of_its_own():
    special = PocketPolicy("compute", 1, ARTICLE.params, special={"sd": compute(20)})
    history = does(does(does(History().joins("A", "B", "C"), "A"), "B", seconds=30), "C")
    verdict = judged(history, special)["B"]
    # 30 s are 1.5 times what is expected: half of 5.25 tickets.
    assert (verdict.weight, verdict.parts["median"], verdict.parts["unit"]) == (7, "1.50000", "x")


def test_members_that_cannot_have_the_task_are_named_with_the_reason():
    history = History().joins("A", "B", "C", gpu_vram=8).joins("D", "E", "F", gpu_vram=24)
    history.pauses("D").creates("t").starts("t", "E").joins("Q").quits("Q")
    asked = replace(SD, min_vram=16)
    follower = followed(history)
    found = {v.node: v for v in follower.verdicts(asked, policy_input(history, "F"))}
    out = {name: found[node(name)].out for name in "ABCDEF"}
    assert out == dict.fromkeys("ABC", "vram_too_small") | {
        "D": "paused", "E": "busy", "F": "taken",
    }  # fmt: skip
    assert all(verdict.weight is None for verdict in found.values())
    assert list(found) == sorted(found)
    assert node("Q") not in found


def test_a_flag_is_set_where_a_task_starts_and_not_where_somebody_asks():
    history = misses(History().joins("A", "B"), "A", times=50)
    for _ in range(3):
        assert judged(history)["A"].parts["reason"] == "shelved"
    history.creates("t", kind=TaskKind.SD).starts("t", "B")
    assert judged(history)["A"].parts["reason"] == "flagged"
    # The flag outlives the counts by as much as it was set later.
    history.after(299)
    assert judged(history)["A"].parts["reason"] == "flagged"
    history.after(1)
    assert judged(history)["A"].parts["reason"] == "untested"


def records(follower: PocketFollower) -> dict[str, object]:
    return {name: scope.records for name, scope in follower.scopes.items()}


@EACH
@examples(60)
@given(events=any_histories(), cut=st.integers(0, 80))
def test_a_replay_is_the_same_as_going_along_and_asking(events: list[DomainEvent], cut, policy):
    asking, replaying, fold = policy.follow(), policy.follow(), Fold(SEED)
    for event in events:
        asking.take(event)
        fold.many([event])
        asking.verdicts(SD, PolicyInput(fold.ledger.nodes, SEED, event.time))
    for event in events[:cut]:
        replaying.take(event)
    replaying = deepcopy(replaying)
    for event in events[cut:]:
        replaying.take(event)
    assert records(asking) == records(replaying)


@EACH
@given(events=any_histories())
@examples(40)
def test_every_member_is_judged_once_in_order_of_address(events: list[DomainEvent], policy):
    follower, fold = policy.follow(), Fold(SEED)
    fold.many(events)
    for event in events:
        follower.take(event)
    now = max((event.time for event in events), default=0)
    verdicts = follower.verdicts(SD, PolicyInput(fold.ledger.nodes, SEED, now))
    members = [a for a, n in fold.ledger.nodes.items() if n.membership.value == "member"]
    assert [verdict.node for verdict in verdicts] == sorted(members)
    assert all((v.weight is None) == (v.out is not None) for v in verdicts)
