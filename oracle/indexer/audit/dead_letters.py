"""What could not be read, and reading it again when the program has learned to.

See docs/explanation/ingest.md#decoding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from oracle.domain.logs import DeadLetter
from oracle.indexer.folder import Folder
from oracle.indexer.rebuild import RebuildOptions, RebuildResult, rebuild_state
from oracle.store.database import Store

# Above every block.
_NEVER = 2**62


@dataclass(frozen=True, slots=True)
class RetryResult:
    """What is readable now, and what is still not; `rebuilt` None: nothing changed."""

    readable: tuple[DeadLetter, ...]
    left: tuple[DeadLetter, ...]
    rebuilt: RebuildResult | None


def open_letters(store: Store) -> list[DeadLetter]:
    """Return what stands unread, in order of position."""
    with store.reading() as uow:
        return uow.dead_letters.open_between(0, _NEVER)


def retry(store: Store, folder: Folder, manner: RebuildOptions) -> RetryResult:
    """Read the dead letters again; if any can be read now, fold everything anew.

    Then the state is as if they had been readable from the start.

    Raises:
        InputError: nothing is indexed yet.
    """
    before = open_letters(store)
    left = list(_unreadable(store, folder, before))
    still = {_place(letter) for letter in left}
    readable = tuple(letter for letter in before if _place(letter) not in still)
    rebuilt = rebuild_state(store, folder, manner) if readable else None
    return RetryResult(readable, tuple(left), rebuilt)


def _unreadable(store: Store, folder: Folder, letters: list[DeadLetter]) -> Iterator[DeadLetter]:
    """Yield what the blocks of these letters still say that we cannot read."""
    with store.reading() as uow:
        for block in sorted({letter.block for letter in letters}):
            logs = list(uow.logs.between(block, block))
            calls = list(uow.calls.between(block, block))
            yield from folder.reader.read(logs, calls).dead


def _place(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.block, letter.tx, letter.index
