"""Stores the history of nodes, such as scores, reliability (H) and membership.

An anomaly is an event that broke a rule and was ignored. Rows of anomalies are only appended.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Connection,
    LargeBinary,
    Select,
    Table,
    bindparam,
    func,
    select,
    tuple_,
)

from oracle.domain.blocks import Position
from oracle.domain.events.jsonl_fields import INT63_MAX
from oracle.domain.fold.working_set import (
    REQUEST_TRANSITIONS,
    Anomaly,
    KickoutDue,
    MembershipChange,
    MembershipTransition,
    ReliabilityChange,
    ScoreEntry,
)
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.store.bulk import insert_rows, upsert_rows
from oracle.store.encoding import (
    decode_hex,
    decode_optional_hex,
    decode_position,
    encode_hex,
)
from oracle.store.state.rule_set_repository import RuleSet
from oracle.store.tables.selection_tables import rule_set
from oracle.store.tables.state_tables import (
    anomaly,
    kickout,
    membership_change,
    reliability_change,
    score,
)

Entry = TypeVar("Entry", Anomaly, MembershipChange, ReliabilityChange)

# Statements for a single node are built once, because building such a statement takes longer than
# running it.
_NODE = bindparam("node", type_=LargeBinary)
_ROW_LIMIT = bindparam("row_limit", type_=BigInteger)
_SCORES = select(score).where(score.c.node == _NODE)
_FIRST_SCORE_TIME = (
    select(score.c.time).where(score.c.node == _NODE).order_by(score.c.seq).limit(1)
)
_NEWEST_SCORES = _SCORES.order_by(score.c.seq.desc()).limit(_ROW_LIMIT)
_SCORES_UP_TO_SEQ = _NEWEST_SCORES.where(score.c.seq <= bindparam("last_seq"))
_SCORES_UP_TO_BLOCK = _NEWEST_SCORES.where(score.c.block <= bindparam("last_block"))
_SCORES_BEFORE = _NEWEST_SCORES.where(score.c.time < bindparam("first_time"))
_SCORES_BETWEEN = _SCORES.where(
    score.c.time.between(bindparam("first_time"), bindparam("last_time"))
).order_by(score.c.seq)


def _select_newest(table: Table) -> Select[*tuple[Any, ...]]:
    """Select a node's rows up to a block, with the newest row first."""
    return (
        select(table)
        .where(table.c.node == _NODE, table.c.block <= bindparam("last_block"))
        .order_by(*(table.c[name].desc() for name in (*Position._fields, "seq")))
        .limit(_ROW_LIMIT)
    )


_NEWEST_RELIABILITY_CHANGES = _select_newest(reliability_change)
_NEWEST_MEMBERSHIP_CHANGES = _select_newest(membership_change)
# Skip requests to pause or quit, because they take effect only when the node's task ends.
_EFFECTIVE_MEMBERSHIP_CHANGES = _NEWEST_MEMBERSHIP_CHANGES.where(
    membership_change.c.transition.not_in([transition.value for transition in REQUEST_TRANSITIONS])
)


class ScoreRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, scores: Sequence[ScoreEntry], rule_set: int) -> None:
        """Append scores; `rule_set` is the number of the rule set that produced them."""
        insert_rows(
            self._connection,
            score,
            [
                (
                    decode_hex(entry.node),
                    entry.seq,
                    decode_hex(entry.task),
                    decode_hex(entry.group),
                    entry.rank,
                    entry.elapsed,
                    entry.score,
                    *entry.at,
                    entry.time,
                    rule_set,
                )
                for entry in scores
            ],
        )

    def list_for_node(
        self, node: Address, limit: int = 50, *, up_to_seq: int | None = None
    ) -> list[ScoreEntry]:
        """Return the node's last scores, oldest first.

        With `up_to_seq`, later scores are left out.
        """
        last_seq = INT63_MAX if up_to_seq is None else up_to_seq
        return self._load_newest(_SCORES_UP_TO_SEQ, node, limit, last_seq=last_seq)

    def list_for_node_up_to_block(
        self, node: Address, block: int, limit: int = 50
    ) -> list[ScoreEntry]:
        """Return the node's last scores up to `block`, oldest first."""
        return self._load_newest(_SCORES_UP_TO_BLOCK, node, limit, last_block=block)

    def list_for_node_up_to_position(
        self, node: Address, at: Position, limit: int
    ) -> list[ScoreEntry]:
        """Return the node's last scores up to a position, oldest first."""
        is_up_to_position = tuple_(*(score.c[name] for name in Position._fields)) <= tuple(at)
        return self._load_newest(_NEWEST_SCORES.where(is_up_to_position), node, limit)

    def list_for_node_between(
        self, node: Address, first_time: int, last_time: int, earlier_limit: int
    ) -> tuple[list[ScoreEntry], list[ScoreEntry]]:
        """Return a node's last scores before a time span, and all its scores within the span.

        The first list has at most `earlier_limit` scores before the span, and the second list has
        all scores from `first_time` to `last_time`, both included.
        """
        earlier_scores = self._load_newest(
            _SCORES_BEFORE, node, earlier_limit, first_time=first_time
        )
        rows = self._connection.execute(
            _SCORES_BETWEEN,
            {"node": decode_hex(node), "first_time": first_time, "last_time": last_time},
        )
        return earlier_scores, list(map(_decode_score_row, rows))

    def find_first_score_time(self, node: Address) -> int | None:
        """Return the time of the node's first score, or None if it has none."""
        result = self._connection.execute(_FIRST_SCORE_TIME, {"node": decode_hex(node)})
        return result.scalar_one_or_none()

    def get_rule_set_by_seq(self, node: Address, seqs: Collection[int]) -> dict[int, RuleSet]:
        """Return the rule sets of a node's scores, by each score's `seq` number.

        Scores that were written before rule sets were numbered are left out.
        """
        if not seqs:
            return {}
        query = (
            select(score.c.seq, rule_set.c.name, rule_set.c.version, rule_set.c.sha256)
            .join_from(score, rule_set, score.c.rule_set == rule_set.c.id)
            .where(score.c.node == decode_hex(node), score.c.seq.between(min(seqs), max(seqs)))
        )
        rows = self._connection.execute(query)
        return {seq: RuleSet(name, version, sha256.hex()) for seq, name, version, sha256 in rows}

    def _load_newest(
        self, query: Select[*tuple[Any, ...]], node: Address, limit: int, **bounds: int
    ) -> list[ScoreEntry]:
        """Return the newest scores that a query selects, oldest first."""
        parameters = {"node": decode_hex(node), "row_limit": limit, **bounds}
        rows = self._connection.execute(query, parameters).all()
        return list(map(_decode_score_row, reversed(rows)))


class ReliabilityRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, changes: Sequence[ReliabilityChange]) -> None:
        insert_rows(
            self._connection,
            reliability_change,
            [
                (
                    decode_hex(change.node),
                    *change.at,
                    seq,
                    change.time,
                    change.cause.value,
                    decode_optional_hex(change.task),
                    change.before,
                    change.after,
                )
                for seq, change in enumerate_within_position(changes)
            ],
        )

    def list_for_node(
        self, node: Address, limit: int = 50, *, up_to_block: int | None = None
    ) -> list[ReliabilityChange]:
        """Return a node's last reliability changes, oldest first.

        With `up_to_block`, later changes are left out.
        """
        parameters = _build_parameters(node, limit, up_to_block)
        rows = self._connection.execute(_NEWEST_RELIABILITY_CHANGES, parameters).all()
        return list(map(decode_reliability_row, reversed(rows)))


class MembershipRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, changes: Sequence[MembershipChange]) -> None:
        insert_rows(
            self._connection,
            membership_change,
            [
                (decode_hex(change.node), *change.at, seq, change.time, change.transition.value)
                for seq, change in enumerate_within_position(changes)
            ],
        )

    def list_for_node(
        self, node: Address, limit: int = 50, *, up_to_block: int | None = None
    ) -> list[MembershipChange]:
        """Return a node's last membership changes, oldest first.

        With `up_to_block`, later changes are left out.
        """
        parameters = _build_parameters(node, limit, up_to_block)
        rows = self._connection.execute(_NEWEST_MEMBERSHIP_CHANGES, parameters).all()
        return list(map(decode_membership_row, reversed(rows)))

    def find_effective_change(
        self, node: Address, *, up_to_block: int | None = None
    ) -> MembershipChange | None:
        """Return the change that led to a node's membership state, or None if there is none.

        The state is as of `up_to_block`, or the newest state without this argument.
        """
        parameters = _build_parameters(node, 1, up_to_block)
        row = self._connection.execute(_EFFECTIVE_MEMBERSHIP_CHANGES, parameters).one_or_none()
        return None if row is None else decode_membership_row(row)


def _build_parameters(
    node: Address, limit: int, up_to_block: int | None
) -> Mapping[str, bytes | int]:
    """Build the bound parameters of a statement that `_select_newest` returned."""
    last_block = INT63_MAX if up_to_block is None else up_to_block
    return {"node": decode_hex(node), "row_limit": limit, "last_block": last_block}


def enumerate_within_position(entries: Sequence[Entry]) -> Iterator[tuple[int, Entry]]:
    """Yield each entry with its index among the entries at the same position.

    The index is needed because one event may cause several entries.
    """
    for _, group in groupby(entries, key=attrgetter("at")):
        yield from enumerate(group)


def _decode_score_row(row: Any) -> ScoreEntry:  # noqa: ANN401  a row of any driver
    # The row is unpacked by position, because access by name would take most of the time.
    node, seq, task, task_group, rank, elapsed, task_score, *position, time, _rule_set = row
    return ScoreEntry(
        node=Address(encode_hex(node)),
        seq=seq,
        task=TaskKey(encode_hex(task)),
        group=GroupKey(encode_hex(task_group)),
        rank=rank,
        elapsed=elapsed,
        score=task_score,
        at=Position(*position),
        time=time,
    )


def decode_reliability_row(row: Any) -> ReliabilityChange:  # noqa: ANN401  a row of any driver
    node, block, tx, log, sub, _seq, time, cause, task, before, after = row
    return ReliabilityChange(
        node=Address(encode_hex(node)),
        at=Position(block, tx, log, sub),
        time=time,
        cause=ReliabilityCause(cause),
        task=None if task is None else TaskKey(encode_hex(task)),
        before=before,
        after=after,
    )


def decode_membership_row(row: Any) -> MembershipChange:  # noqa: ANN401  a row of any driver
    node, block, tx, log, sub, _seq, time, transition = row
    return MembershipChange(
        node=Address(encode_hex(node)),
        at=Position(block, tx, log, sub),
        time=time,
        transition=MembershipTransition(transition),
    )


_OPENED_AT = [kickout.c[name] for name in Position._fields]
_STILL_OPEN = (None, None, None, None)
_KICKOUTS = select(kickout).where(kickout.c.node == _NODE).order_by(*_OPENED_AT)


class KickoutRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save_intervals(self, intervals: Sequence[KickoutDue]) -> None:
        """Save opened and closed intervals, each in its last version.

        The last version counts if an interval occurs several times.
        """
        interval_by_start = {
            (interval.node, interval.opened_at): interval for interval in intervals
        }
        upsert_rows(
            self._connection,
            kickout,
            [
                (
                    decode_hex(interval.node),
                    *interval.opened_at,
                    *(interval.closed_at or _STILL_OPEN),
                )
                for interval in interval_by_start.values()
            ],
        )

    def list_open(self) -> list[KickoutDue]:
        """Return the kickout intervals that are still open, oldest first."""
        query = select(kickout).where(kickout.c.closed_block.is_(None)).order_by(*_OPENED_AT)
        return [decode_kickout_row(row) for row in self._connection.execute(query).all()]

    def list_for_node(self, node: Address) -> list[KickoutDue]:
        """Return all kickout intervals of a node, oldest first."""
        rows = self._connection.execute(_KICKOUTS, {"node": decode_hex(node)})
        return list(map(decode_kickout_row, rows))


def decode_kickout_row(row: Any) -> KickoutDue:  # noqa: ANN401  a row of any driver
    """Decode a complete row of the table into a kickout interval.

    The row is unpacked, because this takes a third of the time of reading columns by name, and in
    a mass outage thousands of rows are decoded in each tick.
    """
    node, block, tx, log, sub, closed_block, closed_tx, closed_log, closed_sub = row
    return KickoutDue(
        node=Address(encode_hex(node)),
        opened_at=Position(block, tx, log, sub),
        closed_at=None
        if closed_block is None
        else Position(closed_block, closed_tx, closed_log, closed_sub),
    )


class AnomalyRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, anomalies: Sequence[Anomaly]) -> None:
        insert_rows(
            self._connection,
            anomaly,
            [
                (*entry.at, seq, entry.time, entry.rule, entry.event)
                for seq, entry in enumerate_within_position(anomalies)
            ],
        )

    def list_newest(self, limit: int = 50) -> list[Anomaly]:
        """Return the newest anomalies, oldest first."""
        newest_first_columns = [column.desc() for column in anomaly.primary_key.columns]
        rows = self._connection.execute(
            select(anomaly).order_by(*newest_first_columns).limit(limit)
        ).all()
        return [_decode_anomaly_row(row) for row in reversed(rows)]

    def count(self) -> int:
        count_query = select(func.count()).select_from(anomaly)
        return int(self._connection.execute(count_query).scalar_one())


def _decode_anomaly_row(row: Any) -> Anomaly:  # noqa: ANN401  a row of any driver
    return Anomaly(
        at=decode_position(row),
        time=row.time,
        rule=row.rule,
        event=row.event,
    )
