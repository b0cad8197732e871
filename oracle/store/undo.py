"""The undo journal: what each block above the final one replaced (chain.md 3.5, 3.6)."""

from collections.abc import Sequence

from sqlalchemy import Connection

from oracle.domain.ledger import PreImages
from oracle.domain.rounds import RoundsPreImages


class UndoRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, pre_images: Sequence[PreImages | RoundsPreImages]) -> None:
        """Write pre-images down; of one row in one block the first counts."""
        raise NotImplementedError

    def rollback_to(self, number: int) -> None:
        """Put every projection back to what it was after block `number`, and empty the journal.

        Rows of the fold and of the contract's state get their oldest pre-image above `number`;
        what was appended above it is deleted; kickout spells closed above it are open again.
        Raw rows, blocks, cursor, reports and lanes are the caller's to change.

        Raises:
            FatalError: the journal does not reach back so far; refold instead.
        """
        raise NotImplementedError

    def prune_to(self, final: int) -> None:
        """Forget how to undo blocks up to `final`; every block above it must be journaled."""
        raise NotImplementedError

    def reach(self) -> int | None:
        """Return the lowest block that `rollback_to` can return to; None without a cursor."""
        raise NotImplementedError
