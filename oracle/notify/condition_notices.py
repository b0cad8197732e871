"""Notices of health conditions that began or ended, and of a daemon's downtime.

Conditions are those of `oracle.domain.health`; `[[notify]] kinds` selects them by their keys.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from oracle.domain.health import Condition, HealthReport
from oracle.notify.notice_kinds import NoticeKind
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import NewNotice

# Bookmarks: conditions that were already notified; whether notices have started.
_TOLD, _BEGUN = "notify_conditions", "notify_block"
# Seconds that a condition must last, or be absent, before a notice is written.
SETTLED_SECONDS = 10.0
# Other notices, made from the rows themselves, cover these conditions in more detail.
_TOLD_OTHERWISE = frozenset({Condition.HALTED, Condition.HELD})


@dataclass(slots=True)
class ConditionNotices:
    """Stores condition notices; `clock` returns seconds, `wall_clock` unix seconds."""

    store: Store
    clock: Callable[[], float]
    wall: Callable[[], float]
    _changed_at: dict[Condition, float] = field(default_factory=dict)

    def collect(self, health: HealthReport, downtime: str | None) -> None:
        """Store notices of begun and ended conditions, and of `downtime` (duration and reason)."""
        details = {one.condition: one.detail for one in health.findings}
        with self.store.reading() as uow:
            told, has_begun = _told(uow), uow.bookmarks.get(_BEGUN) is not None
        held = {one for one in details if one not in _TOLD_OTHERWISE}
        if not has_begun:
            # The index is still backfilling, so lagging behind the chain is expected.
            held.discard(Condition.BEHIND)
        settled = self._settled(held ^ told)
        if not settled and downtime is None:
            return
        with self.store.transaction() as uow:
            cursor = uow.cursor.get()
            time = int(self.wall()) if cursor is None else cursor.time
            found = [_notice(one, details.get(one), time) for one in settled]
            if downtime is not None:
                body: dict[str, object] = {"down": downtime}
                found.insert(0, NewNotice(NoticeKind.DAEMON_WAS_DOWN, None, time, body))
            uow.notices.append(found)
            keys = sorted(one.key for one in told ^ set(settled))
            uow.bookmarks.set(_TOLD, msgspec.json.encode(keys).decode())

    def _settled(self, changed: set[Condition]) -> list[Condition]:
        """Return the conditions that changed at least SETTLED_SECONDS ago, in enum order."""
        now = self.clock()
        self._changed_at = {one: self._changed_at.get(one, now) for one in changed}
        since = self._changed_at
        return [one for one in Condition if now - since.get(one, now) >= SETTLED_SECONDS]


def _told(uow: UnitOfWork) -> set[Condition]:
    keys = msgspec.json.decode(str(uow.bookmarks.get(_TOLD) or "[]"), type=list[str])
    return {one for one in Condition if one.key in keys}


def _notice(condition: Condition, detail: str | None, time: int) -> NewNotice:
    """Build the notice that a condition began (with its detail) or, without one, ended."""
    kind = NoticeKind.CONDITION_OVER if detail is None else NoticeKind.CONDITION_BEGAN
    body: dict[str, object] = {
        "condition": condition.key,
        "severity": condition.severity.name.lower(),
        "title": condition.title,
        "detail": detail or "",
        "action": condition.action,
    }
    return NewNotice(kind, None, time, body, subject=f"condition:{condition.key}")
