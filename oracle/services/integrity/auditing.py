"""Asks another endpoint, later, about final blocks that one endpoint gave us (chain.md 3.9, L5).

Every final block once; then now and then one of the old windows again, which one the hash of the
final block says. What differs is proven by receipts where that can be; the better-proven side
wins, and the state is folded anew.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from oracle.chain.aside import aside
from oracle.chain.window import Window
from oracle.domain.block import BlockRange
from oracle.domain.verification import Level
from oracle.errors import TransientError
from oracle.services.folding import Folder
from oracle.services.integrity.comparing import Difference, check_or_blame, compare
from oracle.services.integrity.repairing import proven_in, put_right, settled
from oracle.services.ports import Chain
from oracle.services.refolding import Manner, Refolded
from oracle.store.cursor import Cursor
from oracle.store.store import Store, Unit
from oracle.telemetry import integrity_metrics as metrics
from oracle.telemetry.verify_metrics import MISSING_LOGS

# Blocks of one question.
WINDOW = 1_000
# One of so many new final blocks has an old window asked about again.
AGAIN = 100
# While we are behind the head, only every so many turns are ours.
BEHIND = 20
# Blocks of one window whose receipts are asked for to settle a difference.
_MOST_PROOFS = 50


@dataclass(frozen=True, slots=True)
class Audited:
    """One window that a second endpoint was asked about.

    `giver` gave it at first, `auditor` says otherwise where there is a `difference`. `at_fault`
    is who was found to be wrong, None: nobody, or it could not be proven. `repaired` None:
    nothing was put right. `again`: the window was audited before. `left` are blocks of which
    only we have something, and nobody has proven or disproven it.
    """

    blocks: BlockRange
    giver: str
    auditor: str
    difference: Difference
    at_fault: str | None = None
    repaired: Refolded | None = None
    again: bool = False
    left: tuple[int, ...] = ()

    @property
    def result(self) -> str:
        """Return what came of it: equal, repaired, denied (the auditor is wrong) or unproven."""
        if not self.difference:
            return "equal"
        if self.repaired is not None:
            return "repaired"
        return "unproven" if self.at_fault is None else "denied"


class Due(NamedTuple):
    """Blocks to ask about, who gave them, and whether that was done before."""

    blocks: BlockRange
    giver: str
    again: bool


@dataclass(slots=True)
class Auditor:
    """What the audit remembers between its turns; its progress is the coverage's own.

    `window` and `again` as above. `ahead` is the block from which it looks: what could not be
    settled is left for the next process. `patience` is how many seconds a turn waits for an
    answer, which is then looked for in later turns; None: until it is there.
    """

    window: int = WINDOW
    again: int = AGAIN
    ahead: int = 0
    patience: float | None = None
    # What an endpoint was asked, and has not answered yet.
    _asked: tuple[Due, Future[Window]] | None = None
    _turns: int = 0
    _sampled: int = -1
    _at_fault: dict[str, int] = field(default_factory=dict)

    def has_turn(self, *, is_caught_up: bool) -> bool:
        """Tell whether to audit now: at the head always, on the way there seldom."""
        self._turns += 1
        return is_caught_up or self._turns % BEHIND == 0

    @property
    def is_waiting(self) -> bool:
        """Whether an endpoint was asked, and it was not yet looked what it said."""
        return self._asked is not None

    def ask(self, due: Due, question: Callable[[], Window]) -> None:
        """Let an endpoint be asked, and wait a little for what it says."""
        future = aside(question, f"audit {due.blocks.first}")
        self._asked = due, future
        wait([future], self.patience)

    def answered(self) -> tuple[Due, Window] | None:
        """Return what was asked and the answer, once; None: there is none yet.

        Raises:
            TransientError: the endpoint gave none.
        """
        if self._asked is None or not self._asked[1].done():
            return None
        (due, future), self._asked = self._asked, None
        return due, future.result()

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
    chain: Chain, store: Store, folder: Folder, auditor: Auditor, manner: Manner
) -> Audited | None:
    """Ask about the next window that is due; None: none is, or there is no second endpoint.

    Raises:
        TransientError: the other endpoint gives no whole answer now, or is on another chain.
    """
    possible = len(chain.endpoint_names()) > 1
    metrics.AUDIT_POSSIBLE.set(possible)
    if not possible:
        return None
    if not auditor.is_waiting:
        with store.reading() as unit:
            due = _due(unit, folder, auditor)
        if due is None:
            return None
        auditor.ask(due, _question(chain, due))
    answered = auditor.answered()
    if answered is None:
        return None
    return _compared(_Task(chain, store, folder, auditor, manner), *answered)


@dataclass(frozen=True, slots=True)
class _Task:
    chain: Chain
    store: Store
    folder: Folder
    auditor: Auditor
    manner: Manner


def _question(chain: Chain, due: Due) -> Callable[[], Window]:
    return lambda: chain.verified(due.blocks, Level.CHECKED, than=due.giver or None)


def _compared(task: _Task, due: Due, window: Window) -> Audited:
    """Compare what an endpoint said with what we hold, and write down what came of it."""
    chain, store, folder = task.chain, task.store, task.folder
    with store.reading() as unit:
        check_or_blame(chain, unit, _cursor(unit), window)
        difference = compare(unit, window)
    found = Audited(window.range, due.giver, window.endpoint, difference, again=due.again)
    if difference:
        found = _judged(task, found)
        _blame(chain, task.auditor, found)
    metrics.AUDITS.labels(found.result).inc()
    if found.result == "unproven" or found.left:
        task.auditor.ahead = max(task.auditor.ahead, found.blocks.last + 1)
        return found
    with task.manner.transaction(store) as unit:
        at = _cursor(unit).number
        unit.coverage.note_audit(folder.scope.id, found.blocks, window.endpoint, at)
    return found


def _due(unit: Unit, folder: Folder, auditor: Auditor) -> Due | None:
    """Return what to ask about now; None: nothing."""
    cursor, identity = unit.cursor.get(), unit.identity.get()
    if cursor is None or identity is None or cursor.final_number is None:
        return None
    final = min(cursor.final_number, cursor.number)
    if auditor.ahead <= final:
        rest = BlockRange(auditor.ahead, final)
        span = unit.coverage.unaudited(folder.scope.id, rest, auditor.window)
        # Everything below it was asked about: nobody looks through that again.
        auditor.ahead = final + 1 if span is None else span.first
        # What grows is waited for: one question for each whole window.
        if span is not None and (len(span.blocks) == auditor.window or span.last < final):
            return Due(span.blocks, span.endpoint, again=False)
    sampled = auditor.sample(replace(cursor, final_number=final), identity.start_block)
    if sampled is None:
        return None
    spans = unit.coverage.spans(folder.scope.id, sampled.first, sampled.last)
    return Due(spans[0].blocks, spans[0].endpoint, again=True) if spans else None


def _judged(task: _Task, found: Audited) -> Audited:
    """Find out who is right about each block that differs, and put our rows right."""
    chain, folder, manner = task.chain, task.folder, task.manner
    found = _shortened(chain, found)
    proofs = _proofs(chain, found)
    repair, refolded = Difference(), None
    with folder.following(None), manner.transaction(task.store) as unit:
        cursor = _cursor(unit)
        # What our side has proven stands, unless a newer proof says otherwise.
        proven = proven_in(unit, folder.scope, found.blocks)
        for number, window in proofs.items():
            check_or_blame(chain, unit, cursor, window)
            repair.add(compare(unit, window))
            unit.verified_blocks.save([(number, window.last.hash)], Level.PROVEN, window.endpoint)
        repair.add(settled(found.difference, (), proven | proofs.keys()))
        if repair:
            refolded = put_right(unit, folder, cursor, repair, manner)
    folder.forget()
    kept = {row.block for row in [*found.difference.extra, *found.difference.other]}
    left = tuple(sorted(kept - proven - proofs.keys()))
    found = replace(found, left=left)
    if refolded is not None:
        return replace(found, difference=repair, at_fault=found.giver, repaired=refolded)
    is_proven = proven | proofs.keys() >= set(found.difference.blocks)
    return replace(found, at_fault=found.auditor if is_proven else None)


def _shortened(chain: Chain, found: Audited) -> Audited:
    """Leave for the next turn what lies above the last block whose receipts are asked for now."""
    asked = found.difference.blocks[:_MOST_PROOFS]
    if chain.level_allowed() < Level.PROVEN or asked == found.difference.blocks:
        return found
    blocks = BlockRange(found.blocks.first, asked[-1])
    return replace(found, blocks=blocks, difference=found.difference.up_to(blocks.last))


def _proofs(chain: Chain, found: Audited) -> dict[int, Window]:
    """Return the differing blocks as their receipts prove them, by whoever can."""
    if chain.level_allowed() < Level.PROVEN:
        return {}
    proofs = {number: _proof(chain, number, found) for number in found.difference.blocks}
    return {number: window for number, window in proofs.items() if window is not None}


def _proof(chain: Chain, number: int, found: Audited) -> Window | None:
    names = chain.endpoint_names()
    # The giver may be out of the settings by now; whoever is not at odds may know as well.
    sides = [name for name in (found.auditor, found.giver) if name in names]
    for endpoint in [*sides, *(name for name in names if name not in sides)]:
        try:
            window = chain.verified(BlockRange(number, number), Level.PROVEN, endpoint)
        except TransientError:
            continue
        if window.level >= Level.PROVEN or number in window.proven:
            return window
    return None


def _blame(chain: Chain, auditor: Auditor, found: Audited) -> None:
    """Let whoever was wrong rest, and count what was."""
    if not found.at_fault:
        return
    told = found.difference
    left_out = told.missing if found.at_fault == found.giver else told.extra
    MISSING_LOGS.labels(found.at_fault).inc(len(left_out))
    rows = len(told.missing) + len(told.extra) + len(told.other)
    count = auditor.found_at_fault(found.at_fault, rows)
    blocks = f"blocks {found.blocks.first} to {found.blocks.last}"
    chain.blame(found.at_fault, f"was wrong about {rows} rows of {blocks}, {count} in all")


def _cursor(unit: Unit) -> Cursor:
    cursor = unit.cursor.get()
    if cursor is None:
        raise TransientError("nothing is indexed any more")
    return cursor
