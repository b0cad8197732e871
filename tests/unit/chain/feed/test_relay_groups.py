"""Groups read from a stream that names none: docs/explanation/feed.md#groups by hand."""

import json
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.chain.feed.relay_groups import AROUND, groups_in
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


def found(rows: list[FeedRow], scores: Mapping[int, str]) -> list[list[int]]:
    """The members of each group, by number."""
    by_task = {task(number): score for number, score in scores.items()}
    groups = groups_in(sorted(rows, key=lambda one: one.id), by_task).groups
    return [[int(one.task, 16) for one in group.rows] for group in groups]


ALIKE = {5: "0xaa", 6: "0xaa", 7: "0xaa"}


def test_a_winner_and_its_refunds_are_one_group_in_the_order_of_their_rows():
    rows = [
        row(41, "TaskValidated", 7),
        row(42, "TaskStarted", 9),
        row(43, "TaskEndGroupRefund", 5),
        row(44, "TaskEndGroupRefund", 6),
        row(97, "TaskEndGroupSuccess", 7),
    ]
    assert found(rows, ALIKE) == [[7, 5, 6]]


def test_a_wrong_result_keeps_its_place_before_the_winner():
    rows = [
        row(50, "TaskEndInvalidated", 1),
        row(51, "TaskValidated", 2),
        row(52, "TaskEndGroupRefund", 3),
    ]
    (group,) = groups_in(rows, {task(1): "0xbb", task(2): "0xaa", task(3): "0xaa"}).groups
    assert [one.id for one in group.rows] == [50, 51, 52]
    assert [one.id for one in group.invalid] == [50]


def test_a_single_task_is_no_group():
    assert found([row(1, "TaskValidated", 7), row(2, "TaskEndSuccess", 7)], ALIKE) == []


def test_two_finishers_are_a_group_of_two():
    assert found([row(1, "TaskValidated", 7), row(2, "TaskEndGroupRefund", 5)], ALIKE) == [[7, 5]]


def test_a_refund_of_another_result_is_of_another_group():
    rows = [
        row(1, "TaskValidated", 7),
        row(2, "TaskValidated", 8),
        row(3, "TaskEndGroupRefund", 5),
        row(4, "TaskEndGroupRefund", 9),
    ]
    assert found(rows, {7: "0xaa", 5: "0xaa", 8: "0xbb", 9: "0xbb"}) == [[7, 5], [8, 9]]


def test_two_groups_of_equal_results_side_by_side_score_nobody():
    rows = [
        row(1, "TaskValidated", 7),
        row(2, "TaskValidated", 8),
        row(3, "TaskEndGroupRefund", 5),
        row(4, "TaskEndGroupRefund", 6),
    ]
    told = groups_in(rows, {task(number): "0xaa" for number in (5, 6, 7, 8)})
    assert told.groups == []
    assert {one.id for one in told.ambiguous} == {3, 4}


def test_a_full_group_before_makes_the_next_one_plain():
    rows = [row(1, "TaskValidated", 1), row(4, "TaskValidated", 4)]
    rows += [row(number, "TaskEndGroupRefund", number) for number in (2, 3, 5, 6)]
    assert found(rows, dict.fromkeys(range(1, 7), "0xaa")) == [[1, 2, 3], [4, 5, 6]]


def test_pictures_agree_that_differ_in_a_few_bits():
    rows = [row(1, "TaskValidated", 7), row(2, "TaskEndGroupRefund", 5)]
    first = "0x" + "00" * 16
    assert found(rows, {7: first, 5: "0x" + "0f" + "00" * 15}) == [[7, 5]]
    assert found(rows, {7: first, 5: "0x" + "1f" + "00" * 15}) == []


def test_rows_far_apart_in_ids_or_time_are_no_group():
    refund = row(2, "TaskEndGroupRefund", 5)
    assert found([row(1, "TaskValidated", 7, seen=90), refund], ALIKE) == []
    late = row(10, "TaskEndGroupRefund", 5)
    assert found([row(1, "TaskValidated", 7), late], ALIKE) == []


def test_three_wrong_results_of_one_creator_are_a_group_without_majority():
    rows = [wrong(1, 7), wrong(2, 5, status=3), wrong(3, 6), wrong(4, 8, issuer=OTHER)]
    assert found(rows, {}) == [[7, 5, 6]]


def test_four_wrong_results_of_one_creator_could_be_any_three():
    told = groups_in([wrong(number, number) for number in range(1, 5)], {})
    assert told.groups == []
    assert len(told.ambiguous) == 4


def test_a_group_timeout_is_a_group_with_one_finisher():
    args = {"abort_reason": 5, "last_status": 4, "abort_issuer": CREATOR}
    assert found([abort(1, 7, **args)], {}) == [[7]]


KINDS = st.sampled_from(["TaskValidated", "TaskEndGroupRefund", "TaskEndInvalidated", "wrong"])


@given(
    said=st.lists(st.tuples(KINDS, st.integers(1, 4), st.booleans()), max_size=150),
    cut=st.integers(0, 150),
)
def test_any_part_of_a_stream_gives_the_groups_of_the_whole(
    said: list[tuple[str, int, bool]], cut: int
):
    rows, scores, number = [], {}, 0
    for kind, step, is_alike in said:
        number += step
        one = wrong(number, number) if kind == "wrong" else row(number, kind, number)
        rows.append(one)
        scores[one.task] = "0xaa" if is_alike else "0xbb"
    whole = {group.key for group in groups_in(rows, scores).groups}
    found_in_parts = set()
    for part in (rows[:cut], rows[cut:]):
        if not part:
            continue
        first, last = part[0].id, part[-1].id
        around = [one for one in rows if first - AROUND <= one.id <= last + AROUND]
        ids = {one.id for one in part}
        groups = groups_in(around, scores).groups
        found_in_parts |= {group.key for group in groups if group.rows[0].id in ids}
    assert found_in_parts == whole
