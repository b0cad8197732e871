"""Finds validation groups in the relay's rows, which do not name groups. Pure functions.

The rows that end a group are written in one transaction, in the order of elapsed time, so
consecutive ids are the ranking (docs/explanation/feed.md#groups). Whether rows form one group is
decided by the rows around them alone, so that any part of a stream gives the same groups as the
whole stream. The possible end rows of a group follow from the relay's comparison of results
(docs/reference/crynux-relay.md#order-inside-one-transaction).
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import attrgetter
from typing import NamedTuple

from oracle.chain.feed.relay_rows import GROUP_TIMEOUT, INCORRECT, abort_of
from oracle.domain.feed_rows import SAME_SECONDS, FeedRow
from oracle.domain.ids import GroupKey

# Maximum id distance of rows of one transaction; other transactions write concurrently.
NEAR = 8
# Rows within this id distance decide which group a row belongs to.
AROUND = 8 * NEAR
GROUP_SIZE = 3
_PAIR = 2
_ERROR, _ANSWERED = 3, (3, 4)
_LEAVINGS = ("NodeQuit", "NodeKickedOut", "NodeSlashed")
# Images of one prompt differ in a few hash bits between GPUs; texts do not differ.
_PICTURE_BYTES = 8
_PICTURE_BITS = 5


class SubmittedResult(NamedTuple):
    """The result that a node submitted for a task, as hex, and the id of the row with it."""

    id: int
    score: str


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """One group: its rows in the order of elapsed time, the fastest first.

    `invalid` are the rows with an invalid result. Members that timed out have no row here.
    """

    rows: tuple[FeedRow, ...]
    invalid: tuple[FeedRow, ...] = ()

    @property
    def key(self) -> GroupKey:
        """The sha256 of the sorted member tasks: the stream has no name for the group."""
        members = sorted(bytes.fromhex(row.task[2:]) for row in self.rows)
        return GroupKey("0x" + hashlib.sha256(b"".join(members)).hexdigest())

    @property
    def first_id(self) -> int:
        """The id of its first row, before which all its members had ended or answered."""
        return self.rows[0].id

    @property
    def missing(self) -> int:
        """The number of members without a row in the group's transaction."""
        return GROUP_SIZE - len(self.rows)


@dataclass(frozen=True, slots=True)
class GroupsFound:
    """Groups in the order of their first rows, and rows that could be of more than one."""

    groups: list[FoundGroup]
    ambiguous: list[FeedRow]


@dataclass(slots=True)
class _Core:
    """The rows of a group without an invalid result: a winner with its refunds, or two aborts.

    `accepts_invalid`: an invalid result near it may belong to it. `winner` is None if two error
    reports agree, so that there is no winner. `is_doubtful`: a nearby row may belong to another
    group too.
    """

    rows: list[FeedRow]
    takes_invalid: bool
    winner: FeedRow | None = None
    is_doubtful: bool = False
    invalid: list[FeedRow] = field(default_factory=list)

    def can_take(self, wrong: FeedRow, scores: Mapping[str, SubmittedResult]) -> bool:
        """Return whether an invalid result may be of this group: near, unlike the winner's."""
        if not self.takes_invalid or not all(_is_near(row, wrong) for row in self.nearest):
            return False
        return self.winner is None or not _is_alike(self.winner, wrong, scores)

    @property
    def nearest(self) -> list[FeedRow]:
        """The rows that an invalid result has to be near."""
        return self.rows if self.winner is None else [self.winner]


def groups_in(rows: Sequence[FeedRow], scores: Mapping[str, SubmittedResult]) -> GroupsFound:
    """Find the groups among readable rows of one stream, in order of their ids.

    Args:
        rows: the rows to search, and the rows within `CONTEXT_IDS` ids of them.
        scores: the first result submitted for each task; rows before it are not affected.
    """
    found = GroupsFound([], [])
    aborts = [(row, *abort_of(row)) for row in rows if row.kind == "TaskEndAborted"]
    rejected = {
        row: (issuer, status)
        for row, reason, status, issuer in aborts
        if reason == INCORRECT and status in _ANSWERED
    }
    cores = [*_majorities(rows, scores, found), *_disagreements(rejected, scores, found)]
    _add_wrong_results(rows, cores, scores, found)
    for core in cores:
        members = sorted([*core.rows, *core.invalid], key=lambda row: row.id)
        if core.is_doubtful or len(members) > GROUP_SIZE:
            found.ambiguous.extend(members)
        else:
            found.groups.append(FoundGroup(tuple(members), tuple(core.invalid)))
    for row, reason, _, _ in aborts:
        if reason == GROUP_TIMEOUT:
            found.groups.append(FoundGroup((row,)))
    found.groups.sort(key=lambda group: group.first_id)
    return found


def _majorities(
    rows: Sequence[FeedRow], scores: Mapping[str, SubmittedResult], found: GroupsFound
) -> list[_Core]:
    """Return the groups in which two or three results agree; the first one is validated."""
    winners = [row for row in rows if row.kind == "TaskValidated"]
    refunds = [row for row in rows if row.kind == "TaskEndGroupRefund"]
    fitting = {
        refund: [
            winner
            for winner in rows_between(winners, refund.id - NEAR, refund.id)
            if _is_consistent(winner, refund, refunds, scores)
        ]
        for refund in refunds
    }
    # A refund belongs to a winner; an invalid result may be of a group that is not visible.
    found.ambiguous.extend(row for row, candidates in fitting.items() if len(candidates) != 1)
    doubtful = {
        winner for candidates in fitting.values() if len(candidates) > 1 for winner in candidates
    }
    members: dict[FeedRow, list[FeedRow]] = {}
    for row, candidates in fitting.items():
        if len(candidates) == 1:
            members.setdefault(candidates[0], []).append(row)
    return [
        _Core(
            [winner, *agreeing],
            takes_invalid=len(agreeing) + 1 < GROUP_SIZE,
            winner=winner,
            is_doubtful=winner in doubtful,
        )
        for winner, agreeing in members.items()
    ]


def _is_consistent(
    winner: FeedRow,
    refund: FeedRow,
    refunds: Sequence[FeedRow],
    scores: Mapping[str, SubmittedResult],
) -> bool:
    """Return whether a refund can be of this winner's group, and the group is not full before."""
    if not _is_near(winner, refund):
        return False
    if not _is_alike(winner, refund, scores):
        return False
    between = [
        one
        for one in rows_between(refunds, winner.id + 1, refund.id - 1)
        if _is_alike(winner, one, scores)
    ]
    return len(between) + 1 < GROUP_SIZE


def _disagreements(
    rejected: Mapping[FeedRow, tuple[str, int]],
    scores: Mapping[str, SubmittedResult],
    found: GroupsFound,
) -> list[_Core]:
    """Return the groups that ended without a winner: two or three aborts of one creator.

    There are three cases: three different results; two, if the third member ended earlier; or two
    error reports, which agree but do not win, so that a third member's result is invalid.
    """
    every = list(rejected)
    near = {
        row: {
            other
            for other in rows_between(every, row.id - NEAR, row.id + NEAR)
            if rejected[other][0] == issuer and _is_near(other, row)
        }
        for row, (issuer, _) in rejected.items()
    }
    cores = []
    for row, group in near.items():
        if len(group) < _PAIR:
            continue
        errors = sum(rejected[member][1] == _ERROR for member in group)
        is_apart = all(near[member] == group for member in group)
        if not is_apart or not _can_disagree(group, errors, scores):
            found.ambiguous.append(row)
            continue
        members = sorted(group, key=lambda member: member.id)
        if members[0] is row:
            cores.append(_Core(members, takes_invalid=errors == _PAIR))
    return cores


def _can_disagree(group: set[FeedRow], errors: int, scores: Mapping[str, SubmittedResult]) -> bool:
    """Return whether these aborts can be exactly those of one group.

    Two error reports agree with each other, so that of three members the third would be invalid.
    """
    if len(group) > GROUP_SIZE or (len(group) == GROUP_SIZE and errors >= _PAIR):
        return False
    return not any(_is_alike(one, other, scores) for one, other in combinations(group, 2))


def _add_wrong_results(
    rows: Sequence[FeedRow],
    cores: Sequence[_Core],
    scores: Mapping[str, SubmittedResult],
    found: GroupsFound,
) -> None:
    """Assign each invalid result to the only group that it can belong to."""
    by_row = {row: core for core in cores for row in core.nearest}
    hosts = sorted(by_row, key=attrgetter("id"))
    for row in rows:
        if row.kind != "TaskEndInvalidated":
            continue
        close = (by_row[host] for host in rows_between(hosts, row.id - NEAR, row.id + NEAR))
        # Deduplicate by the first row: two aborts of one group may be near the same result.
        unique = {core.rows[0].id: core for core in close}.values()
        candidates = [core for core in unique if core.can_take(row, scores)]
        if len(candidates) > 1:
            # Other transactions rarely write between the rows of one; prefer an adjacent group.
            joined = [core for core in candidates if _is_contiguous(row, core, rows)]
            candidates = joined if len(joined) == 1 else candidates
        if len(candidates) == 1:
            candidates[0].invalid.append(row)
        elif candidates:
            found.ambiguous.append(row)
            for core in candidates:
                core.is_doubtful = True


def _is_contiguous(wrong: FeedRow, core: _Core, rows: Sequence[FeedRow]) -> bool:
    """Return whether only node exits lie between an invalid result and a group."""
    closest = min(core.rows, key=lambda row: abs(row.id - wrong.id))
    low, high = sorted((closest.id, wrong.id))
    return all(row.kind in _LEAVINGS for row in rows_between(rows, low + 1, high - 1))


def rows_between(rows: Sequence[FeedRow], first: int, last: int) -> Sequence[FeedRow]:
    """Return the rows with ids `first_id` to `last_id` inclusive; `rows` are in order of ids."""
    low = bisect_left(rows, first, key=attrgetter("id"))
    return rows[low : bisect_right(rows, last, key=attrgetter("id"))]


def _is_near(one: FeedRow, other: FeedRow) -> bool:
    is_same_time = abs(one.seen_to - other.seen_to) < SAME_SECONDS
    return abs(one.id - other.id) <= NEAR and is_same_time


def _is_alike(row: FeedRow, other_row: FeedRow, scores: Mapping[str, SubmittedResult]) -> bool:
    """Return whether two results agree: equal, or images whose hashes differ in a few bits."""
    one, other = _score_before(row, scores), _score_before(other_row, scores)
    if one is None or other is None:
        return False
    if one.lower() == other.lower():
        return True
    try:
        left, right = (
            bytes.fromhex(one.removeprefix("0x")),
            bytes.fromhex(other.removeprefix("0x")),
        )
    except ValueError:
        return False
    if len(left) != len(right) or not left or len(left) % _PICTURE_BYTES:
        return False
    return all(bits < _PICTURE_BITS for bits in _differences(left, right))


def _score_before(row: FeedRow, scores: Mapping[str, SubmittedResult]) -> str | None:
    found = scores.get(row.task)
    return found.score if found is not None and found.id < row.id else None


def _differences(left: bytes, right: bytes) -> Iterator[int]:
    for one, other in zip(_cut(left), _cut(right), strict=True):
        yield (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _cut(content: bytes) -> Iterator[bytes]:
    return (
        content[first : first + _PICTURE_BYTES] for first in range(0, len(content), _PICTURE_BYTES)
    )
