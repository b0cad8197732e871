"""A virtual clock whose time passes only when a test advances it."""

from threading import Lock


class VirtualClock:
    """A clock that returns seconds when called.

    `wait` advances it without sleeping.
    """

    def __init__(self, seconds: float = 1_000.0) -> None:
        self._seconds = seconds
        self._lock = Lock()
        # Duration of each sleep, in seconds.
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`.

        A negative value sets it back, as corrections do.
        """
        with self._lock:
            self._seconds += seconds

    def wait(self, seconds: float) -> None:
        """Advance the clock as if the caller had slept, and record the duration."""
        with self._lock:
            self.waits.append(seconds)
            self._seconds += seconds
