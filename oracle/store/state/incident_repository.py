"""Stores incidents, and the task ends of the last day that reveal them."""

from collections.abc import Iterable
from typing import Any

from msgspec.msgpack import decode, encode
from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.ids import Address
from oracle.domain.incidents import EndMinute, Incident, IncidentDetector, IncidentRows
from oracle.store.bulk import Row, upsert_rows
from oracle.store.encoding import (
    decode_hex,
    decode_optional_hex,
    encode_hex,
    encode_optional_hex,
)
from oracle.store.tables.state_tables import end_minute, incident

_STILL_OPEN = (None, None, None, None)


class IncidentRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load_detector(self) -> IncidentDetector:
        """Load the incident detector in its state after the newest folded event."""
        minute_rows = self._connection.execute(select(end_minute).order_by(end_minute.c.minute))
        is_open = incident.c.over_block.is_(None)
        open_rows = self._connection.execute(select(incident).where(is_open))
        incident_count = self._connection.execute(select(func.max(incident.c.number))).scalar_one()
        return IncidentDetector(
            map(decode_minute_row, minute_rows),
            map(decode_incident_row, open_rows),
            incident_count or 0,
        )

    def save_changes(self, rows: IncidentRows) -> None:
        """Write changed rows, and delete minutes that are older than a day."""
        delete_parameters = [{"gone": key} for key, row in rows.minutes.items() if row is None]
        if delete_parameters:
            is_removed = end_minute.c.minute == bindparam("gone")
            self._connection.execute(delete(end_minute).where(is_removed), delete_parameters)
        kept_rows = [row for row in rows.minutes.values() if row is not None]
        upsert_rows(self._connection, end_minute, list(map(encode_minute_row, kept_rows)))
        incidents = rows.list_incidents().values()
        upsert_rows(self._connection, incident, list(map(encode_incident_row, incidents)))

    def list_newest(self, limit: int, *, below: int | None = None) -> list[Incident]:
        """Return up to `limit` incidents, newest first.

        With `below`, only incidents with lower numbers are returned.
        """
        query = select(incident).order_by(incident.c.number.desc()).limit(limit)
        if below is not None:
            query = query.where(incident.c.number < below)
        return list(map(decode_incident_row, self._connection.execute(query)))

    def list_open(self) -> list[Incident]:
        """Return the open incidents, oldest first."""
        query = select(incident).where(incident.c.over_block.is_(None))
        rows = self._connection.execute(query.order_by(incident.c.number))
        return list(map(decode_incident_row, rows))

    def list_between(
        self, first_time: int, last_time: int, *, up_to_block: int | None = None
    ) -> list[Incident]:
        """Return the incidents that may mark a timeout in a time span, oldest first.

        The span is between two block times. An open incident marks later timeouts as well. With
        `up_to_block`, only incidents that were found up to this block are returned, and an
        incident that ended later counts as open.
        """
        overlap_condition = or_(incident.c.until >= first_time, incident.c.over_block.is_(None))
        query = select(incident).where(incident.c.since <= last_time)
        if up_to_block is not None:
            overlap_condition = or_(overlap_condition, incident.c.over_block >= up_to_block)
            query = query.where(incident.c.block <= up_to_block)
        query = query.where(overlap_condition)
        rows = self._connection.execute(query.order_by(incident.c.number))
        return list(map(decode_incident_row, rows))

    def list_changed(self, blocks: BlockRange) -> list[Incident]:
        """Return the incidents that were found or ended in these blocks, oldest first."""
        query = select(incident).where(
            or_(
                incident.c.block.between(blocks.first, blocks.last),
                and_(
                    incident.c.over_block.is_not(None),
                    incident.c.over_block.between(blocks.first, blocks.last),
                ),
            )
        )
        rows = self._connection.execute(query.order_by(incident.c.number))
        return list(map(decode_incident_row, rows))


def encode_minute_row(row: EndMinute) -> Row:
    packed_ends = [
        (decode_optional_hex(creator), decode_hex(node), *numbers)
        for (creator, node), numbers in sorted(
            row.ends_by_key.items(), key=lambda item: (item[0][0] or "", item[0][1])
        )
    ]
    return (row.minute, row.ends, row.timeouts, encode(packed_ends) if packed_ends else None)


def decode_minute_row(row: Iterable[Any]) -> EndMinute:
    """Decode a minute from a row's values in the table's column order."""
    minute, ends, timeouts, packed_ends = row
    creator_by_key: dict[bytes | None, Address | None] = {None: None}
    ends_by_key = {}
    for creator, node, key_ends, key_timeouts in decode(packed_ends) if packed_ends else ():
        creator_text = encode_optional_hex(creator)
        key = (
            None
            if creator_text is None
            else creator_by_key.setdefault(creator, Address(creator_text))
        )
        ends_by_key[key, Address(encode_hex(node))] = key_ends, key_timeouts
    return EndMinute(minute, ends, timeouts, ends_by_key)


def encode_incident_row(incident_entry: Incident) -> Row:
    return (
        incident_entry.number,
        decode_optional_hex(incident_entry.creator),
        *incident_entry.found_at,
        incident_entry.found_time,
        incident_entry.since,
        incident_entry.until,
        incident_entry.nodes,
        incident_entry.timeouts,
        *(incident_entry.over_at or _STILL_OPEN),
        incident_entry.over_time,
    )


def decode_incident_row(row: Iterable[Any]) -> Incident:
    """Decode an incident from a row's values in the table's column order."""
    number, creator, *values = row
    found_position_values = values[:4]
    (found_time, since, until, nodes, timeouts) = values[4:9]
    *over_at, over_time = values[9:]
    creator_text = encode_optional_hex(creator)
    return Incident(
        number=number,
        creator=None if creator_text is None else Address(creator_text),
        found_at=Position(*found_position_values),
        found_time=found_time,
        since=since,
        until=until,
        nodes=nodes,
        timeouts=timeouts,
        over_at=None if over_at[0] is None else Position(*over_at),
        over_time=over_time,
    )
