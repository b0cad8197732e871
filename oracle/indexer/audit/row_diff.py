"""Compares the rows that an endpoint returns for some blocks with the stored ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log
from oracle.errors import FatalError, InputError, TransientError
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

_MISSING_BLOCK = Hash("not there")


@dataclass(slots=True)
class RowDiff:
    """Differences between an endpoint's rows and the stored ones; falsy if they are equal.

    `missing`: only the endpoint has them. `extra`: only the database has them. `changed`: the
    endpoint's version of rows that are stored with other contents.
    """

    missing_logs: list[Log] = field(default_factory=list)
    missing_calls: list[Call] = field(default_factory=list)
    extra_logs: list[Log] = field(default_factory=list)
    extra_calls: list[Call] = field(default_factory=list)
    changed_logs: list[Log] = field(default_factory=list)
    changed_calls: list[Call] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(self._row_lists())

    @property
    def missing(self) -> list[Log | Call]:
        """Rows that only the endpoint has."""
        return [*self.missing_logs, *self.missing_calls]

    @property
    def extra(self) -> list[Log | Call]:
        """Rows that only the database has."""
        return [*self.extra_logs, *self.extra_calls]

    @property
    def changed(self) -> list[Log | Call]:
        """Rows that both have with different contents, in the endpoint's version."""
        return [*self.changed_logs, *self.changed_calls]

    @property
    def row_count(self) -> int:
        """Number of differing rows."""
        return sum(map(len, self._row_lists()))

    @property
    def blocks(self) -> list[int]:
        """Blocks with differing rows, ascending."""
        return sorted({row.block for rows in self._row_lists() for row in rows})

    def merge(self, other: "RowDiff") -> None:
        """Add the differences of other blocks."""
        self.missing_logs += other.missing_logs
        self.missing_calls += other.missing_calls
        self.extra_logs += other.extra_logs
        self.extra_calls += other.extra_calls
        self.changed_logs += other.changed_logs
        self.changed_calls += other.changed_calls

    def limit_to(self, max_block: int) -> "RowDiff":
        """Return the differences of the blocks up to `max_block`."""
        return RowDiff(
            [log for log in self.missing_logs if log.block <= max_block],
            [call for call in self.missing_calls if call.block <= max_block],
            [log for log in self.extra_logs if log.block <= max_block],
            [call for call in self.extra_calls if call.block <= max_block],
            [log for log in self.changed_logs if log.block <= max_block],
            [call for call in self.changed_calls if call.block <= max_block],
        )

    def _row_lists(self) -> Sequence[list[Log] | list[Call]]:
        return (
            self.missing_logs,
            self.missing_calls,
            self.extra_logs,
            self.extra_calls,
            self.changed_logs,
            self.changed_calls,
        )


def compare_rows(uow: UnitOfWork, window: BlockWindow) -> RowDiff:
    """Compare a window with the canonical rows of its blocks, in every stored field."""
    first, last = window.range.first, window.range.last
    stored_logs = {_log_key(log): log for log in uow.logs.iterate_between(first, last)}
    served_logs = {_log_key(log): log for log in window.logs}
    stored_calls = {_call_key(call): call for call in uow.calls.iterate_between(first, last)}
    served_calls = {_call_key(call): call for call in window.calls}
    return RowDiff(
        missing_logs=[log for key, log in served_logs.items() if key not in stored_logs],
        missing_calls=[call for key, call in served_calls.items() if key not in stored_calls],
        extra_logs=[log for key, log in stored_logs.items() if key not in served_logs],
        extra_calls=[call for key, call in stored_calls.items() if key not in served_calls],
        changed_logs=[log for key, log in served_logs.items() if stored_logs.get(key, log) != log],
        changed_calls=[
            served_call
            for key, served_call in served_calls.items()
            if stored_calls.get(key, served_call) != served_call
        ],
    )


def check_same_chain(uow: UnitOfWork, cursor: Cursor, window: BlockWindow) -> None:
    """Check that the window has the block hashes that are stored.

    Rows of another fork must not be inserted.

    Raises:
        TransientError: the chain is reorganising in these blocks.
        FatalError: a final block differs.
    """
    if window.last.number > cursor.number:
        raise TransientError(
            f"block {window.last.number} follows block {window.range.first - 1} on the chain, but "
            "the database has blocks in between; the chain is reorganising"
        )
    stored_hashes, served_hashes = _load_block_hashes(uow, window)
    number = find_conflicting_block(uow, window)
    if number is not None:
        raise _build_conflict_error(cursor, number, served_hashes[number], stored_hashes[number])


def find_conflicting_block(uow: UnitOfWork, window: BlockWindow) -> int | None:
    """Return the lowest block with different hashes on both sides, or None."""
    stored_hashes, served_hashes = _load_block_hashes(uow, window)
    return min(
        (
            number
            for number in served_hashes.keys() & stored_hashes.keys()
            if served_hashes[number] != stored_hashes[number]
        ),
        default=None,
    )


def _load_block_hashes(
    uow: UnitOfWork, window: BlockWindow
) -> tuple[dict[int, Hash], dict[int, Hash]]:
    """Return the stored and the served block hashes, by number.

    A window with all its headers also shows that there is no block at any height it omits.
    """
    first, last = window.range.first, window.range.last
    served_hashes = {block.number: block.hash for block in [*window.headers, window.last]}
    served_hashes |= {log.block: log.block_hash for log in window.logs}
    stored_hashes = {block.number: block.hash for block in uow.blocks.list_canonical(first, last)}
    stored_hashes |= {log.block: log.block_hash for log in uow.logs.iterate_between(first, last)}
    if window.headers:
        served_hashes |= dict.fromkeys(stored_hashes.keys() - served_hashes.keys(), _MISSING_BLOCK)
    return stored_hashes, served_hashes


def check_same_chain_or_blame(
    chain: ChainReader, uow: UnitOfWork, cursor: Cursor, window: BlockWindow
) -> None:
    """Call `check_same_chain`, but blame the endpoint if a final block differs.

    In the daemon one endpoint's claim about a final block is not fatal: finality_halt compares all
    endpoints.

    Raises:
        TransientError: the chain is reorganising there, or this endpoint is on another chain.
    """
    try:
        check_same_chain(uow, cursor, window)
    except FatalError as error:
        chain.report_wrong_logs(window.endpoint, str(error))
        raise TransientError(f"{window.endpoint}: {error}") from error


def _build_conflict_error(
    cursor: Cursor, number: int, served_hash: Hash, stored_hash: Hash
) -> Exception:
    difference = f"block {number} is {served_hash} on the chain but {stored_hash} in the database"
    if cursor.final_number is None or number > cursor.final_number:
        return TransientError(f"{difference}; let `qos-oracle run` follow the fork first")
    return FatalError(f"{difference}, although it is final; check the endpoints first")


def _log_key(log: Log) -> tuple[int, int, Hash]:
    return log.block, log.index, log.block_hash


def _call_key(call: Call) -> tuple[int, int, Hash]:
    return call.block, call.tx, call.block_hash


def require_indexed(action: str, uow: UnitOfWork, blocks: BlockRange) -> Cursor:
    """Return the cursor if all of `blocks` are indexed.

    Raises:
        InputError: some blocks are not indexed; the message has `action`, a verb, and the indexed
            range.
    """
    cursor, identity = uow.cursor.get(), uow.identity.get()
    if cursor is None or identity is None:
        raise InputError("nothing is indexed yet; run `qos-oracle run` first")
    if blocks.first < identity.start_block or blocks.last > cursor.number:
        raise InputError(
            f"cannot {action} blocks {blocks.first} to {blocks.last}; only blocks "
            f"{identity.start_block} to {cursor.number} are indexed"
        )
    return cursor
