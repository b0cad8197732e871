"""A daemon that follows a scripted chain and notifies one receiver; it can be restarted."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from oracle.domain.ids import Address
from oracle.notify.notifier import Notifier
from oracle.notify.target import NoticeFilter, Target
from oracle.notify.webhook import Webhook, WebhookEndpoint
from oracle.store.database import Store
from oracle.store.notice_repository import DeliveryProgress
from tests.support.histories import History
from tests.support.receiver import Receiver
from tests.support.scripted import ScriptedChain
from tests.support.txmgr.follower import Follower

SECRET = b"a secret of sixteen"


@dataclass
class NotifiedDaemon:
    store: Store
    receiver: Receiver
    now: float = 5_000.0
    follower: Follower = field(init=False)
    notifier: Notifier = field(init=False)
    _tasks: int = 0

    def __post_init__(self) -> None:
        self.follower = Follower(ScriptedChain(), self.store)
        self.restart()

    @property
    def chain(self) -> ScriptedChain:
        return self.follower.chain

    def begin(self) -> None:
        """Let three nodes join; notifications begin after that."""
        self.chain.mine(*History().joins("A", "B", "C").events)
        self.follower.catch_up()
        self.run_until_idle()

    def restart(self, targets: Sequence[Target] | None = None) -> None:
        """Continue as another process would."""
        self.follower.restart()
        notify_targets = [self.webhook()] if targets is None else targets
        self.notifier = Notifier(
            notify_targets, self.store, self.follower.folder.rules, lambda: self.now
        )

    def webhook(
        self,
        name: str = "ours",
        choice: NoticeFilter | None = None,
        *,
        private: bool = True,
        url: str | None = None,
    ) -> Webhook:
        url = url or self.receiver.url
        address = WebhookEndpoint(url, SECRET, timeout_seconds=60, allow_private=private)
        return Webhook(name, choice or NoticeFilter(), address, lambda: self.now)

    def run_until_idle(self, wait_seconds: float | None = None) -> None:
        """Fold everything, then run the notifier until nothing is left to do."""
        self.follower.catch_up()
        while self.notifier.run_once(self.chain.newest.number, wait_seconds):
            pass

    def times_out(self, name: str, times: int = 1) -> None:
        """Let tasks of a node time out, a block each, without folding them."""
        for _ in range(times):
            self._tasks += 1
            task = f"t{self._tasks}"
            self.chain.mine(*History().creates(task).starts(task, name).times_out(task).events)

    def place(self, target: str = "ours") -> DeliveryProgress:
        with self.store.read_transaction() as uow:
            progress = uow.notices.find_progress(target)
        assert progress is not None
        return progress


def only_about(*nodes: Address) -> NoticeFilter:
    return NoticeFilter(nodes=frozenset(nodes))
