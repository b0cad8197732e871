"""What happened to nodes, appended only: scores, changes of reliability, anomalies."""

from collections.abc import Sequence

from sqlalchemy import Connection

from oracle.domain.ids import Address
from oracle.domain.ledger import Anomaly, ReliabilityChange, ScoreEntry


class ScoreRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, scores: Sequence[ScoreEntry]) -> None:
        """Write scores down."""
        raise NotImplementedError

    def of_node(
        self, node: Address, last: int = 50, *, up_to_seq: int | None = None
    ) -> list[ScoreEntry]:
        """Return the node's last scores, oldest first; `up_to_seq` looks from an earlier one."""
        raise NotImplementedError

    def of_node_at(self, node: Address, block: int, last: int = 50) -> list[ScoreEntry]:
        """Return the last scores that the node had after `block`, oldest first."""
        raise NotImplementedError


class ReliabilityRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, changes: Sequence[ReliabilityChange]) -> None:
        """Write changes of reliability down."""
        raise NotImplementedError

    def of_node(
        self, node: Address, last: int = 50, *, up_to_block: int | None = None
    ) -> list[ReliabilityChange]:
        """Return the node's last changes of H, oldest first; `up_to_block` included."""
        raise NotImplementedError


class AnomalyRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, anomalies: Sequence[Anomaly]) -> None:
        """Write anomalies down."""
        raise NotImplementedError

    def latest(self, last: int = 50) -> list[Anomaly]:
        """Return the newest anomalies, oldest first."""
        raise NotImplementedError

    def count(self) -> int:
        """Count them all."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """Count them by the rule that was broken."""
        raise NotImplementedError
