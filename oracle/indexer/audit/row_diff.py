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

_NO_BLOCK = Hash("not there")


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
    other_logs: list[Log] = field(default_factory=list)
    other_calls: list[Call] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(self._all())

    @property
    def missing(self) -> list[Log | Call]:
        """Rows that only the endpoint has."""
        return [*self.missing_logs, *self.missing_calls]

    @property
    def extra(self) -> list[Log | Call]:
        """Rows that only the database has."""
        return [*self.extra_logs, *self.extra_calls]

    @property
    def other(self) -> list[Log | Call]:
        """Rows that both have with different contents, in the endpoint's version."""
        return [*self.other_logs, *self.other_calls]

    @property
    def rows(self) -> int:
        """Number of differing rows."""
        return sum(map(len, self._all()))

    @property
    def blocks(self) -> list[int]:
        """Blocks with differing rows, ascending."""
        return sorted({row.block for rows in self._all() for row in rows})

    def add(self, more: "RowDiff") -> None:
        """Add the differences of other blocks."""
        self.missing_logs += more.missing_logs
        self.missing_calls += more.missing_calls
        self.extra_logs += more.extra_logs
        self.extra_calls += more.extra_calls
        self.other_logs += more.other_logs
        self.other_calls += more.other_calls

    def up_to(self, block: int) -> "RowDiff":
        """Return the differences of the blocks up to `max_block`."""
        return RowDiff(
            [log for log in self.missing_logs if log.block <= block],
            [call for call in self.missing_calls if call.block <= block],
            [log for log in self.extra_logs if log.block <= block],
            [call for call in self.extra_calls if call.block <= block],
            [log for log in self.other_logs if log.block <= block],
            [call for call in self.other_calls if call.block <= block],
        )

    def _all(self) -> Sequence[list[Log] | list[Call]]:
        return (
            self.missing_logs,
            self.missing_calls,
            self.extra_logs,
            self.extra_calls,
            self.other_logs,
            self.other_calls,
        )


def compare(uow: UnitOfWork, window: BlockWindow) -> RowDiff:
    """Compare a window with the canonical rows of its blocks, in every stored field."""
    first, last = window.range.first, window.range.last
    ours = {_log_key(log): log for log in uow.logs.between(first, last)}
    theirs = {_log_key(log): log for log in window.logs}
    our_calls = {_call_key(call): call for call in uow.calls.between(first, last)}
    their_calls = {_call_key(call): call for call in window.calls}
    return RowDiff(
        missing_logs=[log for key, log in theirs.items() if key not in ours],
        missing_calls=[call for key, call in their_calls.items() if key not in our_calls],
        extra_logs=[log for key, log in ours.items() if key not in theirs],
        extra_calls=[call for key, call in our_calls.items() if key not in their_calls],
        other_logs=[log for key, log in theirs.items() if ours.get(key, log) != log],
        other_calls=[c for key, c in their_calls.items() if our_calls.get(key, c) != c],
    )


def check_same_chain(uow: UnitOfWork, cursor: Cursor, window: BlockWindow) -> None:
    """Compare all known block hashes: rows of another fork must not be inserted.

    Raises:
        TransientError: the chain is reorganising there.
        FatalError: a final block differs.
    """
    if window.last.number > cursor.number:
        words = f"block {window.last.number} follows block {window.range.first - 1}"
        raise TransientError(f"{words}, which has others after it here: the chain is changing")
    ours, theirs = _hashes(uow, window)
    number = other_block(uow, window)
    if number is not None:
        raise _another(cursor, number, theirs[number], ours[number])


def other_block(uow: UnitOfWork, window: BlockWindow) -> int | None:
    """Return the lowest block with different hashes on both sides, or None."""
    ours, theirs = _hashes(uow, window)
    return min((n for n in theirs.keys() & ours.keys() if theirs[n] != ours[n]), default=None)


def _hashes(uow: UnitOfWork, window: BlockWindow) -> tuple[dict[int, Hash], dict[int, Hash]]:
    """Return the stored and the served block hashes, by number.

    A window with all its headers also shows that there is no block at any height it omits.
    """
    first, last = window.range.first, window.range.last
    theirs = {block.number: block.hash for block in [*window.headers, window.last]}
    theirs |= {log.block: log.block_hash for log in window.logs}
    ours = {block.number: block.hash for block in uow.blocks.between(first, last)}
    ours |= {log.block: log.block_hash for log in uow.logs.between(first, last)}
    if window.headers:
        theirs |= dict.fromkeys(ours.keys() - theirs.keys(), _NO_BLOCK)
    return ours, theirs


def check_or_blame(
    chain: ChainReader, uow: UnitOfWork, cursor: Cursor, window: BlockWindow
) -> None:
    """Check as `check_same_chain`, but blame the endpoint for a different final block.

    In the daemon one endpoint's claim about a final block is not fatal: finality_halt compares all
    endpoints.

    Raises:
        TransientError: the chain is reorganising there, or this endpoint is on another chain.
    """
    try:
        check_same_chain(uow, cursor, window)
    except FatalError as error:
        chain.blame(window.endpoint, str(error))
        raise TransientError(f"{window.endpoint}: {error}") from error


def _another(cursor: Cursor, number: int, theirs: Hash, ours: Hash) -> Exception:
    difference = f"block {number} is {theirs} on the chain and {ours} here"
    if cursor.final_number is None or number > cursor.final_number:
        return TransientError(f"{difference}: let `qos-oracle run` follow the fork first")
    return FatalError(f"{difference}, and final: check the endpoints before anything else")


def _log_key(log: Log) -> tuple[int, int, Hash]:
    return log.block, log.index, log.block_hash


def _call_key(call: Call) -> tuple[int, int, Hash]:
    return call.block, call.tx, call.block_hash


def require_indexed(action: str, uow: UnitOfWork, blocks: BlockRange) -> Cursor:
    """Return the cursor if all of `blocks` are indexed.

    Raises:
        InputError: some are not; the message names `action`, a verb, and the blocks that are.
    """
    cursor, identity = uow.cursor.get(), uow.identity.get()
    if cursor is None or identity is None:
        raise InputError("nothing is indexed yet: `qos-oracle run` fetches everything")
    if blocks.first < identity.start_block or blocks.last > cursor.number:
        raise InputError(
            f"cannot {action} blocks {blocks.first} to {blocks.last}: "
            f"indexed are {identity.start_block} to {cursor.number}"
        )
    return cursor
