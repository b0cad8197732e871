"""Caches facts about endpoints that any thread learned, until the worker stores them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from oracle.store.database import Store


@dataclass(slots=True)
class CapabilityCache:
    """A `CapabilityStore` backed by the database; any thread may add values.

    `store` is None if there is no database; then no value is stored. `clock` returns unix seconds.
    """

    store: Store | None
    clock: Callable[[], float]
    # The values that are not stored yet, each with its expiry, by endpoint and name.
    _unstored: dict[tuple[str, str], tuple[str, int | None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def load_facts(self, endpoint: str) -> dict[str, str]:
        """Return the values of this endpoint that have not expired, from database and memory."""
        store = self.store
        value_by_name = dict[str, str]()
        if store is not None:
            with store.read_transaction() as uow:
                value_by_name = uow.facts.get_all(endpoint, int(self.clock()))
        with self._lock:
            return value_by_name | {
                name: value
                for (learned_endpoint, name), (value, _) in self._unstored.items()
                if learned_endpoint == endpoint
            }

    def save_fact(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        """Keep a value in memory until `store_endpoint_facts` writes it.

        The value expires after `seconds`, or never if `seconds` is None.
        """
        expires = None if seconds is None else int(self.clock() + seconds)
        with self._lock:
            self._unstored[endpoint, key] = value, expires

    def store_endpoint_facts(self, epoch: int) -> int:
        """Write the new values to the database, and return their number.

        `epoch` is the epoch of the lease that this process holds.

        Raises:
            FatalError: another process has taken over the lease.
        """
        store = self.store
        with self._lock:
            unstored, self._unstored = self._unstored, {}
        if store is None or not unstored:
            return 0
        try:
            with store.transaction() as uow:
                uow.lease.lock_held_lease(epoch)
                uow.facts.delete_expired(int(self.clock()))
                for (endpoint, name), (value, expires) in unstored.items():
                    uow.facts.set(endpoint, {name: value}, expires)
        except BaseException:
            with self._lock:
                self._unstored = unstored | self._unstored
            raise
        return len(unstored)

    def store_chain_facts(self, epoch: int) -> int:
        """Write all new values if any of them is about the chain, and return the number written.

        Such values are rare. They are written early because the next process needs them, for
        example to know that blocks are verified at a lower level from now on.
        """
        with self._lock:
            has_chain_facts = any(endpoint == CHAIN_FACTS_KEY for endpoint, _ in self._unstored)
        return self.store_endpoint_facts(epoch) if has_chain_facts else 0
