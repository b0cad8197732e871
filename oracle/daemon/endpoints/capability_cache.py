"""Caches what was learned about endpoints in the database; only the worker writes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.endpoints.capabilities import OF_CHAIN
from oracle.store.database import Store


@dataclass(slots=True)
class CapabilityCache:
    """A `CapabilityStore` over the database; any thread may add values.

    `store` None: there is no database, and nothing is kept. `clock` returns unix seconds.
    """

    store: Store | None
    now: Callable[[], float]
    # By endpoint and name: the value and its expiry.
    _learned: dict[tuple[str, str], tuple[str, int | None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def recall(self, endpoint: str) -> dict[str, str]:
        """Return the unexpired values of this endpoint, from the database and from memory."""
        store, kept = self.store, dict[str, str]()
        if store is not None:
            with store.reading() as uow:
                kept = uow.facts.of(endpoint, int(self.now()))
        with self._lock:
            return kept | {
                name: value for (of, name), (value, _) in self._learned.items() if of == endpoint
            }

    def keep(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        """Keep a value for so long, None: forever; `store_facts` writes it to the database."""
        expires = None if seconds is None else int(self.now() + seconds)
        with self._lock:
            self._learned[endpoint, key] = value, expires

    def flush(self, epoch: int) -> int:
        """Write the new values under a lease's epoch; return their number.

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
        """Write the new values if some are about the chain itself; these are rare and important.

        Blocks may have been read at a lower level than is trusted now, and the next process must
        know the new level.
        """
        with self._lock:
            is_learned = any(endpoint == OF_CHAIN for endpoint, _ in self._learned)
        return self.flush(epoch) if is_learned else 0
