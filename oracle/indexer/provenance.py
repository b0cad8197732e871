"""Records how each block was read and folded, together with the window that stores it."""

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import LogReader
from oracle.domain.coverage import Covered, IngestScope, Level
from oracle.domain.fold.fold import FOLD_VERSION
from oracle.domain.log_table import block_hashes
from oracle.store.database import UnitOfWork


def scope_of(reader: LogReader) -> IngestScope:
    """Return the addresses, topics and calls that this reader reads in every block."""
    calls = [f"{to}:{four}" for to, fours in reader.selectors.items() for four in fours]
    return IngestScope.of(reader.addresses, reader.topics, calls)


def note_window(uow: UnitOfWork, scope: IngestScope, window: BlockWindow) -> None:
    """Record how a window was read, in the transaction that stores it."""
    uow.coverage.set_scope(scope)
    blocks = window.range
    covered = Covered(blocks.first, blocks.last, window.level, window.endpoint)
    uow.coverage.put(scope.id, covered)
    note_proven(uow, window)


def note_proven(uow: UnitOfWork, window: BlockWindow) -> None:
    """Record the single blocks that reached a higher level than the window as a whole."""
    if window.level >= Level.PROVEN or not window.proven:
        return
    known = block_hashes(window.logs)
    known |= {call.block: call.block_hash for call in window.calls}
    known |= {block.number: block.hash for block in [*window.headers, window.last]}
    proven = [(number, known[number]) for number in window.proven if number in known]
    uow.verified_blocks.save(proven, Level.PROVEN, window.endpoint)


_FOLDED_BY = "folded_by_version"
_STALE = "fold_is_stale"
_REBUILDS = "rebuilds"


def note_folded(uow: UnitOfWork, reader: LogReader) -> None:
    """Record that all raw rows are folded with this version and profile."""
    uow.bookmarks.set(_FOLDED_BY, _sign(reader))
    uow.bookmarks.clear(_STALE)


def note_rebuilt(uow: UnitOfWork) -> None:
    """Increment the number of refolds; earlier exports may differ from now on."""
    uow.bookmarks.set(_REBUILDS, rebuilds(uow) + 1)


def rebuilds(uow: UnitOfWork) -> int:
    """Return how often everything was refolded from the start."""
    return uow.bookmarks.number(_REBUILDS) or 0


def note_stale(uow: UnitOfWork) -> None:
    """Record that rows were inserted below the cursor, so the state lacks them."""
    uow.bookmarks.set(_STALE, "rows came in")


def why_rebuild(uow: UnitOfWork, reader: LogReader) -> str | None:
    """Return why everything has to be refolded, or None if it has not."""
    if uow.cursor.get() is None:
        return None
    if uow.bookmarks.get(_STALE) is not None:
        return "what was missing is there now"
    # Version 1 stored no version.
    known = uow.bookmarks.get(_FOLDED_BY) or "1"
    if known != _sign(reader):
        return f"folded by {_shown(known)}, and this is {_shown(_sign(reader))}"
    return None


def _sign(reader: LogReader) -> str:
    return f"{FOLD_VERSION} {reader.identity}"


def _shown(sign: str) -> str:
    version, _, profile = sign.partition(" ")
    return f"version {version} of the fold" + (f" with the profile {profile}" if profile else "")
