"""The daemon's wall clock, for timestamps that people and other processes read."""

import time


def unix_seconds() -> float:
    """Return the seconds since 1970-01-01 UTC; the clock may jump in either direction."""
    return time.clock_gettime(time.CLOCK_REALTIME)
