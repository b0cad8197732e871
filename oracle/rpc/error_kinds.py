"""Kinds of endpoint failures, grouped by how the daemon reacts to them.

`provider_dialects` maps a message to its kind. See
docs/reference/rpc-requirements.md#errors-when-reading.
"""

from enum import StrEnum


class ErrorKind(StrEnum):
    """Kind of a failure; it decides the reaction: wait, request less, or change endpoint."""

    # Wait, then send the same request.
    THROTTLED = "throttled"
    # Request less.
    TOO_LARGE = "too large"
    SLOW = "slow"
    CUT = "cut off"
    # Wait for the block, or use another endpoint.
    NOT_THERE = "not there yet"
    BEHIND = "behind"
    # Use another endpoint; never treat the result as empty.
    PRUNED = "pruned"
    UNSUPPORTED = "not supported"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    INVALID = "invalid answer"
    UNKNOWN = "failed"
    # No request was sent: the endpoint failed too often or is quarantined.
    BACKOFF = "backoff"
    QUARANTINED = "quarantined"


# Kinds after which a smaller range of logs may succeed.
DIVISIBLE = frozenset({ErrorKind.TOO_LARGE, ErrorKind.SLOW, ErrorKind.CUT, ErrorKind.UNKNOWN})
# Kinds that do not count against the endpoint.
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
