"""The refused connections and requests of a listener: counted by reason, logged a few times."""

from collections import Counter

import structlog

from oracle.telemetry.http_metrics import Reason, counters_of
from oracle.telemetry.logging_setup import is_power_of_two


class Refusals:
    """Counts the refusals of one listener; logs the 1st, 2nd, 4th, 8th … of each reason."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._counted: Counter[Reason] = Counter()
        self._counters = counters_of(listener)

    def note(self, reason: Reason, address: str) -> None:
        """Count a refusal of a client at this address."""
        self._counters[reason].inc()
        self._counted[reason] += 1
        if is_power_of_two(self._counted[reason]):
            structlog.get_logger().warning(
                "connection_refused",
                listener=self._listener,
                reason=reason,
                address=address,
                in_all=self._counted[reason],
            )
