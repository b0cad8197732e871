"""Notices of what stands still until a person acts: halts, and reports that are held.

No fork takes them back.
"""

from oracle.notify.notice_kinds import NoticeKind
from oracle.store.database import UnitOfWork
from oracle.store.notices.notice_repository import NewNotice

# Halts are rare; these are looked at.
_NEWEST = 20
# The newest halt that was over when the first target came.
_HISTORY = "notify_halt"


def begin_with_halts(uow: UnitOfWork) -> None:
    """Note which halts are history: of those nobody is told."""
    over = [one.id for one in uow.halts.history(_NEWEST) if one.cleared is not None]
    uow.bookmarks.set(_HISTORY, max(over, default=0))


def halts_and_holds(uow: UnitOfWork, time: int) -> list[NewNotice]:
    """Return what was not told yet; `time` is the chain's now, in seconds."""
    history = uow.bookmarks.number(_HISTORY) or 0
    halts = {f"halt:{one.id}": one for one in reversed(uow.halts.history(_NEWEST))}
    told, told_over = (
        uow.notices.known(kind, halts.keys())
        for kind in (NoticeKind.HALTED, NoticeKind.HALT_CLEARED)
    )
    found = []
    for subject, one in halts.items():
        if one.cleared is not None and one.id <= history and subject not in told:
            continue
        if subject not in told:
            body = {"halt": one.name, "reason": one.reason, "block": one.since_block}
            found.append(NewNotice(NoticeKind.HALTED, None, time, body, subject=subject))
        if one.cleared is not None and subject not in told_over:
            body = {"by": one.cleared.by, "reason": one.cleared.reason, "halt": one.name}
            found.append(NewNotice(NoticeKind.HALT_CLEARED, None, time, body, subject=subject))
    return found + _holds(uow, time)


def _holds(uow: UnitOfWork, time: int) -> list[NewNotice]:
    holds = {f"hold:{one.period}": one for one in uow.holds.waiting()}
    known = uow.notices.known(NoticeKind.REPORT_HELD, holds.keys()) if holds else set()
    return [
        NewNotice(
            NoticeKind.REPORT_HELD,
            None,
            time,
            {"period": one.period, "reason": one.reason},
            subject=subject,
        )
        for subject, one in holds.items()
        if subject not in known
    ]
