"""The last block folded, moved by compare-and-swap (chain.md 3.5, step 7)."""

from dataclasses import dataclass

from sqlalchemy import Connection

from oracle.domain.block import BlockRef
from oracle.domain.ids import Hash


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last block folded and the newest final one; `time` in seconds.

    `epoch` counts the moves; whoever moves the cursor names the epoch that they read.
    `final_number` is None until a final block was seen.
    """

    number: int
    hash: Hash
    time: int
    final_number: int | None
    final_hash: Hash | None
    epoch: int


class CursorRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Cursor | None:
        """Return the cursor; None before the first window."""
        raise NotImplementedError

    def move_to(self, block: BlockRef, final: BlockRef | None, epoch: int) -> int:
        """Put the cursor on `block`, forwards or back, and return the new epoch.

        `epoch` is the one that was read, 0 where there was no cursor. `final` None keeps what
        is there.

        Raises:
            FatalError: another writer moved it since.
        """
        raise NotImplementedError

    def clear(self) -> None:
        """Forget where we are; the next window starts at the start block."""
        raise NotImplementedError
