"""Dead letters (logs and calls that could not be decoded), and their retry.

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
    """Letters that are readable now, and those still unreadable; `rebuilt` is None if none are."""

    readable: tuple[DeadLetter, ...]
    left: tuple[DeadLetter, ...]
    rebuilt: RebuildResult | None


def open_letters(store: Store) -> list[DeadLetter]:
    """Return the dead letters that are still unreadable, in order of position."""
    with store.reading() as uow:
        return uow.dead_letters.open_between(0, _NEVER)


def retry(store: Store, folder: Folder, manner: RebuildOptions) -> RetryResult:
    """Decode the dead letters again; if any is readable now, refold everything.

    The state is then as if they had been readable from the start.

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
    """Yield the dead letters that decoding the blocks of these letters still gives."""
    with store.reading() as uow:
        for block in sorted({letter.block for letter in letters}):
            logs = list(uow.logs.between(block, block))
            calls = list(uow.calls.between(block, block))
            yield from folder.reader.read(logs, calls).dead


def _place(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.block, letter.tx, letter.index
