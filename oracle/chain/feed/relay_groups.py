"""Finds validation groups in the relay's rows, which name none. Pure functions.

A group's ends are written in one transaction, in the order of elapsed time: ids next to each
other are the ranking (docs/explanation/feed.md#groups). Whether rows are one group is decided by
rows around them alone, so that any part of a stream gives the same groups as the whole.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oracle.chain.feed.relay_rows import GROUP_TIMEOUT, INCORRECT, abort_of
from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import GroupKey

# Rows of one transaction lie within so many ids: others write at the same time.
NEAR = 8
# And were seen at the same time, but for the pages of a poll.
SAME_SECONDS = 10
# Rows within so many ids decide what a row belongs to: a few links of `NEAR`, and room.
AROUND = 8 * NEAR
GROUP_SIZE = 3
_ANSWERED = (3, 4)
# Pictures of one prompt differ in a few bits from card to card; texts do not differ.
_PICTURE_BYTES = 8
_PICTURE_BITS = 5


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


@dataclass(frozen=True, slots=True)
class GroupsFound:
    """Groups in the order of their first rows, and rows that could be of more than one."""

    groups: list[FoundGroup]
    ambiguous: list[FeedRow]


def groups_in(rows: Sequence[FeedRow], scores: Mapping[str, str]) -> GroupsFound:
    """Find the groups among readable rows of one stream, in order of their ids.

    Args:
        rows: those to look at, and those within `AROUND` ids of them.
        scores: by task, what its node handed in, as hex.
    """
    found = GroupsFound([], [])
    _majorities(rows, scores, found)
    aborts = [(row, *abort_of(row)) for row in rows if row.kind == "TaskEndAborted"]
    for row, reason, _, _ in aborts:
        if reason == GROUP_TIMEOUT:
            found.groups.append(FoundGroup((row,)))
    _without_majority(
        {row: issuer for row, reason, status, issuer in aborts if _is_wrong(reason, status)},
        found,
    )
    found.groups.sort(key=lambda group: group.rows[0].id)
    return found


def _is_wrong(reason: int, status: int) -> bool:
    return reason == INCORRECT and status in _ANSWERED


def _majorities(rows: Sequence[FeedRow], scores: Mapping[str, str], found: GroupsFound) -> None:
    """Groups in which two or three results agree: the first of them is validated."""
    winners = [row for row in rows if row.kind == "TaskValidated"]
    refunds = [row for row in rows if row.kind == "TaskEndGroupRefund"]
    wrong = [row for row in rows if row.kind == "TaskEndInvalidated"]
    fitting = {
        refund: [one for one in winners if _agrees(one, refund, refunds, scores)]
        for refund in refunds
    }
    members = _assigned(fitting)
    pairs = [one for one, agreeing in members.items() if len(agreeing) + 1 < GROUP_SIZE]
    near = {row: [one for one in pairs if _is_near(one, row)] for row in wrong}
    invalid = _assigned(near)
    # A refund belongs to somebody; a wrong result may be of a group that we cannot see.
    found.ambiguous.extend(row for row, of in fitting.items() if len(of) != 1)
    found.ambiguous.extend(row for row, of in near.items() if len(of) > 1)
    doubtful = {one for of in (*fitting.values(), *near.values()) if len(of) > 1 for one in of}
    for winner, agreeing in members.items():
        others = invalid.get(winner, [])
        rows_of = sorted([winner, *agreeing, *others], key=lambda row: row.id)
        if winner in doubtful or len(rows_of) > GROUP_SIZE:
            found.ambiguous.append(winner)
        else:
            found.groups.append(FoundGroup(tuple(rows_of), tuple(others)))


def _assigned(candidates: Mapping[FeedRow, Sequence[FeedRow]]) -> dict[FeedRow, list[FeedRow]]:
    """Return by winner the rows that can be of its group alone."""
    members: dict[FeedRow, list[FeedRow]] = {}
    for row, winners in candidates.items():
        if len(winners) == 1:
            members.setdefault(winners[0], []).append(row)
    return members


def _agrees(
    winner: FeedRow, refund: FeedRow, refunds: Sequence[FeedRow], scores: Mapping[str, str]
) -> bool:
    """Tell whether a refund can be of this winner's group, which is not full before it."""
    if winner.id > refund.id or not _is_near(winner, refund):
        return False
    if not _is_alike(scores.get(winner.task), scores.get(refund.task)):
        return False
    between = [
        one
        for one in refunds
        if winner.id < one.id < refund.id and _is_alike(scores.get(one.task), scores[winner.task])
    ]
    return len(between) + 1 < GROUP_SIZE


def _without_majority(issuers: Mapping[FeedRow, str], found: GroupsFound) -> None:
    """Three results, none like another: three aborts of one creator, side by side."""
    near = {
        row: {one for one in issuers if issuers[one] == issuer and _is_near(one, row)}
        for row, issuer in issuers.items()
    }
    for row, group in near.items():
        if len(group) == GROUP_SIZE and all(near[one] == group for one in group):
            rows = sorted(group, key=lambda one: one.id)
            if rows[0] is row:
                found.groups.append(FoundGroup(tuple(rows)))
        elif len(group) >= GROUP_SIZE:
            found.ambiguous.append(row)


def _is_near(one: FeedRow, other: FeedRow) -> bool:
    is_same_time = abs(one.seen_to - other.seen_to) < SAME_SECONDS
    return abs(one.id - other.id) <= NEAR and is_same_time


def _is_alike(one: str | None, other: str | None) -> bool:
    """Tell whether two results agree: equal, or pictures that differ in a few bits each."""
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


def _differences(left: bytes, right: bytes) -> Iterator[int]:
    for one, other in zip(_cut(left), _cut(right), strict=True):
        yield (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _cut(content: bytes) -> Iterator[bytes]:
    return (
        content[first : first + _PICTURE_BYTES] for first in range(0, len(content), _PICTURE_BYTES)
    )
