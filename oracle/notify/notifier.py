"""Collects notices, delivers the next one to each target, and sends heartbeats.

A notice is also written when a health condition (`oracle.domain.health`) begins or ends, and after
a downtime of the daemon.

Heartbeats are periodic messages to a dead man's switch, which raises an alarm when they stop. The
daemon's main loop sends them, so they also stop if the loop hangs. A heartbeat has no sequence
number and is never resent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from oracle.domain.health import Condition, HealthReport
from oracle.domain.scoring.rules import Rules
from oracle.notify.notice_collector import NoticeCollector
from oracle.notify.notice_kinds import NoticeKind
from oracle.notify.subscriber_delivery import SubscriberDeliveries
from oracle.notify.target import Message, Target
from oracle.notify.target_delivery import TargetDelivery, describe_delivery_failure
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import DeliveryProgress, Notice
from oracle.telemetry import service_metrics
from oracle.telemetry.logger import get_logger

# Maximum number of messages per run and target. It is reached only if the target responds
# immediately.
_MAX_MESSAGES_PER_RUN = 20
# The first bookmark holds the conditions for which a notice was written. The notice collector
# writes the second one when the daemon first reaches the head.
_NOTIFIED_BOOKMARK, _STARTED_BOOKMARK = "notify_conditions", "notify_block"
# Seconds for which a condition must have lasted, or have been absent, before a notice is written.
SETTLED_SECONDS = 10.0
# Conditions that notices of halts and of held reports already cover in more detail.
_NOTIFIED_BY_OTHER_NOTICES = frozenset({Condition.HALTED, Condition.HELD})


@dataclass(slots=True)
class Notifier:
    """Notifies all targets while the lease is held, without waiting for slow targets.

    `subscribers` is None if owners cannot subscribe.
    """

    targets: Sequence[Target]
    store: Store
    rules: Rules
    clock: Callable[[], float]
    subscribers: SubscriberDeliveries | None = None
    _collector: NoticeCollector = field(init=False)
    _deliveries: list[TargetDelivery] = field(init=False)

    def __post_init__(self) -> None:
        self._collector = NoticeCollector(self.rules)
        self._deliveries = [
            TargetDelivery(target, self.store, self.clock) for target in self.targets
        ]
        for target in self.targets:
            service_metrics.init_target_metrics(target.name)

    def run_once(self, head: int | None, wait_seconds: float | None) -> bool:
        """Collect and deliver notices, and return whether there may be more work now.

        `head` is the newest known block, or None. `wait_seconds` limits the wait for each
        response; None waits until the response arrives.
        """
        has_more = self._collect_notices(head)
        for delivery in self._deliveries:
            sent_count = 0
            while sent_count < _MAX_MESSAGES_PER_RUN and delivery.deliver_due_notice(wait_seconds):
                sent_count += 1
            has_more |= sent_count == _MAX_MESSAGES_PER_RUN
        if self.subscribers is not None:
            has_more |= self.subscribers.run_once(wait_seconds)
        return has_more

    def _collect_notices(self, head: int | None) -> bool:
        with self.store.read_transaction() as uow:
            is_due = self._collector.is_due(uow)
            newest_seq = uow.notices.get_newest_seq()
            progress_by_target = {
                progress.target: progress for progress in uow.notices.list_progress()
            }
        progress_by_configured_target = {
            target.name: progress_by_target.get(target.name) for target in self.targets
        }
        for name, progress in progress_by_configured_target.items():
            if progress is not None:
                service_metrics.NOTIFY_WAITING.labels(name).set(newest_seq - progress.seq)
                service_metrics.NOTIFY_FAILED.labels(name).set(progress.tries)
        new_names = [
            name for name, progress in progress_by_configured_target.items() if progress is None
        ]
        if not is_due and not new_names:
            return False
        try:
            with self.store.transaction() as uow:
                cursor = uow.cursor.get()
                # A new target gets no notices from before its configuration.
                for name in new_names:
                    uow.notices.save_progress(DeliveryProgress(name, newest_seq))
                is_at_head = cursor is not None and head is not None and cursor.number >= head
                return self._collector.collect_notices(uow, is_at_head=is_at_head)
        except BaseException:
            # The collector may still hold values of rows that were rolled back. It is therefore
            # replaced.
            self._collector = NoticeCollector(self.rules)
            raise


@dataclass(slots=True)
class Heartbeat:
    """Sends heartbeats to a target every `interval_seconds`; `clock` is monotonic."""

    target: Target
    interval_seconds: float
    clock: Callable[[], float]
    _call: BackgroundCall[None] = field(default_factory=BackgroundCall)
    _next_at: float = 0.0

    def send_if_due(self, health: HealthReport, time: int) -> None:
        """Send a heartbeat if it is due, without waiting for the response."""
        self._call.wait_seconds = 0.0
        if self._call.is_pending:
            self._log_failed_delivery()
            return
        now = self.clock()
        if now < self._next_at:
            return
        self._next_at = now + self.interval_seconds
        heartbeat_text = f"heartbeat: {health.format_line()}"
        body = {
            "kind": "heartbeat",
            "time": time,
            "text": heartbeat_text,
            "health": health.to_dict(),
        }
        message = Message("heartbeat", "heartbeat", heartbeat_text, body)
        self._call.start(lambda: self.target.send(message), f"heartbeat {self.target.name}")

    def _log_failed_delivery(self) -> None:
        finished_call = self._call.take_finished_call()
        if finished_call is None:
            return
        try:
            finished_call.result()
        except Exception as error:  # noqa: BLE001  whatever a library raises, the daemon goes on
            get_logger().warning(
                "heartbeat_delivery_failed",
                target=self.target.name,
                reason=describe_delivery_failure(error),
            )


@dataclass(slots=True)
class ConditionNoticeWriter:
    """Stores notices about conditions.

    `clock` returns monotonic seconds, `wall_clock` unix seconds.
    """

    store: Store
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    _changed_at: dict[Condition, float] = field(default_factory=dict)

    def store_condition_notices(self, health: HealthReport, downtime: str | None) -> None:
        """Store notices of conditions that began or ended, and of a downtime.

        `downtime` describes the duration and the reason of a downtime, or is None.
        """
        detail_by_condition = {finding.condition: finding.detail for finding in health.findings}
        with self.store.read_transaction() as uow:
            notified_conditions = _load_notified_conditions(uow)
            has_started = uow.bookmarks.get(_STARTED_BOOKMARK) is not None
        active_conditions = {
            condition
            for condition in detail_by_condition
            if condition not in _NOTIFIED_BY_OTHER_NOTICES
        }
        if not has_started:
            # The index is expected to be behind during the first backfill.
            active_conditions.discard(Condition.BEHIND)
        settled_conditions = self._find_settled_conditions(active_conditions ^ notified_conditions)
        if not settled_conditions and downtime is None:
            return
        with self.store.transaction() as uow:
            cursor = uow.cursor.get()
            time = int(self.wall_clock()) if cursor is None else cursor.time
            notices = [
                _build_notice(condition, detail_by_condition.get(condition), time)
                for condition in settled_conditions
            ]
            if downtime is not None:
                body: dict[str, object] = {"down": downtime}
                notices.insert(0, Notice(NoticeKind.DAEMON_WAS_DOWN, None, time, body))
            uow.notices.append(notices)
            keys = sorted(
                condition.key for condition in notified_conditions ^ set(settled_conditions)
            )
            uow.bookmarks.set(_NOTIFIED_BOOKMARK, msgspec.json.encode(keys).decode())

    def _find_settled_conditions(self, changed_conditions: set[Condition]) -> list[Condition]:
        """Return the conditions that changed at least SETTLED_SECONDS ago.

        They are in the order of the enum.
        """
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
    condition_keys = msgspec.json.decode(
        str(uow.bookmarks.get(_NOTIFIED_BOOKMARK) or "[]"), type=list[str]
    )
    return {condition for condition in Condition if condition.key in condition_keys}


def _build_notice(condition: Condition, detail: str | None, time: int) -> Notice:
    """Build the notice that a condition began, or that it ended if `detail` is None."""
    kind = NoticeKind.CONDITION_OVER if detail is None else NoticeKind.CONDITION_BEGAN
    body: dict[str, object] = {
        "condition": condition.key,
        "severity": condition.severity.name.lower(),
        "title": condition.title,
        "detail": detail or "",
        "action": condition.action,
    }
    return Notice(kind, None, time, body, subject=f"condition:{condition.key}")
