"""A kickout that depends on timeouts in incidents is held, if the rules define so.

See docs/explanation/kickouts.md#held-for-a-person.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

import pytest

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.incidents import Incident
from oracle.domain.reports.kickout_evidence import find_incident_hold_reason
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.kickout_review import UnansweredScore, count_incident_scores
from oracle.domain.roots.leaves import LeafFlag
from oracle.domain.scoring.rules import Rules
from oracle.indexer.kickout_reviews import load_kickout_review
from oracle.indexer.rules_binding import bind_rules
from oracle.kickouts.kickout_cases import load_kickout_evidence
from oracle.store.database import Store, UnitOfWork
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS, RELAY
from tests.support.histories import GENESIS_TIME, History, make_node_address
from tests.support.scripted import ScriptedChain
from tests.support.task_traffic import add_burst_end, add_zero_scores, build_open_burst
from tests.support.txmgr.follower import RULES, Follower
from tests.unit.indexer.test_rewinding_to_snapshots import make_snapshots, small_snapshots
from tests.unit.reporting.test_reviewed_leaves import (
    check_reports,
    folder_of,
    kept_reports,
    leaf_as_of,
)

VICTIM = make_node_address("n0")
# A kickout is held if more than a fifth of its scores are timeouts in incidents.
GATED = replace(CRYNUX, pool_size=5, kick_creator_share=UNIT, kick_incident_share=UNIT // 5)
OPEN = replace(GATED, kick_incident_share=UNIT)


def zeros(in_burst: int, others: int) -> History:
    """Return five zeros of the victim, some of them on tasks of the failing application."""
    return add_zero_scores(add_zero_scores(build_open_burst(), others, "calm"), in_burst, "burst")


@contextmanager
def store_history(store: Store, history: History, rules: Rules) -> Iterator[UnitOfWork]:
    fold = Fold(rules)
    fold.fold_events(history.events)
    with store.transaction() as uow:
        uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(rules))
        yield uow


def hold_reason(store: Store, history: History, rules: Rules = GATED) -> str | None:
    with store_history(store, history, rules) as uow:
        victim = uow.nodes.get_many([VICTIM])[VICTIM]
        return load_kickout_review(uow, victim, KickoutPolicy(rules)).hold_reason


@pytest.fixture
def store(new_sqlite_store):
    with new_sqlite_store() as store:
        yield store


def test_kickout_is_held_if_many_scores_are_timeouts_in_incidents(store):
    assert hold_reason(store, zeros(2, 3)) == "2 of its 5 scores are timeouts in incidents"


def test_kickout_with_exactly_the_allowed_share_is_not_held(store):
    assert hold_reason(store, zeros(1, 4)) is None


def test_kickout_is_not_held_if_the_incident_rule_is_off(store):
    assert hold_reason(store, zeros(5, 0), OPEN) is None


def test_end_of_an_incident_does_not_change_the_kickout_review(store):
    over = add_burst_end(zeros(2, 3))
    assert hold_reason(store, over) == "2 of its 5 scores are timeouts in incidents"
    with store.read_transaction() as uow:
        (incident,) = uow.incidents.list_newest(9)
        assert incident.over_at is not None


def test_incident_found_later_does_not_hold_a_due_kickout():
    at = Position(10, 0, 0)
    later = Incident(1, None, Position(11, 0, 0), 1100, 100, 1199, 9, 9)
    scores = [UnansweredScore(1000, None), UnansweredScore(50, None)]
    assert count_incident_scores(scores, [later], at) == 0
    known = later._replace(found_at=Position(9, 0, 0))
    assert count_incident_scores(scores, [known], at) == 1


def test_wrong_answer_in_an_incident_does_not_count_as_timeout(store):
    history = zeros(1, 3)
    names = ["slow", "fast", "faster"]
    history.creates(*names, of="last", creator=make_node_address("burst"))
    for member, name in enumerate(names):
        history.starts(name, f"n{member}")
    # A wrong answer scores 0, but is not a timeout.
    history.after(5).submits("fast").submits("faster").submits("slow")
    history.judges("last", *names, right=names[1:], wrong=names[:1])
    assert hold_reason(store, history) is None


def test_evidence_counts_incident_scores_if_the_rule_is_on(store, new_sqlite_store):
    with store_history(store, zeros(2, 3), GATED) as uow:
        (interval,) = uow.kickouts.list_open()
        text = load_kickout_evidence(uow, KickoutPolicy(GATED), interval)
    assert json.loads(text)["scores_in_incidents"] == 2


def test_evidence_omits_incident_scores_if_the_rule_is_off(store):
    with store_history(store, zeros(2, 3), OPEN) as uow:
        (interval,) = uow.kickouts.list_open()
        text = load_kickout_evidence(uow, KickoutPolicy(OPEN), interval)
    assert "scores_in_incidents" not in json.loads(text)


@pytest.mark.parametrize("share", [0, UNIT // 5, UNIT])
@pytest.mark.parametrize("incident_score_count", range(6))
def test_kickout_above_incident_share_is_held(share, incident_score_count):
    rules = replace(GATED, kick_incident_share=share)
    reason = find_incident_hold_reason(5, incident_score_count, rules)
    assert (reason is not None) is (incident_score_count * UNIT > share * 5)


@pytest.mark.parametrize("rules", [CRYNUX, CRYNUX_DOCS, RELAY])
def test_published_rule_sets_omit_the_incident_rule(rules):
    assert rules.kick_incident_share == UNIT
    assert "kick_incident_share" not in rules.to_json()
    assert '"kick_incident_share":"0.2"' in replace(rules, kick_incident_share=UNIT // 5).to_json()


def test_stored_leaf_of_a_held_kickout_equals_the_folded_leaf(new_store):
    rules = replace(RULES, pool_size=5, kick_incident_share=UNIT // 5)
    chain = ScriptedChain()
    time = GENESIS_TIME
    history = add_burst_end(zeros(2, 3))
    for event_time, events in groupby(history.events, key=lambda event: event.time):
        chain.mine(*events, after=event_time - time)
        time = event_time
    chain.mine_many(60)
    with new_store() as store, small_snapshots(8):
        follower = Follower(chain, store, folder=folder_of(rules))
        with store.transaction() as uow:
            bind_rules(uow, rules)
        follower.catch_up()
        check_reports(follower)
        assert len(make_snapshots(follower)) > 3
        check_reports(follower)
        last_report = max(kept_reports(store), key=lambda report: report.as_of.number)
        leaf = leaf_as_of(follower, "n0", last_report.as_of)
        assert leaf.kickout_due_since
        assert LeafFlag.HELD in leaf.flags
