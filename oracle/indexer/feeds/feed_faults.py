"""Faults of a feed, by name, and the reaction to each.

See docs/explanation/feed.md#faults.
"""

from collections.abc import Iterable

from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.store.database import UnitOfWork

# A row that was added to, changed in, or removed from the settled part.
LATE, CHANGED, VANISHED = "late_row", "changed_row", "vanished_row"
# The stream is not where reading stopped: nothing is read until `feed accept --from`.
WENT_BACK, GAP = "went_back", "gap_by_retention"
# A row of a known kind that cannot be decoded: it is stored but has no effect.
BAD = "bad_row"
# The second feed has a different row for an id, or one of the two lacks it.
DISAGREE = "disagree"

STOPPING = frozenset({WENT_BACK, GAP})
# A bad row affects nothing else: it is only listed.
HOLDING = frozenset({LATE, CHANGED, VANISHED, DISAGREE}) | STOPPING

# From 2026-08-06 to 2026-08-11 the relay reported every later abort reason as a timeout.
_REPAIRED = ('"abort_reason":1', *(f'"abort_reason":{number}' for number in range(5, 11)))


def holding(uow: UnitOfWork) -> FeedFault | None:
    """Return the first fault that prevents publishing, or None."""
    return next((one for one in uow.feed.faults(is_open=True) if one.kind in HOLDING), None)


def stopping(uow: UnitOfWork) -> FeedFault | None:
    """Return the fault that prevents further reading, or None."""
    return next((one for one in uow.feed.faults(is_open=True) if one.kind in STOPPING), None)


def noted(uow: UnitOfWork, faults: Iterable[FeedFault]) -> tuple[FeedFault, ...]:
    """Store faults; return those that were not stored before."""
    known = {(one.kind, one.stream, one.row) for one in uow.feed.faults(is_open=False)}
    new = [one for one in faults if (one.kind, one.stream, one.row) not in known]
    uow.feed.note(new)
    return tuple(new)


def fault_text(fault: FeedFault) -> str:
    """Return what is wrong and which command accepts it, in one line."""
    todo = "`qos-oracle feed accept --from ID`" if fault.kind in STOPPING else "`feed accept`"
    return f"{fault.kind} at row {fault.row}: {fault.detail}; {todo}"


def is_repair(before: FeedRow, now: FeedRow) -> bool:
    """Return whether the relay only replaced a wrong timeout by an abort's real reason.

    See docs/explanation/feed.md#rewritten-abort-reasons.
    """
    if before.kind != "TaskEndAborted" or not _is_same_but_args(before, now):
        return False
    told, tells = (_spaceless(row.args) for row in (before, now))
    return any(told.replace(_REPAIRED[0], real) == tells for real in _REPAIRED[1:])


def _is_same_but_args(one: FeedRow, other: FeedRow) -> bool:
    return (one.id, one.kind, one.node, one.task) == (other.id, other.kind, other.node, other.task)


def _spaceless(args: str) -> str:
    return "".join(args.split())


def differences(
    ours: Iterable[FeedRow], theirs: Iterable[FeedRow]
) -> tuple[list[tuple[FeedRow, FeedRow]], list[FeedRow], list[FeedRow]]:
    """Compare rows by id; return the changed pairs, the stored-only and the served-only rows."""
    known = {row.id: row for row in ours}
    told = {row.id: row for row in theirs}
    both = sorted(known.keys() & told.keys())
    changed = [(known[each], told[each]) for each in both if known[each].hash != told[each].hash]
    missing = [known[each] for each in sorted(known.keys() - told.keys())]
    new = [told[each] for each in sorted(told.keys() - known.keys())]
    return changed, missing, new
