"""Dead letters (logs and calls that could not be decoded), and their retry.

See docs/explanation/ingest.md#decoding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from oracle.domain.logs import DeadLetter
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions, RebuildResult, rebuild_state
from oracle.store.database import Store

# Above every block.
_MAX_BLOCK = 2**62


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The dead letters that can, and cannot, be decoded now; `rebuilt` is None if none can."""

    readable: tuple[DeadLetter, ...]
    unreadable: tuple[DeadLetter, ...]
    rebuilt: RebuildResult | None


def get_open_letters(store: Store) -> list[DeadLetter]:
    """Return the dead letters that are still unreadable, in order of position."""
    with store.read_transaction() as uow:
        return uow.dead_letters.list_open(0, _MAX_BLOCK)


def retry_dead_letters(
    store: Store, folder: EventFolder, rebuild_options: RebuildOptions
) -> RetryResult:
    """Decode the dead letters again; if any is readable now, refold everything.

    The state is then as if they had been readable from the start.

    Raises:
        InputError: nothing is indexed yet.
    """
    open_before = get_open_letters(store)
    unreadable = list(_find_unreadable(store, folder, open_before))
    unreadable_positions = {_position_of(letter) for letter in unreadable}
    readable = tuple(
        letter for letter in open_before if _position_of(letter) not in unreadable_positions
    )
    rebuilt = rebuild_state(store, folder, rebuild_options) if readable else None
    return RetryResult(readable, tuple(unreadable), rebuilt)


def _find_unreadable(
    store: Store, folder: EventFolder, letters: list[DeadLetter]
) -> Iterator[DeadLetter]:
    """Decode the blocks of these dead letters again, and yield the dead letters that remain."""
    with store.read_transaction() as uow:
        for block in sorted({letter.block for letter in letters}):
            logs = list(uow.logs.iterate_between(block, block))
            calls = list(uow.calls.iterate_between(block, block))
            yield from folder.reader.decode_rows(logs, calls).dead_letters


def _position_of(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.block, letter.tx, letter.index
