"""Groups are reconstructed from a stream without groups:
the examples of docs/explanation/feed.md#groups.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.chain.feed.relay_groups import CONTEXT_IDS, SubmittedResult, find_validation_groups
from oracle.domain.feed_rows import FeedRow

CREATOR = "0x" + "cc" * 20
OTHER = "0x" + "dd" * 20


def task(number: int) -> str:
    return f"0x{number:064x}"


def row(number: int, kind: str, of: int, seen: int = 100) -> FeedRow:
    return FeedRow(number, kind, "0x" + "11" * 20, task(of), "{}", seen_to=seen)


def abort(number: int, of: int, **args: object) -> FeedRow:
    return replace(row(number, "TaskEndAborted", of), args=json.dumps(args))


def wrong(number: int, of: int, issuer: str = CREATOR, status: int = 4) -> FeedRow:
    args = {"abort_reason": 3, "last_status": status, "abort_issuer": issuer}
    return abort(number, of, **args)


def list_group_members(rows: list[FeedRow], scores: Mapping[int, str]) -> list[list[int]]:
    """Return the numbers of the members of each group."""
    groups = find_validation_groups(
        sorted(rows, key=lambda feed_row: feed_row.id), handed_in(scores)
    ).groups
    return [[int(feed_row.task, 16) for feed_row in group.rows] for group in groups]


def handed_in(scores: Mapping[int, str]) -> dict[str, SubmittedResult]:
    """Return the scores that nodes had submitted before any of these rows."""
    return {task(number): SubmittedResult(0, score) for number, score in scores.items()}


ALIKE = {5: "0xaa", 6: "0xaa", 7: "0xaa"}


def test_winner_and_its_refunds_form_a_group():
    rows = [
        row(41, "TaskValidated", 7),
        row(42, "TaskStarted", 9),
        row(43, "TaskEndGroupRefund", 5),
        row(44, "TaskEndGroupRefund", 6),
        row(97, "TaskEndGroupSuccess", 7),
    ]
    assert list_group_members(rows, ALIKE) == [[7, 5, 6]]


def test_invalidated_result_before_the_winner_joins_the_group():
    rows = [
        row(50, "TaskEndInvalidated", 1),
        row(51, "TaskValidated", 2),
        row(52, "TaskEndGroupRefund", 3),
    ]
    (group,) = find_validation_groups(rows, handed_in({1: "0xbb", 2: "0xaa", 3: "0xaa"})).groups
    assert [feed_row.id for feed_row in group.rows] == [50, 51, 52]
    assert [feed_row.id for feed_row in group.invalid] == [50]


def test_single_task_does_not_form_a_group():
    assert (
        list_group_members([row(1, "TaskValidated", 7), row(2, "TaskEndSuccess", 7)], ALIKE) == []
    )


def test_two_finishers_form_a_group_of_two():
    assert list_group_members(
        [row(1, "TaskValidated", 7), row(2, "TaskEndGroupRefund", 5)], ALIKE
    ) == [[7, 5]]


def test_refund_joins_the_group_with_the_same_result():
    rows = [
        row(1, "TaskValidated", 7),
        row(2, "TaskValidated", 8),
        row(3, "TaskEndGroupRefund", 5),
        row(4, "TaskEndGroupRefund", 9),
    ]
    assert list_group_members(rows, {7: "0xaa", 5: "0xaa", 8: "0xbb", 9: "0xbb"}) == [
        [7, 5],
        [8, 9],
    ]


def test_adjacent_groups_with_equal_results_are_ambiguous():
    rows = [
        row(1, "TaskValidated", 7),
        row(2, "TaskValidated", 8),
        row(3, "TaskEndGroupRefund", 5),
        row(4, "TaskEndGroupRefund", 6),
    ]
    grouping = find_validation_groups(rows, handed_in(dict.fromkeys((5, 6, 7, 8), "0xaa")))
    assert grouping.groups == []
    assert {feed_row.id for feed_row in grouping.ambiguous} == {3, 4}


def test_refund_after_a_complete_group_joins_the_next_group():
    rows = [row(1, "TaskValidated", 1), row(4, "TaskValidated", 4)]
    rows += [row(number, "TaskEndGroupRefund", number) for number in (2, 3, 5, 6)]
    assert list_group_members(rows, dict.fromkeys(range(1, 7), "0xaa")) == [[1, 2, 3], [4, 5, 6]]


def test_similar_image_hashes_match_within_bit_threshold():
    rows = [row(1, "TaskValidated", 7), row(2, "TaskEndGroupRefund", 5)]
    first = "0x" + "00" * 16
    assert list_group_members(rows, {7: first, 5: "0x" + "0f" + "00" * 15}) == [[7, 5]]
    assert list_group_members(rows, {7: first, 5: "0x" + "1f" + "00" * 15}) == []


def test_rows_far_apart_in_id_or_time_are_not_grouped():
    refund = row(2, "TaskEndGroupRefund", 5)
    assert list_group_members([row(1, "TaskValidated", 7, seen=90), refund], ALIKE) == []
    late = row(10, "TaskEndGroupRefund", 5)
    assert list_group_members([row(1, "TaskValidated", 7), late], ALIKE) == []


def test_three_invalidated_results_of_a_creator_form_a_group():
    rows = [wrong(1, 7), wrong(2, 5, status=3), wrong(3, 6), wrong(4, 8, issuer=OTHER)]
    assert list_group_members(rows, {}) == [[7, 5, 6]]


def test_four_invalidated_results_of_a_creator_are_ambiguous():
    grouping = find_validation_groups([wrong(number, number) for number in range(1, 5)], {})
    assert grouping.groups == []
    assert len(grouping.ambiguous) == 4


def test_group_with_timeouts_can_have_a_single_finisher():
    args = {"abort_reason": 5, "last_status": 4, "abort_issuer": CREATOR}
    assert list_group_members([abort(1, 7, **args)], {}) == [[7]]


def test_result_submitted_after_row_time_is_ignored():
    """A later result would change the group that was reconstructed before its arrival."""
    rows = [row(41, "TaskValidated", 7), row(43, "TaskEndGroupRefund", 5)]
    late = handed_in(ALIKE) | {task(5): SubmittedResult(44, "0xaa")}
    assert find_validation_groups(rows, late).groups == []


def test_two_invalidated_results_of_a_creator_form_a_group():
    assert list_group_members([wrong(1, 7), wrong(2, 5, status=3)], {7: "0xaa"}) == [[7, 5]]


def test_matching_invalidated_results_are_ambiguous():
    grouping = find_validation_groups([wrong(1, 7), wrong(2, 5)], handed_in(ALIKE))
    assert grouping.groups == []
    assert len(grouping.ambiguous) == 2


def test_two_error_reports_form_a_group_with_the_result_between_them():
    rows = [wrong(1, 7, status=3), row(2, "TaskEndInvalidated", 5), wrong(3, 6, status=3)]
    (group,) = find_validation_groups(rows, handed_in({5: "0xaa"})).groups
    assert [feed_row.id for feed_row in group.rows] == [1, 2, 3]
    assert [feed_row.id for feed_row in group.invalid] == [2]


def test_invalidated_result_joins_the_adjacent_group():
    rows = [
        row(1, "TaskValidated", 1),
        row(2, "TaskEndGroupRefund", 2),
        row(4, "TaskEndInvalidated", 4),
        row(5, "TaskValidated", 5),
        row(6, "TaskEndGroupRefund", 6),
    ]
    between = [*rows, row(3, "TaskStarted", 9)]
    alike = {1: "0xaa", 2: "0xaa", 4: "0xbb", 5: "0xcc", 6: "0xcc"}
    assert list_group_members(between, alike) == [[1, 2], [4, 5, 6]]
    assert list_group_members(rows, alike) == []


KINDS = st.sampled_from(["TaskValidated", "TaskEndGroupRefund", "TaskEndInvalidated", "wrong"])


@given(
    row_specs=st.lists(st.tuples(KINDS, st.integers(1, 4), st.booleans()), max_size=150),
    cut=st.integers(0, 150),
)
def test_splitting_the_stream_does_not_change_the_groups(
    row_specs: list[tuple[str, int, bool]], cut: int
):
    rows, scores, number = [], {}, 0
    for kind, step, is_alike in row_specs:
        number += step
        feed_row = wrong(number, number) if kind == "wrong" else row(number, kind, number)
        rows.append(feed_row)
        scores[feed_row.task] = SubmittedResult(0, "0xaa" if is_alike else "0xbb")
    expected_keys = {group.key for group in find_validation_groups(rows, scores).groups}
    found_in_parts = set()
    for part in (rows[:cut], rows[cut:]):
        if not part:
            continue
        first = part[0].id
        last = part[-1].id
        around = [
            other_row
            for other_row in rows
            if first - CONTEXT_IDS <= other_row.id <= last + CONTEXT_IDS
        ]
        ids = {other_row.id for other_row in part}
        groups = find_validation_groups(around, scores).groups
        found_in_parts |= {group.key for group in groups if group.rows[0].id in ids}
    assert found_in_parts == expected_keys
