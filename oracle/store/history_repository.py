"""Node histories: scores, changes of reliability (H) and membership, and due kickouts."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import (
    ASKED,
    Anomaly,
    KickoutDue,
    MembershipChange,
    MembershipTransition,
    ReliabilityCause,
    ReliabilityChange,
    ScoreEntry,
)
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state.node import Membership
from oracle.store.bulk import append, upsert
from oracle.store.encoding import hexed, hexed_or_none, raw, raw_or_none
from oracle.store.state.rule_set_repository import RuleSet
from oracle.store.tables.selection_tables import rule_set
from oracle.store.tables.state_tables import (
    kickout,
    membership_change,
    node as node_row,
    reliability_change,
    score,
)

Entry = TypeVar("Entry", Anomaly, MembershipChange, ReliabilityChange)


class ScoreRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, scores: Sequence[ScoreEntry], rule_set: int) -> None:
        """Append scores; `rule_set` is the number of the rules that produced them."""
        append(
            self._connection,
            score,
            [
                (
                    raw(each.node),
                    each.seq,
                    raw(each.task),
                    raw(each.group),
                    each.rank,
                    each.elapsed,
                    each.score,
                    *each.at,
                    each.time,
                    rule_set,
                )
                for each in scores
            ],
        )

    def of_node(
        self, node: Address, last: int = 50, *, up_to_seq: int | None = None
    ) -> list[ScoreEntry]:
        """Return the node's last scores, oldest first, up to `up_to_seq` if given."""
        chosen = select(score).where(score.c.node == raw(node))
        if up_to_seq is not None:
            chosen = chosen.where(score.c.seq <= up_to_seq)
        return self._newest(chosen, last)

    def of_node_at(self, node: Address, block: int, last: int = 50) -> list[ScoreEntry]:
        """Return the last scores of the node as of `block`, oldest first."""
        chosen = select(score).where(score.c.node == raw(node), score.c.block <= block)
        return self._newest(chosen, last)

    def between(
        self, node: Address, first: int, last: int, before: int
    ) -> tuple[list[ScoreEntry], list[ScoreEntry]]:
        """Return the scores from `first_time` to `last_time`, and the last ones before.

        The first list holds up to `earlier_limit` scores before `first_time`.
        """
        mine = select(score).where(score.c.node == raw(node))
        earlier = self._newest(mine.where(score.c.time < first), before)
        inside = mine.where(score.c.time.between(first, last)).order_by(score.c.seq)
        return earlier, [_score_of(row) for row in self._connection.execute(inside)]

    def first_time(self, node: Address) -> int | None:
        """Return the time of the node's first score, or None if it has none."""
        first = select(score.c.time).where(score.c.node == raw(node)).order_by(score.c.seq)
        return self._connection.execute(first.limit(1)).scalar_one_or_none()

    def scored_by(self, node: Address, seqs: Collection[int]) -> dict[int, RuleSet]:
        """Return the rule set of each of a node's scores, by `seq`.

        Scores older than the numbering of rule sets (migration 0002) are left out.
        """
        if not seqs:
            return {}
        by_rules = (
            select(score.c.seq, rule_set.c.name, rule_set.c.version, rule_set.c.sha256)
            .join_from(score, rule_set, score.c.rule_set == rule_set.c.id)
            .where(score.c.node == raw(node), score.c.seq.between(min(seqs), max(seqs)))
        )
        rows = self._connection.execute(by_rules)
        return {seq: RuleSet(name, version, sha256.hex()) for seq, name, version, sha256 in rows}

    def _newest(self, chosen: Select[*tuple[Any, ...]], last: int) -> list[ScoreEntry]:
        rows = self._connection.execute(chosen.order_by(score.c.seq.desc()).limit(last)).all()
        return [_score_of(row) for row in reversed(rows)]


class ReliabilityRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, changes: Sequence[ReliabilityChange]) -> None:
        """Append changes of reliability."""
        append(
            self._connection,
            reliability_change,
            [
                (
                    raw(each.node),
                    *each.at,
                    seq,
                    each.time,
                    each.cause.value,
                    raw_or_none(each.task),
                    each.before,
                    each.after,
                )
                for seq, each in numbered(changes)
            ],
        )

    def of_node(
        self, node: Address, last: int = 50, *, up_to_block: int | None = None
    ) -> list[ReliabilityChange]:
        """Return the node's last changes of H, oldest first, up to `up_to_block` if given."""
        chosen = _newest_of(reliability_change, node, up_to_block)
        rows = self._connection.execute(chosen.limit(last)).all()
        return [change_of(row) for row in reversed(rows)]


class MembershipRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, changes: Sequence[MembershipChange]) -> None:
        """Append membership changes."""
        append(
            self._connection,
            membership_change,
            [
                (raw(each.node), *each.at, seq, each.time, each.turn.value)
                for seq, each in numbered(changes)
            ],
        )

    def of_node(
        self, node: Address, last: int = 50, *, up_to_block: int | None = None
    ) -> list[MembershipChange]:
        """Return the node's last membership changes, oldest first, up to `up_to_block` if given."""
        chosen = _newest_of(membership_change, node, up_to_block)
        rows = self._connection.execute(chosen.limit(last)).all()
        return [turn_of(row) for row in reversed(rows)]

    def in_effect(
        self, node: Address, *, up_to_block: int | None = None
    ) -> MembershipChange | None:
        """Return the change that set a node's current membership, or None if there was none.

        Requests are skipped: they take effect when the node's task ends.
        """
        took_effect = membership_change.c.turn.not_in([one.value for one in ASKED])
        chosen = _newest_of(membership_change, node, up_to_block).where(took_effect)
        row = self._connection.execute(chosen.limit(1)).one_or_none()
        return None if row is None else turn_of(row)


def _newest_of(table: Table, node: Address, up_to_block: int | None) -> Select[*tuple[Any, ...]]:
    """Select a node's rows, newest first, up to `up_to_block` if given."""
    chosen = select(table).where(table.c.node == raw(node))
    if up_to_block is not None:
        chosen = chosen.where(table.c.block <= up_to_block)
    return chosen.order_by(*(table.c[name].desc() for name in (*Position._fields, "seq")))


def numbered(entries: Sequence[Entry]) -> Iterator[tuple[int, Entry]]:
    """Number the entries that share a position, because one event may have several."""
    for _, same_place in groupby(entries, key=attrgetter("at")):
        yield from enumerate(same_place)


def _score_of(row: Any) -> ScoreEntry:  # noqa: ANN401  a row of any driver
    return ScoreEntry(
        node=Address(hexed(row.node)),
        seq=row.seq,
        task=TaskKey(hexed(row.task)),
        group=GroupKey(hexed(row.task_group)),
        rank=row.rank,
        elapsed=row.elapsed,
        score=row.score,
        at=Position(row.block, row.tx, row.log, row.sub),
        time=row.time,
    )


def change_of(row: Any) -> ReliabilityChange:  # noqa: ANN401  a row of any driver
    """Decode a row of reliability_change."""
    task = hexed_or_none(row.task)
    return ReliabilityChange(
        node=Address(hexed(row.node)),
        at=Position(row.block, row.tx, row.log, row.sub),
        time=row.time,
        cause=ReliabilityCause(row.cause),
        task=None if task is None else TaskKey(task),
        before=row.h_before,
        after=row.h_after,
    )


def turn_of(row: Any) -> MembershipChange:  # noqa: ANN401  a row of any driver
    """Decode a row of membership_change."""
    at = Position(row.block, row.tx, row.log, row.sub)
    return MembershipChange(Address(hexed(row.node)), at, row.time, MembershipTransition(row.turn))


_OPENED_AT = [kickout.c[name] for name in Position._fields]
_STILL_OPEN = (None, None, None, None)


class KickoutRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, intervals: Sequence[KickoutDue]) -> None:
        """Save opened and closed intervals; the last entry of each interval counts."""
        newest = {(each.node, each.opened_at): each for each in intervals}
        upsert(
            self._connection,
            kickout,
            [
                (raw(each.node), *each.opened_at, *(each.closed_at or _STILL_OPEN))
                for each in newest.values()
            ],
        )

    def open(self) -> list[KickoutDue]:
        """Return the open intervals, oldest first."""
        chosen = select(kickout).where(kickout.c.closed_block.is_(None)).order_by(*_OPENED_AT)
        return [interval_of(row) for row in self._connection.execute(chosen).all()]

    def open_of_node(self, node: Address) -> KickoutDue | None:
        """Return the node's open interval, or None."""
        chosen = select(kickout).where(kickout.c.node == raw(node))
        newest = chosen.where(kickout.c.closed_block.is_(None)).limit(1)
        row = self._connection.execute(newest).one_or_none()
        return None if row is None else interval_of(row)

    def open_members(self) -> set[Address]:
        """Return the members with an open interval."""
        chosen = (
            select(kickout.c.node)
            .join_from(kickout, node_row, kickout.c.node == node_row.c.address)
            .where(
                kickout.c.closed_block.is_(None),
                node_row.c.membership == Membership.MEMBER.value,
            )
        )
        rows = self._connection.execute(chosen).all()
        return {Address(hexed(row[0])) for row in rows}

    def of_node(self, node: Address) -> list[KickoutDue]:
        """Return all intervals of the node, oldest first."""
        chosen = select(kickout).where(kickout.c.node == raw(node)).order_by(*_OPENED_AT)
        return [interval_of(row) for row in self._connection.execute(chosen)]


def interval_of(row: Any) -> KickoutDue:  # noqa: ANN401  a row of any driver
    """Decode a row of kickout."""
    closed_at = None
    if row.closed_block is not None:
        closed_at = Position(row.closed_block, row.closed_tx, row.closed_log, row.closed_sub)
    return KickoutDue(
        node=Address(hexed(row.node)),
        opened_at=Position(row.block, row.tx, row.log, row.sub),
        closed_at=closed_at,
    )
