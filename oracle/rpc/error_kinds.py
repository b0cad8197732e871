"""The kinds of failure of an endpoint, by what follows from each.

`provider_dialects` gives the kind of a message. See
docs/reference/rpc-requirements.md#errors-when-reading.
"""

from enum import StrEnum


class ErrorKind(StrEnum):
    """What to do about it: wait, ask for less, ask another endpoint, or put the settings right."""

    # Wait; the question stays as it is.
    THROTTLED = "throttled"
    # Ask for less.
    TOO_LARGE = "too large"
    SLOW = "slow"
    CUT = "cut off"
    # Wait for a block, or ask another endpoint.
    NOT_THERE = "not there yet"
    BEHIND = "behind"
    # Ask another endpoint; never take it for empty.
    PRUNED = "pruned"
    UNSUPPORTED = "not supported"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    INVALID = "invalid answer"
    UNKNOWN = "failed"
    # Nothing was asked: it failed too often, or is not to be used at all.
    BACKOFF = "backoff"
    QUARANTINED = "quarantined"


# A smaller range of logs may be answered.
DIVISIBLE = frozenset({ErrorKind.TOO_LARGE, ErrorKind.SLOW, ErrorKind.CUT, ErrorKind.UNKNOWN})
# They say nothing against the endpoint itself.
BLAMELESS = frozenset(
    {
        ErrorKind.NOT_THERE,
        ErrorKind.TOO_LARGE,
        ErrorKind.UNSUPPORTED,
        ErrorKind.PRUNED,
        ErrorKind.BACKOFF,
        ErrorKind.QUARANTINED,
    }
)
