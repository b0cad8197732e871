"""The daemon's turn of telling: what is new becomes notices, and each target gets its next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oracle.domain.scoring.rules import Rules
from oracle.notify.delivery import Delivery
from oracle.notify.notice_collector import NoticeCollector
from oracle.notify.target import Target
from oracle.store.database import Store
from oracle.store.notices.notice_repository import TargetPlace
from oracle.telemetry.features import notify_metrics

# Messages to one target in a turn, where it answers at once.
_MOST_AT_ONCE = 20


@dataclass(slots=True)
class Notifier:
    """Tells targets under the lease; a target that is slow or gone keeps nobody else."""

    targets: Sequence[Target]
    store: Store
    rules: Rules
    clock: Callable[[], float]
    _collector: NoticeCollector = field(init=False)
    _deliveries: list[Delivery] = field(init=False)

    def __post_init__(self) -> None:
        self._collector = NoticeCollector(self.rules)
        self._deliveries = [Delivery(one, self.store, self.clock) for one in self.targets]
        for one in self.targets:
            notify_metrics.first_zeros(one.name)

    def run_once(self, head: int | None, wait_seconds: float | None) -> bool:
        """Collect and send; tell whether there may be more to do at once.

        `head`: the newest block that is known, None: none is. `wait_seconds`: how long to wait
        for each answer; None: until it is there.
        """
        has_more = self._collect(head)
        for delivery in self._deliveries:
            times = 0
            while times < _MOST_AT_ONCE and delivery.deliver_due(wait_seconds):
                times += 1
            has_more |= times == _MOST_AT_ONCE
        return has_more

    def _collect(self, head: int | None) -> bool:
        with self.store.reading() as uow:
            is_due = self._collector.is_due(uow)
            newest = uow.notices.newest()
            places = {one.target: one for one in uow.notices.places()}
        told = {one.name: places.get(one.name) for one in self.targets}
        for name, place in told.items():
            if place is not None:
                notify_metrics.WAITING.labels(name).set(newest - place.seq)
                notify_metrics.FAILED.labels(name).set(place.tries)
        new = [name for name, place in told.items() if place is None]
        if not is_due and not new:
            return False
        try:
            with self.store.transaction() as uow:
                cursor = uow.cursor.get()
                # One that is new hears of what comes from now on.
                for name in new:
                    uow.notices.set_place(TargetPlace(name, newest))
                is_at_head = cursor is not None and head is not None and cursor.number >= head
                return self._collector.collect(uow, is_at_head=is_at_head)
        except BaseException:
            # It knows of what was not written.
            self._collector = NoticeCollector(self.rules)
            raise
