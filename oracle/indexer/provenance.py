"""Records how each block was read and folded, in the transaction that stores the block."""

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRef
from oracle.domain.coverage import CoverageInterval, IngestScope, VerificationLevel
from oracle.domain.fold.fold import FOLD_VERSION
from oracle.domain.ids import ZERO_HASH
from oracle.domain.logs import get_block_hashes
from oracle.store.database import UnitOfWork

_FOLD_VERSION_KEY = "folded_by_version"
_STALE_KEY = "fold_is_stale"
# The as-of block of the first report after the last refold, and the number of refolds when the
# last report was built.
FIRST_CUT_KEY = "first_cut_since_rebuild"
_REFOLD_COUNT_KEY = "rebuilds"


def build_ingest_scope(reader: EventReader) -> IngestScope:
    """Return the addresses, topics and calls that this reader reads from every block."""
    call_selectors = [
        f"{address}:{selector}"
        for address, selectors in reader.selectors.items()
        for selector in selectors
    ]
    return IngestScope.create(reader.addresses, reader.topics, call_selectors)


def record_window(uow: UnitOfWork, scope: IngestScope, window: BlockWindow) -> None:
    """Record how a window was read, in the transaction that stores the window."""
    uow.coverage.set_scope(scope)
    blocks = window.range
    coverage = CoverageInterval(blocks.first, blocks.last, window.level, window.endpoint)
    uow.coverage.store_interval(scope.id, coverage)
    record_proven_blocks(uow, window)


def record_proven_blocks(uow: UnitOfWork, window: BlockWindow) -> None:
    """Record which blocks have a higher verification level than the whole window."""
    if window.level >= VerificationLevel.PROVEN or not window.proven:
        return
    hash_by_number = get_block_hashes(window.logs)
    hash_by_number |= {call.block: call.block_hash for call in window.calls}
    hash_by_number |= {block.number: block.hash for block in [*window.headers, window.last]}
    proven_blocks = [
        (number, hash_by_number[number]) for number in window.proven if number in hash_by_number
    ]
    uow.verified_blocks.save(proven_blocks, VerificationLevel.PROVEN, window.endpoint)


def record_fold_version(uow: UnitOfWork, reader: EventReader) -> None:
    """Record that all raw rows were folded by this version of the fold and the profile."""
    uow.bookmarks.set(_FOLD_VERSION_KEY, _format_fold_version(reader))
    uow.bookmarks.delete(_STALE_KEY)


def increment_refold_count(uow: UnitOfWork) -> None:
    """Count one more refold.

    Exports from before a refold may be outdated.
    """
    uow.bookmarks.set(_REFOLD_COUNT_KEY, get_refold_count(uow) + 1)


def get_refold_count(uow: UnitOfWork) -> int:
    """Return how often everything was refolded."""
    return uow.bookmarks.get_number(_REFOLD_COUNT_KEY) or 0


def mark_fold_stale(uow: UnitOfWork) -> None:
    """Mark the folded state as stale after rows were inserted below the cursor."""
    uow.bookmarks.set(_STALE_KEY, "rows came in")


def find_rebuild_reason(uow: UnitOfWork, reader: EventReader) -> str | None:
    """Return why everything has to be refolded, or None if no refold is needed."""
    if uow.cursor.get() is None:
        return None
    if uow.bookmarks.get(_STALE_KEY) is not None:
        return "rows that were missing were added"
    # Version 1 of the fold did not store its version.
    stored_version = uow.bookmarks.get(_FOLD_VERSION_KEY) or "1"
    if stored_version != _format_fold_version(reader):
        return (
            f"the state was folded by {_describe_fold_version(stored_version)}, but the program "
            f"has {_describe_fold_version(_format_fold_version(reader))}"
        )
    return None


def _format_fold_version(reader: EventReader) -> str:
    return f"{FOLD_VERSION} {reader.identity}"


def _describe_fold_version(version_text: str) -> str:
    version, _, profile = version_text.partition(" ")
    return f"version {version} of the fold" + (f" with the profile {profile}" if profile else "")


def find_stored_block(uow: UnitOfWork, number: int) -> BlockRef | None:
    """Return a block by its stored header or a stored log, or None without either.

    The parent hash of a block from a log is zero.
    """
    block = uow.blocks.find_canonical(number)
    if block is not None:
        return block
    log = next(iter(uow.logs.iterate_between(number, number)), None)
    return None if log is None else BlockRef(number, log.block_hash, ZERO_HASH, log.time)
