"""Takes the next window of blocks in: raw rows, state, reports and cursor, in one transaction.

One loop for history and head. What is asked of the chain is asked before the transaction opens;
what commits is one window, of about one second of work.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from oracle.chain.heads import Heads
from oracle.chain.reader import Decoded
from oracle.chain.source import Window
from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.report import Report
from oracle.domain.rounds import Rounds
from oracle.errors import FatalError, TransientError
from oracle.services.assigning import with_draws
from oracle.services.folding import AtStop, Folder, Stretch
from oracle.services.ports import Chain
from oracle.services.rewinding import Rewound, rewind_if_forked
from oracle.store.cursor import Cursor
from oracle.store.store import Store, Unit

# Work between two looks at everything else (decision 4).
TARGET_SECONDS = 1.0
# Heads known for longer are asked for anew even where history is far from them: publishing and
# confirming go by them.
_HEADS_SECONDS = 2.0
# More blocks than a chain makes in a day; where the pace allows more, there is no limit.
_NO_LIMIT = 1 << 20
_BEFORE_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Indexed:
    """One window that was committed.

    `events` counts by type of event, as events.md spells it; `anomalies` are those of them that
    broke a rule. `newest` is the chain's newest known block, `cursor` the
    last one folded. The seconds are those of asking the chain, folding and committing.
    """

    blocks: BlockRange
    cursor: BlockRef
    newest: int
    final: int
    logs: int
    events: Mapping[str, int]
    anomalies: int
    reports: tuple[Report, ...]
    fetch_seconds: float
    fold_seconds: float
    commit_seconds: float


@dataclass(slots=True)
class Pace:
    """What the loop remembers between windows: the known heads, and how much fits a second.

    `clock` counts seconds, from anywhere.
    """

    clock: Callable[[], float] = time.monotonic
    heads: Heads | None = None
    most_blocks: int = field(default=_NO_LIMIT)
    _asked_at: float = 0.0

    def heads_for(self, chain: Chain, first: int, near: int) -> Heads:
        """Return the heads: asked anew, but where block `first` is far below the known ones.

        Blocks more than `near` under the newest one, and final, are history whatever happened.
        """
        known = self.heads
        is_old = self.clock() - self._asked_at > _HEADS_SECONDS
        if known is None or is_old or first > _history(known, near):
            known = self.heads = chain.heads()
            self._asked_at = self.clock()
        return known

    def took(self, blocks: int, seconds: float) -> None:
        """Adapt: a window that took too long is followed by a smaller one, else they grow."""
        if seconds > TARGET_SECONDS:
            self.most_blocks = max(1, int(blocks * TARGET_SECONDS / seconds))
        else:
            self.most_blocks = min(_NO_LIMIT, self.most_blocks * 2)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A window that continues our blocks, and what it says; nothing of it is stored yet."""

    window: Window
    said: Decoded
    heads: Heads
    cursor: Cursor | None

    @property
    def newer_final(self) -> BlockRef | None:
        """The final block, where it is above the one that we know; it never goes down."""
        return _newer_final(self.heads, self.cursor)

    @property
    def final_number(self) -> int:
        """Every block above this one is journaled."""
        known = None if self.cursor is None else self.cursor.final_number
        return max(self.heads.final.number, -1 if known is None else known)


def index_next(chain: Chain, store: Store, folder: Folder, pace: Pace) -> Indexed | Rewound | None:
    """Take in the next window, or go back where the chain has left our blocks.

    Returns None at the head, or where the endpoint has not come as far as we have.

    Raises:
        TransientError: the chain gave no answer or one that contradicts itself.
        FatalError: a final block changed, or another process wrote into the database.
    """
    with store.reading() as unit:
        cursor, first = unit.cursor.get(), _first_block(unit)
    started = pace.clock()
    near = 0 if folder.reporter is None else folder.reporter.anchor_window
    quiet = None if folder.assigner is None else folder.assigner.settings.start_block - 1
    heads = pace.heads_for(chain, first, near)
    if heads.latest.number < first:
        return _at_the_head(chain, store, folder, heads)
    history = _history(heads, near) if quiet is None else min(quiet, _history(heads, near))
    blocks, with_headers = _asked(heads, first, history, pace.most_blocks)
    window = chain.window(blocks, with_headers=with_headers)
    if cursor is not None and window.first_parent != cursor.hash:
        return _forked(chain, store, folder, window)
    arrival = _Arrival(window, folder.reader.read(window.logs, window.calls), heads, cursor)
    fetched = pace.clock()
    written = _commit(store, folder, arrival, pace.clock)
    committed = pace.clock()
    pace.took(len(window.range), committed - fetched)
    return Indexed(
        blocks=window.range,
        cursor=window.last,
        newest=heads.latest.number,
        final=arrival.final_number,
        logs=len(window.logs),
        events=_counted(arrival.said),
        anomalies=written.anomalies,
        reports=tuple(written.reports),
        fetch_seconds=fetched - started,
        fold_seconds=written.folded_at - fetched,
        commit_seconds=committed - written.folded_at,
    )


def _first_block(unit: Unit) -> int:
    """Return the block to index next."""
    cursor = unit.cursor.get()
    if cursor is not None:
        return cursor.number + 1
    identity = unit.identity.get()
    if identity is None:
        raise FatalError("the database does not know its chain yet: its identity is not set")
    return identity.start_block


def _newer_final(heads: Heads, cursor: Cursor | None) -> BlockRef | None:
    known = None if cursor is None else cursor.final_number
    return heads.final if known is None or heads.final.number > known else None


def _at_the_head(chain: Chain, store: Store, folder: Folder, heads: Heads) -> Rewound | None:
    """Do what there is to do without a new block: a fork of equal height, a newer final block."""
    with store.reading() as unit:
        cursor = unit.cursor.get()
    if cursor is None or heads.latest.number < cursor.number:
        return None
    if heads.latest.hash != cursor.hash:
        return rewind_if_forked(chain, store, folder)
    final = _newer_final(heads, cursor)
    if final is not None:
        with folder.following(cursor):
            with store.transaction() as unit:
                unit.undo.prune_to(min(final.number, cursor.number))
                unit.cursor.move_to(heads.latest, final, cursor.epoch)
                moved = unit.cursor.get()
            folder.came_to(moved)
    return None


def _history(heads: Heads, near: int) -> int:
    """Return the block up to which neither a fork nor the end of a period matters."""
    return min(heads.final.number, heads.latest.number - near)


def _asked(heads: Heads, first: int, history: int, most: int) -> tuple[BlockRange, bool]:
    """Return the blocks to ask for, and whether all their headers are wanted.

    They are above the final block, where forks happen, within the anchor window of the newest
    one, where periods end (decision 8), and wherever nodes are drawn.
    """
    last = history if first <= history else heads.latest.number
    return BlockRange(first, min(last, first + most - 1)), first > history


def _forked(chain: Chain, store: Store, folder: Folder, window: Window) -> Rewound:
    rewound = rewind_if_forked(chain, store, folder)
    if rewound is None:
        raise TransientError(
            f"block {window.range.first} came with the parent {window.first_parent}, which is "
            "not our block; asked again, the chain still has ours"
        )
    return rewound


def _counted(said: Decoded) -> Mapping[str, int]:
    kinds = Counter(map(type, [*said.events, *said.contract_events]))
    return {_BEFORE_CAPITAL.sub("_", kind.__name__).lower(): kinds[kind] for kind in kinds}


@dataclass(slots=True)
class _Written:
    """What came of a window; `folded_at` by the pace's clock."""

    reports: list[Report] = field(default_factory=list)
    anomalies: int = 0
    folded_at: float = 0.0


def _commit(
    store: Store, folder: Folder, arrival: _Arrival, clock: Callable[[], float]
) -> _Written:
    """Write the window down in one transaction."""
    written = _Written()
    with folder.following(arrival.cursor):
        with store.transaction() as unit:
            if unit.cursor.get() != arrival.cursor:
                raise FatalError("another process moved the cursor: only one may write")
            unit.logs.append(arrival.window.logs)
            unit.calls.append(arrival.window.calls)
            unit.blocks.save(arrival.window.headers or [arrival.window.last])
            _check_final(unit, arrival.newer_final)
            _fold(unit, folder, arrival, written)
            written.folded_at = clock()
            moved = _move(unit, folder, arrival)
        folder.came_to(moved)
    return written


def _check_final(unit: Unit, final: BlockRef | None) -> None:
    """Let no block of a fork that we do not follow become final: it could not be undone.

    Raises:
        TransientError: the heads come from an endpoint on another fork than the window.
    """
    ours = None if final is None else unit.blocks.at(final.number)
    if final is not None and ours is not None and ours.hash != final.hash:
        raise TransientError(
            f"block {final.number} is final as {final.hash} to one endpoint, "
            f"and {ours.hash} to the one that continues our blocks"
        )


def _fold(unit: Unit, folder: Folder, arrival: _Arrival, written: _Written) -> None:
    """Fold the window; where a period ends at the head, cut its report (decision 8)."""
    reporter = folder.reporter
    stops: list[BlockRef] = []
    if reporter is not None and arrival.window.headers:
        newest = arrival.heads.latest.number
        before = unit.blocks.at(arrival.window.range.first - 1)
        blocks = [*([] if before is None else [before]), *arrival.window.headers]
        stops = [old for old, new in pairwise(blocks) if reporter.is_due(old, new, newest)]

    def cut(unit: Unit, rounds: Rounds, as_of: BlockRef) -> None:
        report = None if reporter is None else reporter.cut(unit, rounds, as_of)
        if report is not None:
            written.reports.append(report)

    at_stop: AtStop = cut
    if folder.assigner is not None and arrival.window.headers:
        before = unit.blocks.at(arrival.window.range.first - 1)
        every = folder.assigner.stops(before, arrival.window.headers)
        stops, at_stop = with_draws(folder.assigner, every, stops, cut)
    stretch = Stretch(arrival.window.range.last, arrival.said, arrival.final_number, stops)
    written.anomalies = folder.fold(unit, stretch, at_stop)


def _move(unit: Unit, folder: Folder, arrival: _Arrival) -> Cursor | None:
    """Forget what nothing can ask for any more, and move the cursor last."""
    last, final = arrival.window.last, arrival.final_number
    near = 0 if folder.reporter is None else folder.reporter.anchor_window
    unit.undo.prune_to(min(final, last.number))
    unit.blocks.prune_below(min(final, last.number, arrival.heads.latest.number - near))
    epoch = 0 if arrival.cursor is None else arrival.cursor.epoch
    unit.cursor.move_to(last, arrival.newer_final, epoch)
    return unit.cursor.get()
