"""When an endpoint that asked us to wait may be asked again.

See tests/faults/sending/cases.toml#f26.
"""

from collections.abc import Callable
from secrets import SystemRandom

# Doubled with every refusal in a row, where the endpoint does not say for how long.
_FIRST_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 60.0
# Who asks for longer is asked again after this: a day would outlast every statement.
_LONGEST_SECONDS = 300.0
_MOST_DOUBLINGS = 10


class Backoff:
    """The rest of one endpoint; `clock` tells seconds, `jitter` draws from 0 to 1."""

    def __init__(
        self, clock: Callable[[], float], jitter: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock
        self._jitter = jitter or SystemRandom().random
        self._until: float | None = None
        self._refusals = 0

    def left(self) -> float:
        """Return for how many seconds it is left alone; 0: it may be asked."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    def begin(self, retry_after: float | None) -> None:
        """Leave it alone, for as long as it said (seconds, at most five minutes), or backing off.

        Half of a backoff is drawn by lot: daemons that were refused together do not return so.
        """
        doubled = _FIRST_SECONDS * 2 ** min(self._refusals, _MOST_DOUBLINGS)
        seconds = min(doubled, _LONGEST_BACKOFF_SECONDS) * (1 + self._jitter()) / 2
        if retry_after is not None:
            seconds = min(max(retry_after, seconds), _LONGEST_SECONDS)
        self._refusals += 1
        self._until = self._clock() + seconds

    def end(self) -> None:
        """Note that it answered."""
        self._until = None
        self._refusals = 0
