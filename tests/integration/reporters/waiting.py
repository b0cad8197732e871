"""Waits for conditions; a wait that times out reports what it waited for."""

import time
from collections.abc import Callable

# For a busy machine; waits that succeed are much shorter.
PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.05


def wait_until(
    is_so: Callable[[], object],
    what: str,
    describe: Callable[[], str] = str,
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Return once the condition is true; `describe` adds details to the error of a timeout."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:.0f} s for {what}\n{describe()}")
        time.sleep(_POLL_SECONDS)
