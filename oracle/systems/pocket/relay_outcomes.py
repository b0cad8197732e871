"""The outcomes of a relay, and whether the node that served it is to blame.

See docs/explanation/pocket.md#kinds-of-outcome.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from oracle.domain.ids import Address


class OutcomeKind(StrEnum):
    """The outcome of a relay, named as in `POST /v1/outcomes`."""

    OK = "ok"
    # The node sent a valid response that reports a mistake of the user.
    USER_ERROR = "user_error"
    TIMEOUT = "timeout"
    CONNECT = "connect"
    TRANSPORT = "transport"
    HTTP_5XX = "http_5xx"
    INVALID_RESULT = "invalid_result"
    BAD_SIGNATURE = "bad_signature"
    WRONG_CHAIN = "wrong_chain"
    MISCONFIGURED = "misconfigured"
    # In these cases, the session is at fault, not the node. The node is left out for the rest of
    # the session.
    SESSION_INVALID = "session_invalid"
    EXHAUSTED = "exhausted"
    # In these cases, the request is at fault.
    HTTP_4XX = "http_4xx"
    TOO_LARGE = "too_large"
    # In these cases, the gateway is at fault.
    CANCELLED = "cancelled"
    HEDGE_LOST = "hedge_lost"
    GATEWAY_ERROR = "gateway_error"


class Blame(StrEnum):
    """The effect of an outcome on a node, which is a success, a failure or none."""

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
    """A relay that ended at `t_ms`, in milliseconds.

    All outcomes use the same clock. `chain` is the scope in which latencies are compared.
    `latency_ms` counts only for a success.
    """

    node: Address
    chain: str
    t_ms: int
    kind: OutcomeKind
    latency_ms: float = 0.0
