"""Stores notices and the progress of their delivery (docs/how-to/notifications.md)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.fold.working_set import KickoutDue, MembershipChange, ReliabilityChange
from oracle.domain.ids import Address
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.store.bulk import insert_rows, upsert_rows
from oracle.store.encoding import decode_optional_hex, encode_hex
from oracle.store.history_repository import (
    decode_kickout_row,
    decode_membership_row,
    decode_reliability_row,
)
from oracle.store.tables.notice_tables import notice, notify_place
from oracle.store.tables.state_tables import (
    kickout,
    membership_change,
    reliability_change,
    score,
)

# Maximum seconds to wait after a failed delivery.
MAX_RETRY_SECONDS = 3600


class NoticeSources:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_reliability_changes(self, blocks: BlockRange) -> list[ReliabilityChange]:
        """Return the reliability changes in these blocks, in order.

        Changes caused by a join are left out.
        """
        table = reliability_change
        query = select(table).where(
            table.c.block.between(blocks.first, blocks.last),
            table.c.cause != ReliabilityCause.JOINED.value,
        )
        order_columns = [table.c[name] for name in (*Position._fields, "seq", "node")]
        return [
            decode_reliability_row(row)
            for row in self._connection.execute(query.order_by(*order_columns))
        ]

    def list_membership_changes(self, blocks: BlockRange) -> list[MembershipChange]:
        """Return the membership changes in these blocks, in order."""
        table = membership_change
        query = select(table).where(table.c.block.between(blocks.first, blocks.last))
        order_columns = [table.c[name] for name in (*Position._fields, "seq", "node")]
        return [
            decode_membership_row(row)
            for row in self._connection.execute(query.order_by(*order_columns))
        ]

    def get_newest_score_by_node(self, blocks: BlockRange) -> dict[Address, tuple[int, int]]:
        """Return the newest score of each node in these blocks, as (block, `seq`)."""
        query = select(score.c.node, func.max(score.c.block), func.max(score.c.seq)).where(
            score.c.block.between(blocks.first, blocks.last)
        )
        rows = self._connection.execute(query.group_by(score.c.node).order_by(score.c.node))
        return {Address(encode_hex(address)): (block, seq) for address, block, seq in rows}

    def list_changed_kickouts(self, blocks: BlockRange) -> list[KickoutDue]:
        """Return the kickout intervals that started or ended in these blocks."""
        in_blocks: list[ColumnElement[bool]] = [
            column.between(blocks.first, blocks.last)
            for column in (kickout.c.block, kickout.c.closed_block)
        ]
        query = select(kickout).where(in_blocks[0] | in_blocks[1])
        order_columns = [kickout.c[name] for name in (*Position._fields, "node")]
        return [
            decode_kickout_row(row)
            for row in self._connection.execute(query.order_by(*order_columns))
        ]


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice; `time` is chain time in seconds.

    `seq` is the number of the notice from 1, or 0 until the notice is stored. If a fork removes
    `block`, the notice is retracted. If `block` is None, the notice is never retracted.
    """

    kind: str
    block: int | None
    time: int
    body: Mapping[str, object]
    node: Address | None = None
    subject: str | None = None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """The progress of delivering notices to a target.

    `seq` is the last notice that was delivered or skipped. The delivery of the next notice has
    failed `tries` times. It is tried again at `next_at`, in unix seconds of the wall clock.
    """

    target: str
    seq: int
    tries: int = 0
    next_at: int = 0
    last_error: str | None = None

    def is_due(self, now: float) -> bool:
        """Return whether the next notice may be delivered; `now` is in unix seconds.

        A wait that is longer than the maximum was stored by a clock that was ahead, and is
        ignored.
        """
        return not now < self.next_at <= now + MAX_RETRY_SECONDS


class NoticeRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Repository that reads the rows of other tables from which notices are made.
        self.sources = NoticeSources(connection)

    def append(self, notices: Sequence[Notice]) -> int:
        """Append notices, and return the number of the last one."""
        newest_seq = self.get_newest_seq()
        rows = [
            (
                seq,
                entry.block,
                entry.time,
                entry.kind,
                decode_optional_hex(entry.node),
                entry.subject,
                msgspec.json.encode(dict(entry.body)).decode(),
                None,
            )
            for seq, entry in enumerate(notices, newest_seq + 1)
        ]
        insert_rows(self._connection, notice, rows)
        return newest_seq + len(rows)

    def get_newest_seq(self) -> int:
        """Return the number of the newest notice, or 0 if there is none."""
        return int(self._connection.execute(select(func.max(notice.c.seq))).scalar() or 0)

    def list_after(self, seq: int, limit: int) -> list[Notice]:
        """Return the notices after `seq` in order, without those that were retracted."""
        return self._select_notices(notice.c.seq > seq, notice.c.undone_by.is_(None), limit=limit)

    def retract_notices_above(self, block: int, retraction_seq: int) -> int:
        """Mark the notices above `block` as retracted, and return how many were marked.

        `retraction_seq` is the notice that retracts them.
        """
        is_above = (
            (notice.c.block > block)
            & notice.c.undone_by.is_(None)
            & (notice.c.seq < retraction_seq)
        )
        return self._connection.execute(
            update(notice).where(is_above).values(undone_by=retraction_seq)
        ).rowcount

    def list_retracted_by(self, seq: int, limit: int) -> list[Notice]:
        """Return up to `limit` notices that the notice `seq` retracted, oldest first."""
        return self._select_notices(notice.c.undone_by == seq, limit=limit)

    def list_nodes_in_state(self, begin_kind: str, *end_kinds: str) -> set[Address]:
        """Return the nodes that entered a state and have not left it, according to their notices.

        A notice of `begin_kind` marks the entry, and a notice of one of `end_kinds` the end.
        """
        is_of_these_kinds = notice.c.kind.in_([begin_kind, *end_kinds])
        newest_by_node = select(notice.c.node, func.max(notice.c.seq).label("seq"))
        newest_seq_by_node = (
            newest_by_node.where(is_of_these_kinds, notice.c.undone_by.is_(None))
            .group_by(notice.c.node)
            .subquery()
        )
        query = select(notice.c.node).join(
            newest_seq_by_node, notice.c.seq == newest_seq_by_node.c.seq
        )
        rows = self._connection.execute(query.where(notice.c.kind == begin_kind)).scalars()
        return {Address(encode_hex(address)) for address in rows}

    def filter_notified_subjects(self, kind: str, subjects: Collection[str]) -> set[str]:
        query = select(notice.c.subject).where(
            notice.c.subject.in_(list(subjects)), notice.c.kind == kind
        )
        return set(self._connection.execute(query).scalars())

    def prune_before(self, max_time: int) -> None:
        """Delete the notices before `max_time` (chain seconds), except the newest notice."""
        newest_seq = self.get_newest_seq()
        # Keep the newest notice, because its number determines the number of the next one.
        is_old = (notice.c.time < max_time) & (notice.c.seq < newest_seq)
        last_seq = self._connection.execute(select(func.max(notice.c.seq)).where(is_old)).scalar()
        if last_seq is not None:
            self._connection.execute(delete(notice).where(notice.c.seq <= last_seq))

    def find_progress(self, target: str) -> DeliveryProgress | None:
        """Return the delivery progress of a target, or None if the target is new."""
        return next(
            (progress for progress in self.list_progress() if progress.target == target), None
        )

    def list_progress(self) -> list[DeliveryProgress]:
        """Return the delivery progress of all targets, including targets removed since."""
        rows = self._connection.execute(select(notify_place).order_by(notify_place.c.target))
        return [DeliveryProgress(*row) for row in rows]

    def save_progress(self, progress: DeliveryProgress) -> None:
        """Save the delivery progress of a notification target."""
        row = (
            progress.target,
            progress.seq,
            progress.tries,
            progress.next_at,
            progress.last_error,
        )
        upsert_rows(self._connection, notify_place, [row])

    def _select_notices(self, *conditions: ColumnElement[bool], limit: int) -> list[Notice]:
        query = select(notice).where(*conditions).order_by(notice.c.seq).limit(limit)
        return [_decode_notice_row(row) for row in self._connection.execute(query)]


def _decode_notice_row(row: Any) -> Notice:  # noqa: ANN401  a row of any driver
    return Notice(
        seq=row.seq,
        kind=row.kind,
        block=row.block,
        time=row.time,
        body=msgspec.json.decode(row.body, type=dict[str, Any]),
        node=None if row.node is None else Address(encode_hex(row.node)),
        subject=row.subject,
    )
