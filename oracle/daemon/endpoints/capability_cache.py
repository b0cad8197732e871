"""Keeps what was learned of endpoints in the database: read once, written by the worker alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.endpoints.capabilities import OF_CHAIN
from oracle.store.database import Store


@dataclass(slots=True)
class CapabilityCache:
    """A `CapabilityStore` over the database; any thread may learn something.

    `store` None: there is no database, and nothing is kept. `now` returns unix seconds.
    """

    store: Store | None
    now: Callable[[], float]
    # By endpoint and name: the value, and when it is too old.
    _learned: dict[tuple[str, str], tuple[str, int | None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def recall(self, endpoint: str) -> dict[str, str]:
        """Return what is known of this endpoint and not too old; nothing without a database."""
        store, kept = self.store, dict[str, str]()
        if store is not None:
            with store.reading() as uow:
                kept = uow.facts.of(endpoint, int(self.now()))
        with self._lock:
            return kept | {
                name: value for (of, name), (value, _) in self._learned.items() if of == endpoint
            }

    def keep(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        """Remember a value for so long, None: for ever; it is stored with the next `flush`."""
        expires = None if seconds is None else int(self.now() + seconds)
        with self._lock:
            self._learned[endpoint, key] = value, expires

    def flush(self, epoch: int) -> int:
        """Write down what was learned since, under a lease's epoch; return how much that was.

        Raises:
            FatalError: another process has taken over the lease.
        """
        store = self.store
        with self._lock:
            learned, self._learned = self._learned, {}
        if store is None or not learned:
            return 0
        try:
            with store.transaction() as uow:
                uow.lease.guard(epoch)
                uow.facts.prune(int(self.now()))
                for (endpoint, name), (value, expires) in learned.items():
                    uow.facts.set(endpoint, {name: value}, expires)
        except BaseException:
            with self._lock:
                self._learned = learned | self._learned
            raise
        return len(learned)

    def flush_trust(self, epoch: int) -> int:
        """The same, where something was learned of the chain itself: seldom, and dear to lose.

        What it was read by may be below what is believed now, and the next process must know it.
        """
        with self._lock:
            is_learned = any(endpoint == OF_CHAIN for endpoint, _ in self._learned)
        return self.flush(epoch) if is_learned else 0
