"""Several endpoints of one chain: the first that is well does the work, or else the next one.

An endpoint that failed rests for a while, longer each time; after that the order of the
settings holds again, so that the preferred one comes back by itself.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from oracle.chain.answers import Quantity, number
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.errors import InputError

T = TypeVar("T")

_FIRST_REST = 1.0
_LONGEST_REST = 60.0
# Kinds that say nothing against the endpoint itself.
_NO_FAULT = {Kind.NOT_THERE, Kind.TOO_LARGE, Kind.UNSUPPORTED}


@dataclass(slots=True)
class _Health:
    """How an endpoint is: until when it rests (seconds of the clock), and whether it must."""

    rests_until: float = 0.0
    failures: int = 0
    # It asked us to wait: then nothing is sent to it, even when there is no other.
    throttled: EndpointError | None = None
    # Its chain id has been seen since its last failure.
    proven: bool = False


class Endpoints:
    """Endpoints in the order of preference; may be used by several threads at once.

    Raises:
        InputError: there is none.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not endpoints:
            raise InputError("[chain] endpoints: name at least one")
        self.chain_id = chain_id
        self._clock = clock
        self._lock = Lock()
        self._health = {endpoint: _Health() for endpoint in endpoints}

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._health)

    def use(self, work: Callable[[Endpoint], T]) -> T:
        """Let one endpoint do all of `work`, so that its parts come from one view of the chain.

        Raises:
            TransientError: none could, and why the last one could not.
            InputError: one is on another chain.
        """
        failures: list[EndpointError] = []
        for endpoint in self._by_preference():
            health = self._health[endpoint]
            if health.throttled and health.rests_until > self._clock():
                failures.append(health.throttled)
                continue
            try:
                self.prove(endpoint)
                result = work(endpoint)
            except EndpointError as error:
                self._note(health, error)
                failures.append(error)
            else:
                self._note(health, None)
                return result
        raise failures[-1] if len(failures) == 1 else _all_failed(failures)

    def prove(self, endpoint: Endpoint) -> None:
        """Make sure that the endpoint is on our chain; asks once, and again after a failure.

        Raises:
            EndpointError: it does not answer.
            InputError: it is on another chain.
        """
        health = self._health[endpoint]
        if health.proven:
            return
        found = number(endpoint.name, endpoint.call("eth_chainId", [], Quantity))
        if found != self.chain_id:
            raise InputError(
                f"{endpoint.name} is on chain {found}, [chain] id says {self.chain_id}"
            )
        health.proven = True

    def _by_preference(self) -> list[Endpoint]:
        now = self._clock()
        with self._lock:
            well = [e for e, health in self._health.items() if health.rests_until <= now]
            resting = [e for e, health in self._health.items() if health.rests_until > now]
            resting.sort(key=lambda e: self._health[e].rests_until)
        return well + resting

    def _note(self, health: _Health, error: EndpointError | None) -> None:
        with self._lock:
            if error is None:
                health.failures, health.throttled, health.rests_until = 0, None, 0.0
            elif error.kind not in _NO_FAULT:
                rest = min(_FIRST_REST * 2**health.failures, _LONGEST_REST)
                rest = error.retry_after if error.retry_after is not None else rest
                health.failures += 1
                health.rests_until = self._clock() + rest
                health.throttled = error if error.kind is Kind.THROTTLED else None
                health.proven = False


def _all_failed(failures: Sequence[EndpointError]) -> EndpointError:
    last = failures[-1]
    others = "; ".join(str(error) for error in failures[:-1])
    return EndpointError(last.endpoint, last.kind, f"{last.words} (before that: {others})")
