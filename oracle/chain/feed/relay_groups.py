"""Finds validation groups in the relay's rows, which do not name their group.

The relay writes the rows that end the tasks of a group in one transaction, in the order of elapsed
time, so that the order of their ids is the ranking (docs/explanation/feed.md#groups). Only the
rows near a row determine its group, so that any part of a stream gives the same groups as the
whole stream. Which rows can end a group follows from the relay's comparison of results
(docs/reference/crynux-relay.md#order-inside-one-transaction). All functions are pure.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import attrgetter
from typing import NamedTuple

from oracle.chain.feed.relay_rows import GROUP_TIMEOUT, INCORRECT, parse_abort_row
from oracle.domain.feed_rows import SAME_TRANSACTION_SECONDS, FeedRow
from oracle.domain.ids import GroupKey

# Maximum gap between the ids of rows that one transaction writes. Gaps occur because concurrent
# transactions take the ids in between.
MAX_ID_GAP = 8
# A row is assigned to a group by looking only at rows within this many ids of it.
CONTEXT_IDS = 8 * MAX_ID_GAP
GROUP_SIZE = 3
_PAIR_SIZE = 2
_ERROR_STATUS = 3
_ANSWERED_STATUSES = (3, 4)
_NODE_EXIT_KINDS = ("NodeQuit", "NodeKickedOut", "NodeSlashed")
# For one prompt, different GPUs produce identical text, but the perceptual hashes of their images
# differ by a few bits. Images count as different if at least `_MIN_DIFFERENT_BITS` bits differ.
_IMAGE_HASH_BYTES = 8
_MIN_DIFFERENT_BITS = 5


class SubmittedResult(NamedTuple):
    """The result that a node submitted for a task, as hex, with the id of its row."""

    id: int
    score: str


@dataclass(frozen=True, slots=True)
class DetectedGroup:
    """A validation group found in the rows.

    Its rows are ordered from the shortest to the longest elapsed time. `invalid` are the rows with
    an invalid result. Members that timed out have no row.
    """

    rows: tuple[FeedRow, ...]
    invalid: tuple[FeedRow, ...] = ()

    @property
    def key(self) -> GroupKey:
        """The SHA-256 of the sorted task keys, which identifies the group.

        The stream does not name its groups.
        """
        task_keys = sorted(bytes.fromhex(row.task[2:]) for row in self.rows)
        return GroupKey("0x" + hashlib.sha256(b"".join(task_keys)).hexdigest())

    @property
    def first_id(self) -> int:
        """The id of the group's first row.

        All members had ended or answered before this row.
        """
        return self.rows[0].id

    @property
    def missing_count(self) -> int:
        """The number of members that have no row in the group's transaction."""
        return GROUP_SIZE - len(self.rows)


@dataclass(frozen=True, slots=True)
class GroupSearchResult:
    """The groups found, in the order of their first rows, and the ambiguous rows.

    An ambiguous row may belong to several groups.
    """

    groups: list[DetectedGroup]
    ambiguous: list[FeedRow]


@dataclass(slots=True)
class _CandidateGroup:
    """The rows of a possible group, before invalid results are added.

    These are a winner and its refunds, or aborts. `accepts_invalid` is whether a nearby invalid
    result may belong to the group. `winner` is None if the group ended without a winner.
    `is_ambiguous` is whether a nearby row may belong either to this group or to another one.
    """

    rows: list[FeedRow]
    accepts_invalid: bool
    winner: FeedRow | None = None
    is_ambiguous: bool = False
    invalid: list[FeedRow] = field(default_factory=list)

    def can_include_invalid_result(
        self, invalid_row: FeedRow, scores: Mapping[str, SubmittedResult]
    ) -> bool:
        """Return whether an invalid result may belong to the group.

        Such a result is near the group, and is not the winner's result.
        """
        if not self.accepts_invalid or not all(
            _are_rows_near(row, invalid_row) for row in self.anchor_rows
        ):
            return False
        return self.winner is None or not _have_matching_results(self.winner, invalid_row, scores)

    @property
    def anchor_rows(self) -> list[FeedRow]:
        """The rows near which an invalid result must be."""
        return self.rows if self.winner is None else [self.winner]


def find_validation_groups(
    rows: Sequence[FeedRow], scores: Mapping[str, SubmittedResult]
) -> GroupSearchResult:
    """Find the validation groups among a stream's readable rows.

    Args:
        rows: the rows to search, and the rows within `CONTEXT_IDS` ids of them, in order of ids.
        scores: the first result submitted for each task; used only for rows after the result.
    """
    result = GroupSearchResult([], [])
    aborts = [(row, *parse_abort_row(row)) for row in rows if row.kind == "TaskEndAborted"]
    rejected_aborts = {
        row: (issuer, status)
        for row, reason, status, issuer in aborts
        if reason == INCORRECT and status in _ANSWERED_STATUSES
    }
    candidate_groups = [
        *_find_majority_groups(rows, scores, result),
        *_find_groups_without_winner(rejected_aborts, scores, result),
    ]
    _assign_invalid_results(rows, candidate_groups, scores, result)
    for candidate_group in candidate_groups:
        member_rows = sorted(
            [*candidate_group.rows, *candidate_group.invalid], key=lambda row: row.id
        )
        if candidate_group.is_ambiguous or len(member_rows) > GROUP_SIZE:
            result.ambiguous.extend(member_rows)
        else:
            result.groups.append(DetectedGroup(tuple(member_rows), tuple(candidate_group.invalid)))
    for row, reason, _, _ in aborts:
        if reason == GROUP_TIMEOUT:
            result.groups.append(DetectedGroup((row,)))
    result.groups.sort(key=lambda group: group.first_id)
    return result


def _find_majority_groups(
    rows: Sequence[FeedRow], scores: Mapping[str, SubmittedResult], result: GroupSearchResult
) -> list[_CandidateGroup]:
    """Find the groups in which two or three results agree and the first is validated."""
    validated_rows = [row for row in rows if row.kind == "TaskValidated"]
    refunds = [row for row in rows if row.kind == "TaskEndGroupRefund"]
    winners_by_refund = {
        refund: [
            winner
            for winner in slice_rows_by_id(validated_rows, refund.id - MAX_ID_GAP, refund.id)
            if _can_be_in_same_group(winner, refund, refunds, scores)
        ]
        for refund in refunds
    }
    # Every refund has a winner, so a refund is ambiguous unless exactly one winner fits. An
    # invalid result, in contrast, may have no group.
    result.ambiguous.extend(
        row for row, candidates in winners_by_refund.items() if len(candidates) != 1
    )
    doubtful_winners = {
        winner
        for candidates in winners_by_refund.values()
        if len(candidates) > 1
        for winner in candidates
    }
    refunds_by_winner: dict[FeedRow, list[FeedRow]] = {}
    for row, candidates in winners_by_refund.items():
        if len(candidates) == 1:
            refunds_by_winner.setdefault(candidates[0], []).append(row)
    return [
        _CandidateGroup(
            [winner, *agreeing_refunds],
            accepts_invalid=len(agreeing_refunds) + 1 < GROUP_SIZE,
            winner=winner,
            is_ambiguous=winner in doubtful_winners,
        )
        for winner, agreeing_refunds in refunds_by_winner.items()
    ]


def _can_be_in_same_group(
    winner: FeedRow,
    refund: FeedRow,
    refunds: Sequence[FeedRow],
    scores: Mapping[str, SubmittedResult],
) -> bool:
    """Return whether a refund can belong to a winner's group.

    Its result must agree with the winner's, and earlier refunds must not have filled the group.
    """
    if not _are_rows_near(winner, refund):
        return False
    if not _have_matching_results(winner, refund, scores):
        return False
    refunds_between = [
        earlier_refund
        for earlier_refund in slice_rows_by_id(refunds, winner.id + 1, refund.id - 1)
        if _have_matching_results(winner, earlier_refund, scores)
    ]
    return len(refunds_between) + 1 < GROUP_SIZE


def _find_groups_without_winner(
    rejected_aborts: Mapping[FeedRow, tuple[str, int]],
    scores: Mapping[str, SubmittedResult],
    result: GroupSearchResult,
) -> list[_CandidateGroup]:
    """Find the groups without a winner, made of two or three aborts of one creator.

    There are three cases. In the first case, three results differ. In the second case, two results
    differ, and the third member ended earlier. In the third case, two members reported errors: the
    reports agree but do not win, and the result of the third member is invalid.
    """
    rejected_rows = list(rejected_aborts)
    nearby_rows = {
        row: {
            nearby_row
            for nearby_row in slice_rows_by_id(
                rejected_rows, row.id - MAX_ID_GAP, row.id + MAX_ID_GAP
            )
            if rejected_aborts[nearby_row][0] == issuer and _are_rows_near(nearby_row, row)
        }
        for row, (issuer, _) in rejected_aborts.items()
    }
    candidate_groups = []
    for row, group in nearby_rows.items():
        if len(group) < _PAIR_SIZE:
            continue
        error_count = sum(rejected_aborts[member][1] == _ERROR_STATUS for member in group)
        is_separate = all(nearby_rows[member] == group for member in group)
        if not is_separate or not _is_valid_disagreement(group, error_count, scores):
            result.ambiguous.append(row)
            continue
        members = sorted(group, key=lambda member: member.id)
        if members[0] is row:
            candidate_groups.append(
                _CandidateGroup(members, accepts_invalid=error_count == _PAIR_SIZE)
            )
    return candidate_groups


def _is_valid_disagreement(
    group: set[FeedRow], error_count: int, scores: Mapping[str, SubmittedResult]
) -> bool:
    """Return whether exactly these aborts can belong to one group.

    If there are two error reports, they agree, so that a third member would have an invalid result
    instead of an abort.
    """
    if len(group) > GROUP_SIZE or (len(group) == GROUP_SIZE and error_count >= _PAIR_SIZE):
        return False
    return not any(
        _have_matching_results(left, right, scores) for left, right in combinations(group, 2)
    )


def _assign_invalid_results(
    rows: Sequence[FeedRow],
    candidates: Sequence[_CandidateGroup],
    scores: Mapping[str, SubmittedResult],
    result: GroupSearchResult,
) -> None:
    """Assign each invalid result to its group if only one group is possible."""
    candidate_by_row = {
        row: candidate for candidate in candidates for row in candidate.anchor_rows
    }
    anchor_rows = sorted(candidate_by_row, key=attrgetter("id"))
    for row in rows:
        if row.kind != "TaskEndInvalidated":
            continue
        nearby_candidates = (
            candidate_by_row[anchor_row]
            for anchor_row in slice_rows_by_id(
                anchor_rows, row.id - MAX_ID_GAP, row.id + MAX_ID_GAP
            )
        )
        # Two aborts of the same group may be near this result, so groups are deduplicated.
        unique_candidates = {
            candidate.rows[0].id: candidate for candidate in nearby_candidates
        }.values()
        matching_candidates = [
            candidate
            for candidate in unique_candidates
            if candidate.can_include_invalid_result(row, scores)
        ]
        if len(matching_candidates) > 1:
            # Prefer an adjacent group, because other transactions rarely write between the rows of
            # one transaction.
            adjacent_candidates = [
                candidate
                for candidate in matching_candidates
                if _is_adjacent_to_group(row, candidate, rows)
            ]
            matching_candidates = (
                adjacent_candidates if len(adjacent_candidates) == 1 else matching_candidates
            )
        if len(matching_candidates) == 1:
            matching_candidates[0].invalid.append(row)
        elif matching_candidates:
            result.ambiguous.append(row)
            for candidate in matching_candidates:
                candidate.is_ambiguous = True


def _is_adjacent_to_group(
    invalid_row: FeedRow, candidate: _CandidateGroup, rows: Sequence[FeedRow]
) -> bool:
    """Return whether only exits of nodes lie between an invalid result and a group."""
    closest_row = min(candidate.rows, key=lambda row: abs(row.id - invalid_row.id))
    low_id, high_id = sorted((closest_row.id, invalid_row.id))
    return all(
        row.kind in _NODE_EXIT_KINDS for row in slice_rows_by_id(rows, low_id + 1, high_id - 1)
    )


def slice_rows_by_id(rows: Sequence[FeedRow], first_id: int, last_id: int) -> Sequence[FeedRow]:
    """Return the rows with ids from `first_id` to `last_id`.

    Both ids are included. The rows are in id order.
    """
    start_index = bisect_left(rows, first_id, key=attrgetter("id"))
    return rows[start_index : bisect_right(rows, last_id, key=attrgetter("id"))]


def _are_rows_near(left: FeedRow, right: FeedRow) -> bool:
    is_same_time = abs(left.seen_to - right.seen_to) < SAME_TRANSACTION_SECONDS
    return abs(left.id - right.id) <= MAX_ID_GAP and is_same_time


def _have_matching_results(
    row: FeedRow, other_row: FeedRow, scores: Mapping[str, SubmittedResult]
) -> bool:
    """Return whether two results are equal, or are images with nearly equal hashes.

    The hashes may differ in only a few bits.
    """
    score = _find_earlier_result(row, scores)
    other_score = _find_earlier_result(other_row, scores)
    if score is None or other_score is None:
        return False
    if score.lower() == other_score.lower():
        return True
    try:
        score_bytes = bytes.fromhex(score.removeprefix("0x"))
        other_score_bytes = bytes.fromhex(other_score.removeprefix("0x"))
    except ValueError:
        return False
    if (
        len(score_bytes) != len(other_score_bytes)
        or not score_bytes
        or len(score_bytes) % _IMAGE_HASH_BYTES
    ):
        return False
    return all(
        different_bits < _MIN_DIFFERENT_BITS
        for different_bits in _iterate_bit_differences(score_bytes, other_score_bytes)
    )


def _find_earlier_result(row: FeedRow, scores: Mapping[str, SubmittedResult]) -> str | None:
    submitted_result = scores.get(row.task)
    return (
        submitted_result.score
        if submitted_result is not None and submitted_result.id < row.id
        else None
    )


def _iterate_bit_differences(score_bytes: bytes, other_score_bytes: bytes) -> Iterator[int]:
    for image_hash, other_image_hash in zip(
        _split_image_hashes(score_bytes), _split_image_hashes(other_score_bytes), strict=True
    ):
        yield (int.from_bytes(image_hash) ^ int.from_bytes(other_image_hash)).bit_count()


def _split_image_hashes(content: bytes) -> Iterator[bytes]:
    return (
        content[offset : offset + _IMAGE_HASH_BYTES]
        for offset in range(0, len(content), _IMAGE_HASH_BYTES)
    )
