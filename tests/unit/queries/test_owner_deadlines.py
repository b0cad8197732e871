"""Every state of a kickout has deadlines, the earliest first, and an action for the owner."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from oracle.domain.reports.node_kicks import NEVER_EXPIRES
from oracle.queries.advice.kickout_outlook import KickoutOutlook
from oracle.queries.api.lifting import NO_LIFT
from oracle.queries.api.records.objection_view import PostedEntry, PostedState
from oracle.queries.node_sentences import format_headline
from oracle.queries.objection_models import ObjectionDelayEntry, ObjectionEntry
from oracle.queries.owner_deadlines import describe_owner_action, list_owner_deadlines
from tests.unit.queries.test_node_sentences import CALM, EXCLUDED, NOW, calm_but

OUTLOOK = KickoutOutlook(
    scores=11, seconds=7_200, recent_scores=20, first_places=2, second_places=6
)
OBJECTION = ObjectionEntry.model_construct(
    seq=4, due_since=NOW - 50, time=NOW - 20, answer=None,
    is_due=True, is_counted=True, is_executed=False,
    verdict="supported", finding="one creator decides it",
)  # fmt: skip
POSTED = PostedEntry(
    seq=4, due_since=NOW - 50, received_at=NOW - 9, state=PostedState.WAITING, ended_reason=None
)


def view_with(
    *objections: ObjectionEntry,
    delay: ObjectionDelayEntry | None = None,
    state: str = "selectable",
    **kickout: Any,
) -> Any:
    """Return the parts of a node's view from which its deadlines are derived."""
    fields = {"due_since": None, "object_until": None, "obstacle": None, "on_chain": None}
    return SimpleNamespace(
        kickout=SimpleNamespace(**fields | kickout),
        objections=list(objections),
        objection_delay=delay,
        row=SimpleNamespace(state=state, qos=None if state == "kicked_out" else "1"),
    )


def list_steps(summary, view, posted=None):
    deadlines = list_owner_deadlines(summary, view, posted, [])
    return [(entry.preposition, entry.time - NOW, entry.anchor) for entry in deadlines]


def test_all_deadlines_are_listed_earliest_first():
    summary = calm_but(**EXCLUDED, kickout=OUTLOOK, kick_at=NOW + 300, is_kickout_due=True)
    view = view_with(due_since=NOW - 50, object_until=NOW + 100)
    deadlines = list_owner_deadlines(summary, view, None, [NOW + 9_000, NOW + 200])
    assert [(entry.time - NOW, entry.anchor) for entry in deadlines] == [
        (-50, "distances"),
        (41, "distances"),
        (100, "objections"),
        (200, "other-rules"),
        (300, "distances"),
        (7_200, "distances"),
        (9_000, "other-rules"),
    ]


def test_past_deadlines_are_not_listed():
    summary = replace(CALM, kick_at=NOW - 1)
    view = view_with(object_until=NOW - 1)
    assert list_owner_deadlines(summary, view, None, [NOW - 1]) == []


def test_kickout_that_is_no_longer_due_has_no_deadlines():
    assert list_steps(calm_but(is_kickout_due=False), view_with(due_since=NOW - 50)) == []


def test_filed_objection_replaces_the_objection_deadline():
    due = calm_but(is_kickout_due=True)
    open_view = view_with(due_since=NOW - 50, object_until=NOW + 100)
    assert list_steps(due, open_view)[1:] == [("Until", 100, "objections")]
    assert list_steps(due, open_view, POSTED)[1:] == [("At", -9, "objections")]
    ended = POSTED.model_copy(update={"state": PostedState.ENDED, "ended_reason": "late"})
    assert list_steps(due, open_view, ended)[1:] == [
        ("At", -9, "objections"),
        ("Until", 100, "objections"),
    ]
    delay = ObjectionDelayEntry(reason="open", until=NOW + 500, objection=4, is_accepted=False)
    objected = view_with(OBJECTION, delay=delay, due_since=NOW - 50, object_until=NOW + 100)
    assert list_steps(due, objected)[1:] == [
        ("At", -20, "objections"),
        ("Until", 500, "objections"),
    ]
    deadlines = list_owner_deadlines(due, objected, None, [])
    assert "one creator decides it" in deadlines[1].text


HELD = "the kickout is held until the vetoer allows it, because of one creator"
ACCEPTED = ObjectionDelayEntry(reason="open", until=None, objection=4, is_accepted=True)
REFUTED = OBJECTION.model_copy(update={"verdict": "refuted"})
WAITING = ObjectionDelayEntry(reason="open", until=NOW + 9, objection=4, is_accepted=False)


@pytest.mark.parametrize(
    ("summary", "view", "beginning"),
    [
        ({}, {}, "Nothing: "),
        (EXCLUDED, {"state": "excluded"}, "Nothing: the exclusion ends by itself"),
        ({"kickout": OUTLOOK}, {}, "In the next eleven scored tasks (about 2 h)"),
        ({"is_kickout_due": True}, {}, "At once: "),
        ({"is_kickout_due": True}, {"object_until": NOW + 5_700}, "Until "),
        (
            {"is_kickout_due": True, "obstacle": HELD},
            {},
            "Nothing: the node stays. The kickout is",
        ),
        ({"is_kickout_due": True, "obstacle": HELD}, {"delay": ACCEPTED}, "Nothing: the node st"),
        (
            {"is_kickout_due": True},
            {"delay": ACCEPTED},
            "Nothing, as far as this reporter",
        ),
        ({"is_kickout_due": True}, {"delay": WAITING}, "Wait for the answer"),
        ({"is_kickout_due": True}, {"delay": WAITING, "objections": [REFUTED]}, "At once: "),
        ({"is_kickout_due": True, "kick_at": NOW + 5_700}, {}, "Before "),
        ({"is_kickout_due": True, "kick_at": NOW - 1}, {}, "At once: "),
        ({"kick_at": NOW + 5_700}, {}, "Nothing, as long as the scores stay"),
    ],
)
def test_every_kickout_state_starts_with_action_and_deadline(summary, view, beginning):
    due = calm_but(**summary)
    fields = {"due_since": NOW - 50, **view}
    text = describe_owner_action(due, view_with(*fields.pop("objections", ()), **fields))
    assert text.startswith(beginning)
    assert ("in 1 h 35 min" in text) is (beginning in {"Until ", "Before "})
    assert due.obstacle is None or "is due" not in format_headline(due)


def test_only_an_undecided_objection_awaits_an_answer():
    due = calm_but(is_kickout_due=True)
    texts = [
        deadline.text
        for objection in (OBJECTION, REFUTED)
        for deadline in list_owner_deadlines(
            due, view_with(objection, delay=WAITING, due_since=NOW - 50), None, []
        )
        if deadline.preposition == "Until"
    ]
    assert ["answer" in text for text in texts] == [True, False]


def test_executed_kickout_shows_end_of_expulsion():
    summary = calm_but(state="kicked_out")
    texts = set()
    for state, expelled_until in (
        *(("expelled", until) for until in (NOW + 60, NEVER_EXPIRES, NOW - 60)),
        ("none", None),
        ("readmitted", None),
    ):
        on_chain = SimpleNamespace(state=state, expelled_until=expelled_until)
        view = view_with(state="kicked_out", on_chain=on_chain)
        ends = [("At", 60, "membership")] if expelled_until == NOW + 60 else []
        assert list_steps(summary, view) == ends
        texts.add(describe_owner_action(summary, view))
    assert len(texts) == 5


def test_no_action_needed_is_never_shown_for_a_due_kickout():
    view = view_with(due_since=NOW - 50)
    calm_text = describe_owner_action(CALM, view_with())
    assert describe_owner_action(calm_but(is_kickout_due=True), view) not in {"", calm_text}


@pytest.mark.parametrize(
    ("zeros", "words"),
    [
        (1, "one score of zero would make a kickout due."),
        (15, "15 scores of zero in a row would make a kickout due."),
        (16, "no kickout is due or near."),
    ],
)
def test_owner_is_warned_when_few_zero_scores_would_make_a_kickout_due(zeros, words):
    lift = NO_LIFT.model_copy(update={"zeros": zeros})
    assert words in describe_owner_action(calm_but(lift=lift), view_with())


def test_improvement_after_the_deadline_is_shown_as_too_late():
    lift = NO_LIFT.model_copy(update={"first_places_to_clear": 10})
    late, in_time = (
        describe_owner_action(
            calm_but(is_kickout_due=True, kick_at=NOW + seconds_left, lift=lift, score_gap=600),
            view_with(due_since=NOW - 50),
        )
        for seconds_left in (5_999, 6_000)
    )
    assert "1 h 40 min" in late
    assert "more than the time that is left" in late
    assert "more than the time that is left" not in in_time
