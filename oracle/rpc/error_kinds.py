"""The kinds of endpoint failures, grouped by the daemon's reaction.

`provider_dialects` maps a message to its kind. See
docs/reference/rpc-requirements.md#errors-when-reading.
"""

from enum import StrEnum


class ErrorKind(StrEnum):
    """The kind of a failure, which determines how the daemon reacts."""

    # Wait, then send the same request again.
    THROTTLED = "throttled"
    # Request a smaller range.
    TOO_LARGE = "too large"
    SLOW = "slow"
    CUT = "cut off"
    # Wait for the block, or use another endpoint.
    NOT_THERE = "not there yet"
    BEHIND = "behind"
    # Use another endpoint. Such a failure must never be mistaken for an empty result.
    PRUNED = "pruned"
    UNSUPPORTED = "not supported"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    INVALID = "invalid answer"
    UNKNOWN = "failed"
    # No request was sent, because the endpoint failed too often or is quarantined.
    BACKOFF = "backoff"
    QUARANTINED = "quarantined"


# After a failure of these kinds, a request for the logs of a smaller range may succeed.
DIVISIBLE = frozenset({ErrorKind.TOO_LARGE, ErrorKind.SLOW, ErrorKind.CUT, ErrorKind.UNKNOWN})
# A failure of these kinds is not the endpoint's fault, so it does not lower the endpoint's
# priority.
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
