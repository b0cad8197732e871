"""Writes notices when a health condition begins or ends, and after a downtime of the daemon.

The conditions are defined in `oracle.domain.health`; `[[notify]] kinds` selects them by key.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from oracle.domain.health import Condition, HealthReport
from oracle.notify.notice_kinds import NoticeKind
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import Notice

# Names of bookmarks. The first bookmark holds the conditions whose notices are written. The second
# one is written by the notice collector when the daemon reaches the head for the first time.
_NOTIFIED_BOOKMARK, _STARTED_BOOKMARK = "notify_conditions", "notify_block"
# Seconds that a condition must last, or be absent, before a notice is written.
SETTLED_SECONDS = 10.0
# The notices of halts and held reports cover these conditions in more detail.
_NOTIFIED_BY_OTHER_NOTICES = frozenset({Condition.HALTED, Condition.HELD})


@dataclass(slots=True)
class ConditionNoticeWriter:
    """Stores condition notices; `clock` returns monotonic seconds, `wall_clock` unix seconds."""

    store: Store
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    _changed_at: dict[Condition, float] = field(default_factory=dict)

    def store_condition_notices(self, health: HealthReport, downtime: str | None) -> None:
        """Store notices of the conditions that began or ended, and of a downtime.

        `downtime` describes the duration and the reason of a downtime, or is None.
        """
        detail_by_condition = {finding.condition: finding.detail for finding in health.findings}
        with self.store.read_transaction() as uow:
            notified = _load_notified_conditions(uow)
            has_begun = uow.bookmarks.get(_STARTED_BOOKMARK) is not None
        active = {
            condition
            for condition in detail_by_condition
            if condition not in _NOTIFIED_BY_OTHER_NOTICES
        }
        if not has_begun:
            # The first backfill has not ended yet, so the index is expected to be behind.
            active.discard(Condition.BEHIND)
        settled = self._find_settled_conditions(active ^ notified)
        if not settled and downtime is None:
            return
        with self.store.transaction() as uow:
            cursor = uow.cursor.get()
            time = int(self.wall_clock()) if cursor is None else cursor.time
            notices = [
                _build_notice(condition, detail_by_condition.get(condition), time)
                for condition in settled
            ]
            if downtime is not None:
                body: dict[str, object] = {"down": downtime}
                notices.insert(0, Notice(NoticeKind.DAEMON_WAS_DOWN, None, time, body))
            uow.notices.append(notices)
            keys = sorted(condition.key for condition in notified ^ set(settled))
            uow.bookmarks.set(_NOTIFIED_BOOKMARK, msgspec.json.encode(keys).decode())

    def _find_settled_conditions(self, changed_conditions: set[Condition]) -> list[Condition]:
        """Return the conditions that changed at least SETTLED_SECONDS ago, in enum order."""
        now = self.clock()
        self._changed_at = {
            condition: self._changed_at.get(condition, now) for condition in changed_conditions
        }
        changed_at = self._changed_at
        return [
            condition
            for condition in Condition
            if now - changed_at.get(condition, now) >= SETTLED_SECONDS
        ]


def _load_notified_conditions(uow: UnitOfWork) -> set[Condition]:
    keys = msgspec.json.decode(str(uow.bookmarks.get(_NOTIFIED_BOOKMARK) or "[]"), type=list[str])
    return {condition for condition in Condition if condition.key in keys}


def _build_notice(condition: Condition, detail: str | None, time: int) -> Notice:
    """Return the notice that a condition began, or that it ended if `detail` is None."""
    kind = NoticeKind.CONDITION_OVER if detail is None else NoticeKind.CONDITION_BEGAN
    body: dict[str, object] = {
        "condition": condition.key,
        "severity": condition.severity.name.lower(),
        "title": condition.title,
        "detail": detail or "",
        "action": condition.action,
    }
    return Notice(kind, None, time, body, subject=f"condition:{condition.key}")
