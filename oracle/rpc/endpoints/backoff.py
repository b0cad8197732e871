"""Backoff of an endpoint that requested a pause or was too slow.

See tests/faults/sending/cases.toml#f26.
"""

from collections.abc import Callable
from secrets import SystemRandom

# Doubled with every refusal in a row, if the endpoint states no time.
_INITIAL_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
# A longer Retry-After is capped at this, because within a day every statement would expire.
_MAX_RETRY_AFTER_SECONDS = 300.0
_MAX_DOUBLINGS = 10


class Backoff:
    """Backoff state of one endpoint; `clock` returns seconds, `jitter` a number from 0 to 1."""

    def __init__(
        self, clock: Callable[[], float], jitter: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock
        self._jitter = jitter or SystemRandom().random
        self._until: float | None = None
        self._refusals = 0

    def seconds_left(self) -> float:
        """Return the seconds until the endpoint may be used; 0 if it may be used now."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    def start(self, retry_after: float | None) -> None:
        """Start a backoff whose length doubles with each refusal in a row, up to a minute.

        A longer `retry_after`, in seconds, takes precedence, up to five minutes. Half of the
        length is random, so that daemons that were refused together do not return together.
        """
        backoff_seconds = _INITIAL_BACKOFF_SECONDS * 2 ** min(self._refusals, _MAX_DOUBLINGS)
        wait_seconds = min(backoff_seconds, _MAX_BACKOFF_SECONDS) * (1 + self._jitter()) / 2
        if retry_after is not None:
            wait_seconds = min(max(retry_after, wait_seconds), _MAX_RETRY_AFTER_SECONDS)
        self._refusals += 1
        self._until = self._clock() + wait_seconds

    def reset(self) -> None:
        """End the backoff, because the endpoint responded."""
        self._until = None
        self._refusals = 0
