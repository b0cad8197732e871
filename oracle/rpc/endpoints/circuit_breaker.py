"""A breaker for one method of one endpoint: after too many failures it is left alone.

See docs/explanation/endpoints.md#health.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

# Failures in a row that open it, or a share of the last ones.
_IN_A_ROW = 5
_LAST = 20
_SHARE = 0.3
# Until it is tried again: doubling from one to the other, in seconds.
FIRST_WAIT = 10.0
LONGEST_WAIT = 300.0
# A trial that is not heard of for so long is over.
_TRIAL_SECONDS = 60.0


class State(IntEnum):
    """How far it lets questions through; the number is what the metric shows."""

    CLOSED = 0
    ON_TRIAL = 1
    OPEN = 2


@dataclass(slots=True)
class CircuitBreaker:
    """Counts successes and failures; times are seconds of any clock."""

    _ended: deque[bool] = field(default_factory=lambda: deque(maxlen=_LAST))
    _in_a_row: int = 0
    _wait: float = FIRST_WAIT
    # When it may be tried; None: closed.
    _opens_at: float | None = None
    _trial_until: float = 0.0
    _failed_at: float = 0.0

    def state(self, now: float) -> State:
        """Return how far it lets questions through now."""
        if self._opens_at is None:
            return State.CLOSED
        is_free = now >= self._opens_at and now >= self._trial_until
        return State.ON_TRIAL if is_free else State.OPEN

    def try_acquire(self, now: float) -> bool:
        """Tell whether to ask now; on trial only one question at a time passes."""
        state = self.state(now)
        if state is State.ON_TRIAL:
            self._trial_until = now + _TRIAL_SECONDS
        return state is not State.OPEN

    def succeeded(self) -> None:
        """Note an answer; one that was a trial closes the breaker."""
        self._in_a_row = 0
        if self._opens_at is not None:
            self._ended.clear()
            self._opens_at, self._wait, self._trial_until = None, FIRST_WAIT, 0.0
        self._ended.append(True)

    def failed(self, now: float) -> None:
        """Note a failure; a trial that fails doubles the wait."""
        self._failed_at = now
        self._in_a_row += 1
        self._ended.append(False)
        if self._opens_at is not None:
            self._wait = min(LONGEST_WAIT, 2 * self._wait)
        elif self._in_a_row < _IN_A_ROW and not self._is_error_rate_high():
            return
        self._opens_at, self._trial_until = now + self._wait, 0.0

    def wait_at_most(self, seconds: float) -> None:
        """Let a question pass so long after the last failure: there is news, or nobody else."""
        if self._opens_at is not None:
            self._opens_at = min(self._opens_at, self._failed_at + seconds)

    def failing_share(self) -> float:
        """Return the share of failures among the last questions, 0 to 1."""
        return self._ended.count(False) / len(self._ended) if self._ended else 0.0

    def _is_error_rate_high(self) -> bool:
        return len(self._ended) == _LAST and self.failing_share() > _SHARE
