"""The oracle contract's state as folded from its own events (decision 9)."""

from sqlalchemy import Connection

from oracle.domain.contract_events import RoundAccepted
from oracle.domain.rounds import Rounds, RoundsChanges


class RoundRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self) -> Rounds:
        """Return the contract's state at the cursor: head, indexes, words, newest kickouts."""
        raise NotImplementedError

    def write(self, changes: RoundsChanges) -> None:
        """Write what a `Rounds` drained, its pre-images into the undo journal included."""
        raise NotImplementedError

    def accepted(self, last: int = 50, *, up_to_block: int | None = None) -> list[RoundAccepted]:
        """Return the newest accepted rounds with their words, oldest first."""
        raise NotImplementedError

    def accepted_round(self, number: int) -> RoundAccepted | None:
        """Return one accepted round with its words."""
        raise NotImplementedError
