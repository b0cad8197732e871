"""Metrics of the daemon's own listeners: connections and requests that were refused."""

from collections.abc import Mapping
from typing import Literal, get_args

from prometheus_client import Counter

from oracle.telemetry.metrics import REGISTRY

# slow: no complete request arrived in time. address, total: an older connection, of this address
# or of all, was closed to make room for a newer one. answers: all response slots are in use.
# large: the headers are too large. descriptors: no file descriptor is left. rate: too many
# requests from one address. deadline: the client did not read the response in time.
RefusalReason = Literal[
    "slow", "address", "total", "answers", "large", "descriptors", "rate", "deadline"
]

REFUSED = Counter(
    "oracle_http_refused_total",
    "Connections and requests refused, by listener and reason: slow (no complete request in "
    "time), address or total (too many connections), answers (too many requests at the same "
    "time), large (headers), descriptors (none left), rate (too many requests from an address), "
    "deadline (the client did not read the response).",
    ["listener", "reason"],
    registry=REGISTRY,
)


def get_refusal_counters(listener: str) -> Mapping[RefusalReason, Counter]:
    """Return a listener's counters of refusals by reason, each initialised to zero."""
    return {reason: REFUSED.labels(listener, reason) for reason in get_args(RefusalReason)}
