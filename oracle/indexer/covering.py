"""The ledger of what was read: written with every window, and read by all who judge it."""

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import LogReader
from oracle.domain.coverage import Covered, IngestScope
from oracle.domain.verification import Level
from oracle.store.database import UnitOfWork


def scope_of(reader: LogReader) -> IngestScope:
    """Return what is asked of every block for this reader."""
    calls = [f"{to}:{four}" for to, fours in reader.selectors.items() for four in fours]
    return IngestScope.of(reader.addresses, reader.topics, calls)


def note_window(uow: UnitOfWork, scope: IngestScope, window: BlockWindow) -> None:
    """Write down how well a window was read, in the transaction that stores it."""
    uow.coverage.adopt(scope)
    blocks = window.range
    covered = Covered(blocks.first, blocks.last, window.level, window.endpoint)
    uow.coverage.put(scope.id, covered)
    note_proven(uow, window)


def note_proven(uow: UnitOfWork, window: BlockWindow) -> None:
    """Write down which single blocks reached more than the window as a whole."""
    if window.level >= Level.PROVEN or not window.proven:
        return
    known = {log.block: log.block_hash for log in window.logs}
    known |= {call.block: call.block_hash for call in window.calls}
    known |= {block.number: block.hash for block in [*window.headers, window.last]}
    proven = [(number, known[number]) for number in window.proven if number in known]
    uow.verified_blocks.save(proven, Level.PROVEN, window.endpoint)
