"""Limits the request rate per client, and how many requests run concurrently."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from ipaddress import ip_address, ip_network

from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import is_power_of_two
from oracle.telemetry.service_metrics import RefusalReason, get_refusal_counters

# The maximum number of client networks whose requests are counted.
_MAX_NETWORKS = 1024
_IPV4 = 4


class TokenBucket:
    """Admits `per_second` requests on average and bursts of up to `burst`; thread-safe."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        """Create a full bucket; `clock` returns seconds and never goes backwards."""
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._refilled_at = clock()
        self._lock = threading.Lock()

    def try_acquire(self) -> bool:
        """Take a token, or return False if none is left."""
        with self._lock:
            now = self._clock()
            self._tokens = min(
                self._burst, self._tokens + (now - self._refilled_at) * self._per_second
            )
            self._refilled_at = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class ClientBuckets:
    """One token bucket per client network, so that a busy client does not block others."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        """Set the limits of each bucket; see `TokenBucket`."""
        self._create_bucket = partial(TokenBucket, per_second, burst, clock)
        self._bucket_by_network: dict[str, TokenBucket] = {}
        self._lock = threading.Lock()

    def try_acquire(self, address: str) -> bool:
        """Take a token from the bucket of an address, or return False if none is left."""
        with self._lock:
            # Buckets are kept in order of use, and the least recently used one is dropped.
            bucket = (
                self._bucket_by_network.pop(get_client_network(address), None)
                or self._create_bucket()
            )
            self._bucket_by_network[get_client_network(address)] = bucket
            if len(self._bucket_by_network) > _MAX_NETWORKS:
                del self._bucket_by_network[next(iter(self._bucket_by_network))]
        return bucket.try_acquire()


@lru_cache(_MAX_NETWORKS)
def get_client_network(address: str) -> str:
    """Return the network that counts as one client: an IPv4 address or an IPv6 /64 network."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    return address if ip.version == _IPV4 else str(ip_network(f"{ip}/64", strict=False))


class ConcurrencyLimit:
    """Limits the number of concurrent requests, so that threads stay free for other work."""

    def __init__(self, max_concurrent: int) -> None:
        self._semaphore = threading.BoundedSemaphore(max_concurrent)

    @contextmanager
    def try_enter(self) -> Iterator[bool]:
        """Occupy a slot during the `with` block, or yield False if none is free."""
        if not self._semaphore.acquire(blocking=False):
            yield False
            return
        try:
            yield True
        finally:
            self._semaphore.release()


class Refusals:
    """Counts a listener's refusals, and logs the 1st, 2nd, 4th, 8th … for each reason."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._count_by_reason: Counter[RefusalReason] = Counter()
        self._counters = get_refusal_counters(listener)

    def record_refusal(self, reason: RefusalReason, address: str) -> None:
        """Count a refusal of the client at this address."""
        self._counters[reason].inc()
        self._count_by_reason[reason] += 1
        if is_power_of_two(self._count_by_reason[reason]):
            get_logger().warning(
                "connection_refused",
                listener=self._listener,
                reason=reason,
                address=address,
                in_all=self._count_by_reason[reason],
            )
