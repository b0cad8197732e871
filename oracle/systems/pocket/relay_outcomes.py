"""The outcome of a relay, and whether the node that served it is to blame.

See docs/explanation/pocket.md#kinds-of-outcome.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from oracle.domain.ids import Address


class OutcomeKind(StrEnum):
    """The outcome of a relay, as named in `POST /v1/outcomes`."""

    OK = "ok"
    # A valid response that reports a user error.
    USER_ERROR = "user_error"
    TIMEOUT = "timeout"
    CONNECT = "connect"
    TRANSPORT = "transport"
    HTTP_5XX = "http_5xx"
    INVALID_RESULT = "invalid_result"
    BAD_SIGNATURE = "bad_signature"
    WRONG_CHAIN = "wrong_chain"
    MISCONFIGURED = "misconfigured"
    # A fault of the session, not of the node: the node is left out of this session.
    SESSION_INVALID = "session_invalid"
    EXHAUSTED = "exhausted"
    # A fault of the request.
    HTTP_4XX = "http_4xx"
    TOO_LARGE = "too_large"
    # A fault of the gateway.
    CANCELLED = "cancelled"
    HEDGE_LOST = "hedge_lost"
    GATEWAY_ERROR = "gateway_error"


class Blame(StrEnum):
    """What an outcome counts as for the node: success, failure, or nothing."""

    SUCCESS = "success"
    FAILURE = "failure"
    NOBODY = "nobody"


_SUCCESSES = (OutcomeKind.OK, OutcomeKind.USER_ERROR)
_FAILURES = (
    OutcomeKind.TIMEOUT,
    OutcomeKind.CONNECT,
    OutcomeKind.TRANSPORT,
    OutcomeKind.HTTP_5XX,
    OutcomeKind.INVALID_RESULT,
    OutcomeKind.BAD_SIGNATURE,
    OutcomeKind.WRONG_CHAIN,
    OutcomeKind.MISCONFIGURED,
)
BLAME_BY_KIND: Mapping[OutcomeKind, Blame] = MappingProxyType(
    dict.fromkeys(OutcomeKind, Blame.NOBODY)
    | dict.fromkeys(_SUCCESSES, Blame.SUCCESS)
    | dict.fromkeys(_FAILURES, Blame.FAILURE)
)


class RelayOutcome(NamedTuple):
    """One relay that ended at `t_ms`, in milliseconds; all outcomes use the same clock.

    `chain` is the scope in which latencies are compared. `latency_ms` counts for successes only.
    """

    node: Address
    chain: str
    t_ms: int
    kind: OutcomeKind
    latency_ms: float = 0.0
