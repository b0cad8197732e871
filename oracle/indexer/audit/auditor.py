"""Asks another provider, later, about final blocks that an endpoint gave us.

Where the settings name one provider, another endpoint of it is asked. Every final block is audited
once; then now and then an old window again, which the hash of the final block chooses. A
difference is proven by receipts where possible; the better-proven side wins, and the state is
folded anew.
See docs/explanation/verification.md#l5.
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

# Blocks of one question.
WINDOW = 1_000
# One of so many new final blocks has an old window asked about again.
AGAIN = 100
# While we are behind the head, only every so many turns are ours.
BEHIND = 20


class Due(NamedTuple):
    """Blocks to audit, the endpoint that gave them, and whether they were audited before.

    `is_suspect`: the endpoint that gave them was proven wrong.
    """

    blocks: BlockRange
    giver: str
    again: bool = False
    is_suspect: bool = False


@dataclass(slots=True)
class Auditor:
    """What the audit remembers between its turns; its progress is the coverage's own.

    `window` and `again` as above. `ahead` is the block from which it looks: what could not be
    settled is left for the next process; `suspect_ahead` the same for what came from endpoints
    that were proven wrong. `wait_seconds` is how many seconds a turn waits for an answer, which is
    then looked for in later turns; None: until it is there.
    """

    window: int = WINDOW
    # Of fewer blocks than these, where more will come, nobody is asked yet.
    least: int = WINDOW
    again: int = AGAIN
    ahead: int = 0
    suspect_ahead: int = 0
    wait_seconds: float | None = None
    # The request that is under way.
    _pending: tuple[Due, Future[BlockWindow]] | None = None
    _turns: int = 0
    _sampled: int = -1
    _at_fault: dict[str, int] = field(default_factory=dict)
    _wrong: frozenset[str] = frozenset()

    def has_turn(self, *, is_caught_up: bool) -> bool:
        """Tell whether to audit now: at the head always, on the way there seldom."""
        self._turns += 1
        return is_caught_up or self._turns % BEHIND == 0

    @property
    def is_waiting(self) -> bool:
        """Whether a request is under way, or its answer was not read yet."""
        return self._pending is not None

    def ask(self, due: Due, question: Callable[[], BlockWindow]) -> None:
        """Send a request in the background, and wait a little for its answer."""
        future = in_background(question, f"audit {due.blocks.first}")
        self._pending = due, future
        wait([future], self.wait_seconds)

    def answered(self) -> tuple[Due, BlockWindow] | None:
        """Return the request and its answer, once; None: there is no answer yet.

        Raises:
            TransientError: the endpoint gave none.
        """
        if self._pending is None or not self._pending[1].done():
            return None
        (due, future), self._pending = self._pending, None
        return due, future.result()

    def leave(self, due: Due, blocks: BlockRange) -> None:
        """Look above these blocks from now on: nothing could be settled."""
        if due.is_suspect:
            self.suspect_ahead = max(self.suspect_ahead, blocks.last + 1)
        else:
            self.ahead = max(self.ahead, blocks.last + 1)

    def knows(self, wrong: Iterable[str]) -> None:
        """Begin with the oldest block again where somebody else was proven wrong since."""
        names = frozenset(wrong)
        if names != self._wrong:
            self._wrong, self.ahead, self.suspect_ahead = names, 0, 0

    def found_at_fault(self, endpoint: str, rows: int) -> int:
        """Count the rows that an endpoint was wrong about; return all of this process."""
        self._at_fault[endpoint] = self._at_fault.get(endpoint, 0) + rows
        return self._at_fault[endpoint]

    def sample(self, cursor: Cursor, start: int) -> BlockRange | None:
        """Return an old window to ask about again, if this final block says so."""
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
    """Ask another witness about the next window that is due; None: none is due, or none can be.

    Raises:
        TransientError: the other endpoint gives no whole answer now, or is on another chain.
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
    """Compare a window with what the database holds, and store the result."""
    chain, store, folder = task.chain, task.store, task.folder
    with store.reading() as uow:
        other = other_block(uow, window)
        difference = compare(uow, window)
    if other is not None and not chain.is_vouched():
        # No header says who is right, and blaming one of the two would hide that.
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
    """Return the oldest blocks that only an endpoint proven wrong gave, or None.

    However few they are, and up to our newest one: nothing rests on them before an audit.
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
        # Everything below it is audited: nobody looks through that again.
        auditor.ahead = final + 1 if span is None else span.first
        # A range that grows is waited for: one request for so many blocks.
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
