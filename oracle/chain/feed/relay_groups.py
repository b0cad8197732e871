"""Finds validation groups in the relay's rows, which name none. Pure functions.

A group's ends are written in one transaction, in the order of elapsed time: ids next to each
other are the ranking (docs/explanation/feed.md#groups). Whether rows are one group is decided by
rows around them alone, so that any part of a stream gives the same groups as the whole. Which
ends a group can have follows from the relay's comparison of results
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

# Rows of one transaction lie within so many ids: others write at the same time.
NEAR = 8
# Rows within so many ids decide what a row belongs to: a few links of `NEAR`, and room.
AROUND = 8 * NEAR
GROUP_SIZE = 3
_PAIR = 2
_ERROR, _ANSWERED = 3, (3, 4)
_LEAVINGS = ("NodeQuit", "NodeKickedOut", "NodeSlashed")
# Pictures of one prompt differ in a few bits from card to card; texts do not differ.
_PICTURE_BYTES = 8
_PICTURE_BITS = 5


class SubmittedResult(NamedTuple):
    """What a node handed in for a task, as hex, and the id of the row that says so."""

    id: int
    score: str


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """One group: its rows in the order of elapsed time, the fastest first.

    `invalid` are those whose result was wrong. Members that timed out have no row here.
    """

    rows: tuple[FeedRow, ...]
    invalid: tuple[FeedRow, ...] = ()

    @property
    def key(self) -> GroupKey:
        """The sha256 of its members, sorted: the stream has no name for it."""
        members = sorted(bytes.fromhex(row.task[2:]) for row in self.rows)
        return GroupKey("0x" + hashlib.sha256(b"".join(members)).hexdigest())

    @property
    def first_id(self) -> int:
        """The id of its first row, before which all its members had ended or answered."""
        return self.rows[0].id

    @property
    def missing(self) -> int:
        """How many members have no row in its transaction."""
        return GROUP_SIZE - len(self.rows)


@dataclass(frozen=True, slots=True)
class GroupsFound:
    """Groups in the order of their first rows, and rows that could be of more than one."""

    groups: list[FoundGroup]
    ambiguous: list[FeedRow]


@dataclass(slots=True)
class _Core:
    """Rows of one group without its wrong result: a winner with its refunds, or two aborts.

    `takes_invalid`: a wrong result near it may belong to it. `winner` None: two error reports
    agree, and nobody wins. `is_doubtful`: a row near it may be of another group as well.
    """

    rows: list[FeedRow]
    takes_invalid: bool
    winner: FeedRow | None = None
    is_doubtful: bool = False
    invalid: list[FeedRow] = field(default_factory=list)

    def can_take(self, wrong: FeedRow, scores: Mapping[str, SubmittedResult]) -> bool:
        """Return whether a wrong result may be of this group: near it, and unlike the winner's."""
        if not self.takes_invalid or not all(_is_near(row, wrong) for row in self.nearest):
            return False
        return self.winner is None or not _is_alike(self.winner, wrong, scores)

    @property
    def nearest(self) -> list[FeedRow]:
        """The rows that a wrong result has to be near."""
        return self.rows if self.winner is None else [self.winner]


def groups_in(rows: Sequence[FeedRow], scores: Mapping[str, SubmittedResult]) -> GroupsFound:
    """Find the groups among readable rows of one stream, in order of their ids.

    Args:
        rows: those to look at, and those within `AROUND` ids of them.
        scores: by task, what its node handed in first; it decides nothing of rows before it.
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
    """Return the groups in which two or three results agree: the first of them is validated."""
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
    # A refund belongs to somebody; a wrong result may be of a group that we cannot see.
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
    """Tell whether a refund can be of this winner's group, which is not full before it."""
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

    Three results, none like another; two, the third member having ended before; or two error
    reports, which agree and win nothing, so that a third member's result is wrong beside them.
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
    """Return whether these aborts can be all those of one group.

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
    """Put each wrong result into the only group that it can be of."""
    by_row = {row: core for core in cores for row in core.nearest}
    hosts = sorted(by_row, key=attrgetter("id"))
    for row in rows:
        if row.kind != "TaskEndInvalidated":
            continue
        close = (by_row[host] for host in rows_between(hosts, row.id - NEAR, row.id + NEAR))
        # Each once, by its first row: two aborts of one group are near the same result.
        unique = {core.rows[0].id: core for core in close}.values()
        candidates = [core for core in unique if core.can_take(row, scores)]
        if len(candidates) > 1:
            # Other transactions may write between its rows; mostly none does.
            joined = [core for core in candidates if _is_contiguous(row, core, rows)]
            candidates = joined if len(joined) == 1 else candidates
        if len(candidates) == 1:
            candidates[0].invalid.append(row)
        elif candidates:
            found.ambiguous.append(row)
            for core in candidates:
                core.is_doubtful = True


def _is_contiguous(wrong: FeedRow, core: _Core, rows: Sequence[FeedRow]) -> bool:
    """Return whether nothing stands between a wrong result and a group, but for who left by it."""
    closest = min(core.rows, key=lambda row: abs(row.id - wrong.id))
    low, high = sorted((closest.id, wrong.id))
    return all(row.kind in _LEAVINGS for row in rows_between(rows, low + 1, high - 1))


def rows_between(rows: Sequence[FeedRow], first: int, last: int) -> Sequence[FeedRow]:
    """Return the rows of ids `first` to `last`, both included, of rows in order of their ids."""
    low = bisect_left(rows, first, key=attrgetter("id"))
    return rows[low : bisect_right(rows, last, key=attrgetter("id"))]


def _is_near(one: FeedRow, other: FeedRow) -> bool:
    is_same_time = abs(one.seen_to - other.seen_to) < SAME_SECONDS
    return abs(one.id - other.id) <= NEAR and is_same_time


def _is_alike(row: FeedRow, other_row: FeedRow, scores: Mapping[str, SubmittedResult]) -> bool:
    """Tell whether two results agree: equal, or pictures that differ in a few bits each."""
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
