"""The wall clock of the daemon: for timestamps that people and other processes read."""

import time


def unix_seconds() -> float:
    """Return the seconds since 1970-01-01 UTC; the operator may step this clock back or forth."""
    return time.clock_gettime(time.CLOCK_REALTIME)
