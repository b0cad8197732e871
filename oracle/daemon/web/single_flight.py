"""One answer for all who ask the same thing at the same moment: one makes it, the others wait."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from oracle.daemon.web.rate_limit import ConcurrencyLimit

T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    """An answer that is being made; None at its end: it failed."""

    over: threading.Event = field(default_factory=threading.Event)
    made: T | None = None


class SingleFlight(Generic[T]):
    """Any thread may ask.

    At most `seats` different answers are made at once; nobody waits for another's longer than
    `patience_seconds`.
    """

    def __init__(self, seats: int, patience_seconds: float) -> None:
        self._seats = ConcurrencyLimit(seats)
        self._patience = patience_seconds
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight[T]] = {}

    def fly(self, question: str, make: Callable[[], T]) -> T | None:
        """Return what `make` returns, or what it returned to another who asks the same now.

        None: too many others are made at this moment. Raises what `make` raises; whoever waited
        for one that failed tries it alone.
        """
        with self._lock:
            flight = self._flights.get(question)
            is_first = flight is None
            if flight is None:
                flight = self._flights[question] = _Flight()
        if is_first:
            try:
                flight.made = self._seated(make)
            finally:
                with self._lock:
                    del self._flights[question]
                flight.over.set()
            return flight.made
        flight.over.wait(self._patience)
        return flight.made if flight.made is not None else self._seated(make)

    def _seated(self, make: Callable[[], T]) -> T | None:
        with self._seats.one() as is_seated:
            return make() if is_seated else None
