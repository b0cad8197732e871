"""Task scores and fee shares of the source documents and of the relay."""

from operator import itemgetter

import pytest

from oracle.domain.events.network_events import AbortReason
from oracle.domain.scoring.group_ranking import split_fee_by_scores
from oracle.domain.state import GroupResult
from oracle.systems.crynux.crynux_rule_sets import CRYNUX_DOCS, RELAY
from tests.support.histories import (
    History,
    fold_history,
    make_group_key,
    make_node_address,
    make_task_key,
)
from tests.support.vectors import Vector, vectors_of

# By the text of the documents, every answer ranks: tests/vectors/SUPERSEDED.md.
PROFILES = {"seed_current": CRYNUX_DOCS, "relay_head": RELAY}
REASONS = {
    "Timeout": AbortReason.TIMEOUT,
    "IncorrectResult": AbortReason.INCORRECT_RESULT,
    "CreatorValidationTimeout": AbortReason.CREATOR_VALIDATION_TIMEOUT,
}


def ends_fruitless(history: History, name: str, reason: str) -> None:
    if reason == "Timeout":
        history.times_out(name)
    else:
        history.aborts(name, REASONS[reason])


def build_history_of_times(members: list[Vector]) -> History:
    """Return the history of a group whose members have start and submission times."""
    history = History().creates(*(m["node"] for m in sorted(members, key=itemgetter("sequence"))))
    timed_steps: list[tuple[int, int, Vector]] = []
    for member in members:
        timed_steps += [(member["start"], 0, member), (member["submitted"] or 0, 1, member)]
        timed_steps.append((member.get("aborted_at", 0), 2, member))
    for time, step, member in sorted(timed_steps, key=itemgetter(0, 1)):
        if time:
            apply_step(history.after(time - history.time), step, member)
    return history.closes("group", *(member["node"] for member in members))


def apply_step(history: History, step: int, member: Vector) -> None:
    name = member["node"]
    if step == 0:
        history.starts(name, name)
    elif step == 1 and member["status"] == "ErrorReported":
        history.reports_error(name)
    elif step == 1:
        history.submits(name)
    else:
        ends_fruitless(history, name, member["abort_reason"])


def build_history_of_statuses(statuses: list[str]) -> History:
    """Return the history of a group whose members have only a status at its
    close, in time order.
    """
    history = History()
    names = [str(n) for n in range(len(statuses))]
    for name in names:
        history.creates(name).starts(name, name)
    for name, status in zip(names, statuses, strict=True):
        history.after(10)
        state, _, reason = status.partition("/")
        if reason:
            ends_fruitless(history, name, reason)
        elif "ErrorReported" in state:
            history.reports_error(name)
        else:
            history.submits(name)
        if state == "EndGroupRefund":
            history.is_refunded(name)
    return history.closes("group", *names)


def result_of(history: History, profile: str) -> tuple[GroupResult, dict[str, int]]:
    _, changes = fold_history(history, PROFILES[profile])
    (result,) = changes.results
    return result, {entry.node: entry.score for entry in changes.scores}


@vectors_of("group_scores")
def test_group_scores_match_vectors(vector):
    if "members_already_in_time_order" in vector:
        check_by_statuses(vector)
    elif isinstance(vector["members"][0], str):
        check_rejection(vector)
    else:
        check_by_times(vector)


def check_by_times(vector: Vector) -> None:
    result, pooled = result_of(build_history_of_times(vector["members"]), vector["profile"])
    scores = {member.node: member.score for member in result.members}

    assert scores == {make_node_address(name): score for name, score in vector["expected"].items()}
    assert result.scored == any(score is not None for score in scores.values())
    if vector["profile"] == "seed_current":
        assert pooled == {name: score for name, score in scores.items() if score is not None}


def check_by_statuses(vector: Vector) -> None:
    statuses = vector["members_already_in_time_order"]
    result, pooled = result_of(build_history_of_statuses(statuses), vector["profile"])
    assert [member.score for member in result.members] == vector["expected"]

    zeros = vector["timeout_zero_persisted_to_long_term"] or [False] * len(statuses)
    names = [make_node_address(str(n)) for n in range(len(statuses))]
    assert [pooled.get(name) == 0 for name in names] == zeros
    if vector["persisted_to_long_term"] is not None:
        assert [name in pooled for name in names] == vector["persisted_to_long_term"]


def check_rejection(vector: Vector) -> None:
    result, pooled = result_of(build_history_of_statuses(vector["members"]), vector["profile"])
    expected = vector["expected"]
    assert result.scored is not expected["rejected"]
    if expected["rejected"]:
        assert pooled == {}
        assert {member.score for member in result.members} == {None}


@vectors_of("figure_tables")
def test_scores_match_the_tables_of_the_figure(vector):
    statuses = [
        "EndAborted/Timeout" if status == "Timeout" else status
        for status in vector["status_in_submission_order"]
    ]
    result, _ = result_of(build_history_of_statuses(statuses), "seed_current")
    # The text is newer than the figure: nobody submitted, nobody scores.
    expected = vector["score"] if any(vector["score"]) else [None, None, None]

    assert [member.score for member in result.members] == expected


@vectors_of("group_payment")
def test_fees_are_shared_in_proportion_to_task_scores(vector):
    inputs = vector["input"]
    fee = int(inputs.get("fee_wei") or inputs["fee"])
    scores = inputs.get("scores_in_group_order") or inputs["task_scores"]
    expected = vector.get("expected_wei") or vector["expected"]

    assert split_fee_by_scores(fee, scores) == [int(share) for share in expected]


@vectors_of("penalty_decision/persist_group_score_on_abort_test")
def test_abort_after_the_group_closed_keeps_the_score(vector):
    names = ("1", "2", "3")
    history = History()
    for name in names:
        history.starts(name, name)
    if vector["qos_score"] is None:
        # All members timed out, so there is no score to keep.
        history.times_out("2").times_out("1").times_out("3").closes("group", *names)
    else:
        history.after(1).submits("1").after(1).submits("2").after(1).submits("3")
        history.closes("group", *names).aborts("2", AbortReason.INCORRECT_RESULT)
    _, changes = fold_history(history, RELAY)
    score_by_node = {entry.node: entry.score for entry in changes.scores}

    assert (make_node_address("2") in score_by_node) == vector["update"]
    assert score_by_node.get(make_node_address("2")) == vector["qos_score"]
    assert changes.results[0].group == make_group_key("group")
    assert changes.results[0].members[1].task == make_task_key("2")


def test_fee_split_without_members_is_rejected():
    with pytest.raises(ValueError, match="at least one member"):
        split_fee_by_scores(100, [])


def test_last_member_receives_the_entire_fee_if_no_member_scores():
    assert split_fee_by_scores(100, [0, 0]) == [0, 100]
