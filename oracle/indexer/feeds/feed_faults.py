"""What can be wrong with a feed, by name, and what follows from it.

See docs/explanation/feed.md#faults.
"""

from collections.abc import Iterable

from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.store.database import UnitOfWork

# A row that came into the settled part, differs from what was said before, or is gone.
LATE, CHANGED, VANISHED = "late_row", "changed_row", "vanished_row"
# The stream is not where we left it: nothing is read until `feed accept --from`.
WENT_BACK, GAP = "went_back", "gap_by_retention"
# A row of a kind that we know, which cannot be read: it is kept, and says nothing.
BAD = "bad_row"
# The second feed tells another row of an id, or one of the two lacks it.
DISAGREE = "disagree"

STOPPING = frozenset({WENT_BACK, GAP})
# A row that says nothing harms nobody else: it is listed, and no more.
HOLDING = frozenset({LATE, CHANGED, VANISHED, DISAGREE}) | STOPPING

# From 2026-08-06 to 2026-08-11 the relay's answers called every later reason a timeout.
_REPAIRED = ('"abort_reason":1', *(f'"abort_reason":{number}' for number in range(5, 11)))


def holding(uow: UnitOfWork) -> FeedFault | None:
    """Return the first fault for which nothing is published; None: there is none."""
    return next((one for one in uow.feed.faults(is_open=True) if one.kind in HOLDING), None)


def stopping(uow: UnitOfWork) -> FeedFault | None:
    """Return the fault for which nothing more is read; None: there is none."""
    return next((one for one in uow.feed.faults(is_open=True) if one.kind in STOPPING), None)


def noted(uow: UnitOfWork, faults: Iterable[FeedFault]) -> tuple[FeedFault, ...]:
    """Write faults down; return those that were not known."""
    known = {(one.kind, one.stream, one.row) for one in uow.feed.faults(is_open=False)}
    new = [one for one in faults if (one.kind, one.stream, one.row) not in known]
    uow.feed.note(new)
    return tuple(new)


def fault_text(fault: FeedFault) -> str:
    """Say in a line what is wrong, and what a person can do."""
    todo = "`qos-oracle feed accept --from ID`" if fault.kind in STOPPING else "`feed accept`"
    return f"{fault.kind} at row {fault.row}: {fault.detail}; {todo}"


def is_repair(before: FeedRow, now: FeedRow) -> bool:
    """Tell whether the relay only told an abort's real reason where it had said: a timeout.

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
    """Compare rows of the same ids: told in two ways, told by us alone, told by them alone."""
    known = {row.id: row for row in ours}
    told = {row.id: row for row in theirs}
    both = sorted(known.keys() & told.keys())
    changed = [(known[each], told[each]) for each in both if known[each].hash != told[each].hash]
    missing = [known[each] for each in sorted(known.keys() - told.keys())]
    new = [told[each] for each in sorted(told.keys() - known.keys())]
    return changed, missing, new
