"""Events that broke a rule and were ignored; append-only."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import Anomaly
from oracle.store.bulk import append
from oracle.store.history_repository import numbered
from oracle.store.tables.state_tables import anomaly


class AnomalyRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, anomalies: Sequence[Anomaly]) -> None:
        """Append anomalies."""
        append(
            self._connection,
            anomaly,
            [
                (*each.at, seq, each.time, each.rule, each.event)
                for seq, each in numbered(anomalies)
            ],
        )

    def latest(self, last: int = 50) -> list[Anomaly]:
        """Return the newest anomalies, oldest first."""
        newest = [column.desc() for column in anomaly.primary_key.columns]
        rows = self._connection.execute(select(anomaly).order_by(*newest).limit(last)).all()
        return [_anomaly_of(row) for row in reversed(rows)]

    def count(self) -> int:
        """Count all anomalies."""
        counted = select(func.count()).select_from(anomaly)
        return int(self._connection.execute(counted).scalar_one())

    def counts(self) -> dict[str, int]:
        """Count anomalies by the rule that was broken."""
        counted = select(anomaly.c.rule, func.count()).group_by(anomaly.c.rule)
        return {rule: int(number) for rule, number in self._connection.execute(counted)}


def _anomaly_of(row: Any) -> Anomaly:  # noqa: ANN401  a row of any driver
    return Anomaly(
        at=Position(row.block, row.tx, row.log, row.sub),
        time=row.time,
        rule=row.rule,
        event=row.event,
    )
