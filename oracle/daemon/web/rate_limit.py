"""How much a listener gives away: so many answers a second, so many at the same time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from ipaddress import ip_address, ip_network

# Addresses whose askings are remembered.
_MOST_ADDRESSES = 1024
_IPV4 = 4


class TokenBucket:
    """Lets through `per_second` on average and `most` at once; any thread may ask."""

    def __init__(self, per_second: float, most: int, clock: Callable[[], float]) -> None:
        """`clock` tells seconds and never goes back."""
        self._per_second = per_second
        self._most = most
        self._clock = clock
        self._left = float(most)
        self._at = clock()
        self._lock = threading.Lock()

    def try_acquire(self) -> bool:
        """Take a token; False: there is none left now."""
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


class ClientBuckets:
    """One bucket for each address: who asks too often keeps nobody else from being answered."""

    def __init__(self, per_second: float, most: int, clock: Callable[[], float]) -> None:
        """See `TokenBucket`."""
        self._new = partial(TokenBucket, per_second, most, clock)
        self._of: dict[str, TokenBucket] = {}
        self._lock = threading.Lock()

    def try_acquire(self, address: str) -> bool:
        """Take a token of an address's bucket; False: there is none left now."""
        with self._lock:
            # The one that asked last stands last; the one that asked longest ago is forgotten.
            bucket = self._of.pop(network_of(address), None) or self._new()
            self._of[network_of(address)] = bucket
            if len(self._of) > _MOST_ADDRESSES:
                del self._of[next(iter(self._of))]
        return bucket.try_acquire()


@lru_cache(_MOST_ADDRESSES)
def network_of(address: str) -> str:
    """Return who is behind an address: whoever has one of IPv6 has all that share its 64 bits."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return address if parsed.version == _IPV4 else str(ip_network(f"{parsed}/64", strict=False))


class ConcurrencyLimit:
    """As many as may wait for the database at once: others find a thread that answers them."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Sit down for the time of the `with`; False: every seat is taken."""
        if not self._free.acquire(blocking=False):
            yield False
            return
        try:
            yield True
        finally:
            self._free.release()
