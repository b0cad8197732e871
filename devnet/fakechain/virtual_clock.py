"""A clock that stands still until it is told: seconds pass when a test says so."""

from threading import Lock


class VirtualClock:
    """Call it for the seconds; `wait` is for those who would sleep: it lets them pass at once."""

    def __init__(self, seconds: float = 1_000.0) -> None:
        self._seconds = seconds
        self._lock = Lock()
        # How long somebody waited, each time.
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self._seconds

    def pass_by(self, seconds: float) -> None:
        """Let so many seconds go by; negative ones too, as a clock that is put right does."""
        with self._lock:
            self._seconds += seconds

    def wait(self, seconds: float) -> None:
        """Sleep in this clock's time."""
        with self._lock:
            self.waits.append(seconds)
            self._seconds += seconds
