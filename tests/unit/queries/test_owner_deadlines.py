"""Only deadlines ahead are listed, the earliest first, each with a card of the page."""

from dataclasses import replace

from oracle.queries.advice.kickout_outlook import KickoutOutlook
from oracle.queries.owner_deadlines import list_owner_deadlines
from tests.unit.queries.test_node_sentences import CALM, EXCLUDED, NOW, calm_but

OUTLOOK = KickoutOutlook(
    scores=11, seconds=7_200, recent_scores=20, first_places=2, second_places=6
)


def test_all_deadlines_are_listed_earliest_first():
    summary = calm_but(**EXCLUDED, kickout=OUTLOOK, kick_at=NOW + 300)
    deadlines = list_owner_deadlines(summary, NOW - 50, NOW + 100, [NOW + 9_000, NOW + 200])
    assert [(entry.time - NOW, entry.anchor) for entry in deadlines] == [
        (41, "distances"),
        (100, "objections"),
        (200, "other-rules"),
        (300, "distances"),
        (7_200, "distances"),
        (9_000, "other-rules"),
    ]


def test_deadlines_in_the_past_are_not_listed():
    summary = replace(CALM, kick_at=NOW - 1)
    assert list_owner_deadlines(summary, None, NOW - 1, [NOW - 1]) == []


def test_due_kickout_without_accusation_comes_before_all_deadlines():
    summary = calm_but(is_kickout_due=True)
    deadlines = list_owner_deadlines(summary, NOW - 50, NOW + 100, [])
    assert [(entry.preposition, entry.time - NOW) for entry in deadlines] == [
        ("Since", -50),
        ("Until", 100),
    ]
    assert list_owner_deadlines(calm_but(is_kickout_due=False), NOW - 50, None, []) == []
