"""Audits final blocks later with another provider than the one that served them.

With a single configured provider another of its endpoints is used. Every final block is audited
once; occasionally an old window is audited again, chosen by the hash of the final block. A
difference is proven by receipts where possible; the better-proven side wins, and the state is
refolded. See docs/explanation/verification.md#l5.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.errors import TransientError
from oracle.indexer.audit.disputes import Dispute, disputed, note_dispute
from oracle.indexer.audit.judgement import Audited, resolve_disputed_blocks
from oracle.indexer.audit.quarantine_liars import count_usable_witnesses, note_proven_wrong
from oracle.indexer.audit.repair import RepairContext
from oracle.indexer.audit.row_diff import check_or_blame, compare, other_block
from oracle.indexer.folder import Folder
from oracle.indexer.rebuild import RebuildOptions
from oracle.rpc.background import in_background
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import integrity_metrics as metrics
from oracle.telemetry.indexer_metrics import MISSING_LOGS

__all__ = ["AGAIN", "Audited", "Auditor", "audit_next"]

# Blocks per request.
WINDOW = 1_000
# One of this many new final blocks causes an old window to be audited again.
AGAIN = 100
# While behind the head, only one of this many ticks audits.
BEHIND = 20


class Due(NamedTuple):
    """Blocks to audit, the endpoint that served them, and whether they were audited before.

    `is_suspect`: that endpoint was proven wrong.
    """

    blocks: BlockRange
    giver: str
    again: bool = False
    is_suspect: bool = False


@dataclass(slots=True)
class Auditor:
    """State of the audit between ticks; its progress is stored in the coverage.

    `window_blocks` and `resample_interval` as above. `next_block` is where the search starts:
    blocks that could not be settled are left to the next process; `next_suspect_block` is the same
    for blocks from endpoints that were proven wrong. `wait_seconds` is how long a tick waits for a
    response, which later ticks check for; None waits until it arrives.
    """

    window: int = WINDOW
    # A shorter range that will grow is not audited yet.
    least: int = WINDOW
    again: int = AGAIN
    ahead: int = 0
    suspect_ahead: int = 0
    wait_seconds: float | None = None
    # The request in flight.
    _pending: tuple[Due, Future[BlockWindow]] | None = None
    _turns: int = 0
    _sampled: int = -1
    _at_fault: dict[str, int] = field(default_factory=dict)
    _wrong: frozenset[str] = frozenset()

    def has_turn(self, *, is_caught_up: bool) -> bool:
        """Return whether to audit now: always at the head, seldom during catch-up."""
        self._turns += 1
        return is_caught_up or self._turns % BEHIND == 0

    @property
    def is_waiting(self) -> bool:
        """Whether a request is in flight, or its response was not taken yet."""
        return self._pending is not None

    def ask(self, due: Due, question: Callable[[], BlockWindow]) -> None:
        """Send a request in the background, and wait `wait_seconds` for its response."""
        future = in_background(question, f"audit {due.blocks.first}")
        self._pending = due, future
        wait([future], self.wait_seconds)

    def answered(self) -> tuple[Due, BlockWindow] | None:
        """Return the target and the fetched window, once; None if there is none yet.

        Raises:
            TransientError: the endpoint did not respond.
        """
        if self._pending is None or not self._pending[1].done():
            return None
        (due, future), self._pending = self._pending, None
        return due, future.result()

    def leave(self, due: Due, blocks: BlockRange) -> None:
        """Continue above these blocks from now on, because they could not be settled."""
        if due.is_suspect:
            self.suspect_ahead = max(self.suspect_ahead, blocks.last + 1)
        else:
            self.ahead = max(self.ahead, blocks.last + 1)

    def knows(self, wrong: Iterable[str]) -> None:
        """Restart from the oldest block if another set of endpoints is proven wrong."""
        names = frozenset(wrong)
        if names != self._wrong:
            self._wrong, self.ahead, self.suspect_ahead = names, 0, 0

    def found_at_fault(self, endpoint: str, rows: int) -> int:
        """Add to an endpoint's count of wrong rows; return its total in this process."""
        self._at_fault[endpoint] = self._at_fault.get(endpoint, 0) + rows
        return self._at_fault[endpoint]

    def sample(self, cursor: Cursor, start: int) -> BlockRange | None:
        """Return an old window to audit again, if the hash of this final block selects one."""
        final, final_hash = cursor.final_number, cursor.final_hash
        if final is None or final_hash is None or final == self._sampled:
            return None
        self._sampled = final
        windows = (final - start + 1) // self.window
        seed = int.from_bytes(sha256(final_hash.encode()).digest()[:8], "big")
        if windows < 1 or seed % self.again:
            return None
        first = start + seed // self.again % windows * self.window
        return BlockRange(first, first + self.window - 1)


def audit_next(
    chain: ChainReader, store: Store, folder: Folder, auditor: Auditor, manner: RebuildOptions
) -> Audited | None:
    """Audit the next due window with another witness; None if none is due or possible.

    Raises:
        TransientError: the other endpoint returns no complete response, or is on another chain.
    """
    usable_witnesses = count_usable_witnesses(chain)
    metrics.AUDIT_POSSIBLE.set(usable_witnesses > 1)
    if not auditor.is_waiting:
        with store.reading() as uow:
            due = _find_suspect(uow, folder, auditor) if usable_witnesses else None
            if due is None and usable_witnesses > 1:
                due = _find_due(uow, folder, auditor)
        if due is None:
            return None
        auditor.ask(due, _request_of(chain, due))
    answered = auditor.answered()
    if answered is None:
        return None
    return _compare_blocks(RepairContext(chain, store, folder, manner), auditor, *answered)


def _request_of(chain: ChainReader, due: Due) -> Callable[[], BlockWindow]:
    return lambda: chain.verified(due.blocks, Level.CHECKED, than=due.giver or None)


def _compare_blocks(
    task: RepairContext, auditor: Auditor, due: Due, window: BlockWindow
) -> Audited:
    """Compare a window with the stored rows, and store the result."""
    chain, store, folder = task.chain, task.store, task.folder
    with store.reading() as uow:
        other = other_block(uow, window)
        difference = compare(uow, window)
    if other is not None and not chain.is_vouched():
        # No header shows which side is right, and blaming one of them would hide that.
        with task.manner.transaction(store) as uow:
            note_dispute(uow, Dispute(other, other, due.giver, window.endpoint, difference.rows))
    with store.reading() as uow:
        check_or_blame(chain, uow, _cursor(uow), window)
    audited = Audited(window.range, due.giver, window.endpoint, difference, again=due.again)
    if difference:
        audited = resolve_disputed_blocks(task, audited)
        _blame_endpoint(task, auditor, audited)
        if not chain.is_vouched():
            with task.manner.transaction(store) as uow:
                note_dispute(uow, disputed(audited, difference))
    metrics.AUDITS.labels(audited.result).inc()
    if audited.result == "unproven" or audited.left:
        auditor.leave(due, audited.blocks)
        return audited
    with task.manner.transaction(store) as uow:
        newest = _cursor(uow).number
        uow.coverage.note_audit(folder.scope.id, audited.blocks, window.endpoint, newest)
    return audited


def _find_suspect(uow: UnitOfWork, folder: Folder, auditor: Auditor) -> Due | None:
    """Return the oldest blocks that only an endpoint proven wrong served, or None.

    Even a few of them, up to the newest block: nothing may depend on them before an audit.
    """
    quarantine, cursor = uow.facts.quarantine, uow.cursor.get()
    wrong = quarantine.reasons()
    auditor.knows(wrong)
    if not wrong or cursor is None or auditor.suspect_ahead > cursor.number:
        return None
    rest = BlockRange(auditor.suspect_ahead, cursor.number)
    span = quarantine.unaudited(folder.scope.id, rest, auditor.window)
    return None if span is None else Due(span.blocks, span.endpoint, is_suspect=True)


def _find_due(uow: UnitOfWork, folder: Folder, auditor: Auditor) -> Due | None:
    """Return the blocks to audit now, or None."""
    cursor, identity = uow.cursor.get(), uow.identity.get()
    if cursor is None or identity is None or cursor.final_number is None:
        return None
    final = min(cursor.final_number, cursor.number)
    if auditor.ahead <= final:
        rest = BlockRange(auditor.ahead, final)
        span = uow.coverage.unaudited(folder.scope.id, rest, auditor.window)
        # Everything below is audited and need not be searched again.
        auditor.ahead = final + 1 if span is None else span.first
        # Wait for a growing range, so that one request covers many blocks.
        is_enough = span is not None and len(span.blocks) >= min(auditor.least, auditor.window)
        if span is not None and (is_enough or span.last < final):
            return Due(span.blocks, span.endpoint)
    sampled = auditor.sample(replace(cursor, final_number=final), identity.start_block)
    if sampled is None:
        return None
    spans = uow.coverage.spans(folder.scope.id, sampled.first, sampled.last)
    return Due(spans[0].blocks, spans[0].endpoint, again=True) if spans else None


def _blame_endpoint(task: RepairContext, auditor: Auditor, audited: Audited) -> None:
    """Deprioritise or quarantine the endpoint that was wrong, and count its rows."""
    if not audited.at_fault:
        return
    difference = audited.difference
    left_out = difference.missing if audited.at_fault == audited.giver else difference.extra
    MISSING_LOGS.labels(audited.at_fault).inc(len(left_out))
    rows = len(difference.missing) + len(difference.extra) + len(difference.other)
    count = auditor.found_at_fault(audited.at_fault, rows)
    blocks = f"blocks {audited.blocks.first} to {audited.blocks.last}"
    chain = task.chain
    chain.blame(audited.at_fault, f"was wrong about {rows} rows of {blocks}, {count} in all")
    if audited.proven_wrong:
        chain.convict(audited.at_fault, audited.proven_wrong)
        note_proven_wrong(chain, task.store, task.manner)


def _cursor(uow: UnitOfWork) -> Cursor:
    cursor = uow.cursor.get()
    if cursor is None:
        raise TransientError("nothing is indexed any more")
    return cursor
