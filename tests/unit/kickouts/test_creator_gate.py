"""A creator can make honest nodes time out for the price of gas, so such kickouts are held.

See docs/explanation/kickouts.md#held-for-a-person.
"""

import json

import pytest
from eth_utils.address import to_checksum_address
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.kickout_evidence import CreatorSpread, compute_creator_spread
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.scoring.node_scores import compute_node_qos, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.indexer.kickout_reviews import load_kickout_review
from oracle.kickouts.kickout_cases import count_held_intervals, load_kickout_evidence
from oracle.store.database import UnitOfWork
from oracle.store.identity import Identity
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, build_changed_rules, fold_node, make_node_address

GROUPS = 50
TRAP_SECONDS = 1


# A trap needs more than half of a group, because a lone answer gives no score.
RUNNERS = ("victim", "other victim", "own", "own too", "own as well")


def build_trapped_groups(creators: list[str]) -> History:
    """Return fifty groups that only the creator's own nodes can answer within their limit."""
    history = History().joins(*RUNNERS)
    for n in range(GROUPS):
        names = [f"{n} {who}" for who in RUNNERS]
        creator = make_node_address(creators[n % len(creators)])
        history.creates(*names, creator=creator, timeout=TRAP_SECONDS, fee=0)
        for name, runner in zip(names, RUNNERS, strict=True):
            history.starts(name, runner)
        history.after(TRAP_SECONDS)
        for name in names[2:]:
            history.submits(name)
        history.after(1).times_out(names[0]).times_out(names[1])
        history.closes(f"group {n}", *names).succeeds(names[2])
    return history


def store_history(uow: UnitOfWork, history: History, rules: Rules) -> None:
    fold = Fold(rules)
    fold.fold_events(history.events)
    uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(rules))


def load_victim_evidence(store, history: History, rules: Rules = CRYNUX):
    """Return the evidence against the victim, why it is held, and the number of held kickouts."""
    with store.transaction() as uow:
        store_history(uow, history, rules)
        intervals = uow.kickouts.list_open()
        (interval,) = (
            open_interval
            for open_interval in intervals
            if open_interval.node == make_node_address("victim")
        )
        policy = KickoutPolicy(rules)
        victim = uow.nodes.get_many([interval.node])[interval.node]
        return (
            load_kickout_evidence(uow, policy, interval),
            load_kickout_review(uow, victim, policy).hold_reason,
            count_held_intervals(uow, intervals, policy),
        )


def test_kickout_caused_by_single_creator_is_held(new_sqlite_store):
    with new_sqlite_store() as store:
        text, hold_reason, held = load_victim_evidence(store, build_trapped_groups(["mallory"]))
    evidence_fields = json.loads(text)
    assert (
        evidence_fields["sum"],
        evidence_fields["creators"],
        evidence_fields["most_of_one_creator"],
    ) == (0, 1, GROUPS)
    assert {entry["creator"] for entry in evidence_fields["entries"]} == {
        make_node_address("mallory")
    }
    assert hold_reason == (
        "50 of its 50 scores come from one creator's tasks (there is no other creator)"
    )
    # Both victims.
    assert held == 2


def test_evidence_contains_the_account_ids_of_node_and_contract(new_sqlite_store):
    """The contract's address is an example of EIP-55."""
    contract = Address("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed")
    with new_sqlite_store() as store:
        with store.transaction() as uow:
            uow.identity.ensure_stored_identity(Identity(100, ZERO_HASH, {}, contract, 0))
        text, *_ = load_victim_evidence(store, build_trapped_groups(["mallory"]))
    evidence_fields = json.loads(text)
    assert (evidence_fields["account_id"], evidence_fields["oracle_account_id"]) == (
        f"eip155:100:{to_checksum_address(make_node_address('victim'))}",
        "eip155:100:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    )


def test_minimum_timeout_rule_protects_victims_of_short_timeouts():
    doubting = build_changed_rules(least_timeout_seconds=10)
    history = build_trapped_groups(["mallory"])
    for name in ("victim", "other victim"):
        victim = fold_node(history, name, doubting)
        assert not is_kickout_due(victim, doubting)
        assert compute_node_qos(victim, history.time, doubting) == UNIT // 2


@pytest.mark.parametrize(
    ("creators", "held"),
    [(["a", "b", "c"], 0), (["a", "b"], 0), (["a", "a", "b"], 2), (["a"], 2)],
)
def test_kickout_is_held_if_one_creator_has_most_of_the_scores(new_sqlite_store, creators, held):
    with new_sqlite_store() as store:
        text, _, counted = load_victim_evidence(store, build_trapped_groups(creators))
    evidence_fields = json.loads(text)
    assert evidence_fields["creators"] == len(set(creators))
    assert counted == held


def pool_of_two(mallorys: int, others_score: int) -> CreatorSpread:
    """Return fifty scores: 0 on tasks of one creator, the same score on those of nine others."""
    honest = [(make_node_address(f"creator {n % 9}"), others_score) for n in range(50 - mallorys)]
    return compute_creator_spread(
        [*honest, *[(make_node_address("mallory"), 0)] * mallorys], CRYNUX
    )


def test_kickout_is_held_if_it_depends_on_one_creator():
    # A node with a mean of 3 points elsewhere: 17 traps of 50 bring it below 2.0.
    caught = pool_of_two(17, 3)
    assert (caught.max_per_creator, caught.decisive_scores) == (17, 17)
    assert caught.find_hold_reason(CRYNUX) == (
        "it would be far from due without the 17 scores from one creator's tasks"
    )


def test_kickout_is_not_held_if_the_node_fails_for_all_creators():
    for score in (0, 1, 2):
        assert pool_of_two(17, score).find_hold_reason(CRYNUX) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 2, 5])), min_size=1, max_size=60))
def test_kickout_that_is_not_held_does_not_depend_on_any_one_creator(scores):
    named = [(make_node_address(f"creator {n}"), score) for n, score in scores]
    if compute_creator_spread(named, CRYNUX).find_hold_reason(CRYNUX) is not None:
        return
    for left_out_creator in {creator for creator, _ in named}:
        other_scores = [score for creator, score in named if creator != left_out_creator]
        assert other_scores
        # The line is 2.0.
        assert 4 * sum(other_scores) < 5 * 2 * len(other_scores)


def test_no_kickout_is_held_with_a_creator_share_limit_of_1(new_sqlite_store):
    with new_sqlite_store() as store:
        *_, held = load_victim_evidence(
            store, build_trapped_groups(["a"]), build_changed_rules(kick_creator_share=UNIT)
        )
    assert held == 0


def test_creator_recorded_after_due_time_does_not_change_evidence(new_sqlite_store):
    """Two reporters that plan at different times must write the same bytes."""
    history = History().joins("victim", "own", "own too")
    for n in range(GROUPS):
        names = [f"{n} {who}" for who in ("a", "b", "c")]
        for name, runner in zip(names, ("victim", "own", "own too"), strict=True):
            history.starts(name, runner)
        history.after(1).submits(names[1]).submits(names[2]).closes(f"group {n}", *names)
    due = History()
    due.events = [*history.events]
    history.after(1).creates(*(f"{n} a" for n in range(GROUPS)), creator=make_node_address("late"))
    with new_sqlite_store() as store:
        early_text, *_ = load_victim_evidence(store, due)
    with new_sqlite_store() as store:
        later_text, *_ = load_victim_evidence(store, history)
    assert early_text == later_text
    evidence_fields = json.loads(later_text)
    assert {entry["creator"] for entry in evidence_fields["entries"]} == {None}
    # Their creators are unknown, which counts as one creator.
    assert evidence_fields["most_of_one_creator"] == GROUPS
