"""What the automatic check of an objection finds in the indexed events."""

from dataclasses import replace

import pytest

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.incidents import Incident
from oracle.domain.reports.kickout_review import UnansweredScore
from oracle.domain.reports.objections import (
    KickoutScores,
    ObjectionReason,
    ObjectionVerdict as Verdict,
    check_objection,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

NODE, APPLICATION, OTHER = (Address("0x" + 40 * digit) for digit in "abc")
POOL = 5
RULES = replace(CRYNUX, pool_size=POOL, kick_creator_share=UNIT // 2)
AT = Position(9, 0, 0)
TIME = 1000


def build_scores(
    *, score: int = 0, creators: tuple[Address, ...] = (APPLICATION, OTHER), incidents: int = 0
) -> KickoutScores:
    """Return five scores of tasks of these creators in turn; timeouts, if `score` is 0.

    An incident of the application marks the timeouts of the first `incidents` scores.
    """
    keys = [TaskKey(f"0x{number:064x}") for number in range(POOL)]
    entries = [
        ScoreEntry(NODE, number + 1, key, GroupKey(key), None, None, score, AT, TIME + number)
        for number, key in enumerate(keys)
    ]
    by_task = {key: creators[number % len(creators)] for number, key in enumerate(keys)}
    unanswered = [
        UnansweredScore(entry.time, APPLICATION if entry.seq <= incidents else OTHER)
        for entry in entries
    ]
    incident = Incident(1, APPLICATION, AT, TIME, TIME, TIME + POOL, 9, 9)
    return KickoutScores(entries, by_task, unanswered, [incident] if incidents else [], None)


def check(reason: ObjectionReason, scores: KickoutScores) -> Verdict:
    return check_objection(reason, scores, RULES).verdict


def test_verified_blocks_refute_an_objection_about_missing_events():
    scores = build_scores()
    assert check(ObjectionReason.NOT_ON_CHAIN, scores) is Verdict.REFUTED
    unverified = replace(scores, unverified="3 blocks are not yet verified")
    assert check_objection(ObjectionReason.NOT_ON_CHAIN, unverified, RULES) == (
        Verdict.OPEN,
        "3 blocks are not yet verified",
    )


@pytest.mark.parametrize(
    ("incidents", "verdict"),
    [(0, Verdict.OPEN), (1, Verdict.SUPPORTED), (5, Verdict.SUPPORTED)],
)
def test_objection_is_supported_if_a_fifth_of_the_scores_are_in_incidents(
    incidents: int, verdict: Verdict
):
    assert check(ObjectionReason.APPLICATION, build_scores(incidents=incidents)) is verdict


def test_incident_of_an_application_does_not_support_an_outage_objection():
    assert check(ObjectionReason.OUTAGE, build_scores(incidents=5)) is Verdict.OPEN


@pytest.mark.parametrize(
    ("creators", "verdict"),
    [
        ((APPLICATION,), Verdict.SUPPORTED),
        ((APPLICATION, OTHER, NODE), Verdict.REFUTED),
    ],
)
def test_objection_about_one_creator_is_decided_by_the_creator_share(
    creators: tuple[Address, ...], verdict: Verdict
):
    assert check(ObjectionReason.ONE_CREATOR, build_scores(creators=creators)) is verdict


@pytest.mark.parametrize(("score", "verdict"), [(0, Verdict.OPEN), (9, Verdict.SUPPORTED)])
def test_objection_is_supported_if_the_scores_do_not_justify_a_kickout(
    score: int, verdict: Verdict
):
    assert check(ObjectionReason.RULES, build_scores(score=score)) is verdict


def test_objection_for_another_reason_requires_the_operator():
    assert check(ObjectionReason.from_number(0), build_scores()) is Verdict.OPEN
    assert ObjectionReason.from_number(255) is ObjectionReason.OTHER
