"""Anomalies: events that broke a rule and were ignored. Rows are only appended."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import Anomaly
from oracle.store.bulk import insert_rows
from oracle.store.history_repository import number_entries
from oracle.store.tables.state_tables import anomaly


class AnomalyRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, anomalies: Sequence[Anomaly]) -> None:
        """Append anomalies."""
        insert_rows(
            self._connection,
            anomaly,
            [
                (*entry.at, seq, entry.time, entry.rule, entry.event)
                for seq, entry in number_entries(anomalies)
            ],
        )

    def list_latest(self, limit: int = 50) -> list[Anomaly]:
        """Return the newest anomalies, oldest first."""
        newest = [column.desc() for column in anomaly.primary_key.columns]
        rows = self._connection.execute(select(anomaly).order_by(*newest).limit(limit)).all()
        return [_decode_anomaly_row(row) for row in reversed(rows)]

    def count(self) -> int:
        """Count all anomalies."""
        count_query = select(func.count()).select_from(anomaly)
        return int(self._connection.execute(count_query).scalar_one())

    def count_by_rule(self) -> dict[str, int]:
        """Count anomalies by the rule that was broken."""
        count_query = select(anomaly.c.rule, func.count()).group_by(anomaly.c.rule)
        return {rule: int(count) for rule, count in self._connection.execute(count_query)}


def _decode_anomaly_row(row: Any) -> Anomaly:  # noqa: ANN401  a row of any driver
    return Anomaly(
        at=Position(row.block, row.tx, row.log, row.sub),
        time=row.time,
        rule=row.rule,
        event=row.event,
    )
