"""Metrics of the daemon's own listeners: what strangers asked and were not given."""

from collections.abc import Mapping
from typing import Literal, get_args

from prometheus_client import Counter

from oracle.telemetry.metrics import REGISTRY

# slow: no whole request in time. address, total: made room for a newer one. answers: all of them
# are being given. large: a request of more than its headers may have. descriptors: none was left.
# rate: too many requests from one address. deadline: the answer was not taken in time.
Reason = Literal["slow", "address", "total", "answers", "large", "descriptors", "rate", "deadline"]

REFUSED = Counter(
    "oracle_http_refused_total",
    "Connections and requests that were not answered, by listener and reason: slow, address,"
    " total, answers, large, descriptors, rate, deadline.",
    ["listener", "reason"],
    registry=REGISTRY,
)


def counters_of(listener: str) -> Mapping[Reason, Counter]:
    """Return what counts a listener's refusals; alerts see a zero of each before the first."""
    return {reason: REFUSED.labels(listener, reason) for reason in get_args(Reason)}
