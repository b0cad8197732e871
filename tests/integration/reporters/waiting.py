"""Waits for conditions: every wait has an end, and says what it waited for."""

import time
from collections.abc import Callable

# A busy machine takes its time; nothing here is waited for so long where all is well.
PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.05


def until(
    is_so: Callable[[], object],
    what: str,
    describe: Callable[[], str] = str,
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Return once it is so; `told` gives what there is to say where it never is."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:.0f} s for {what}\n{describe()}")
        time.sleep(_LOOK_SECONDS)
