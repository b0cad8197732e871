"""The refused connections and requests of a listener: counted by reason, logged a few times."""

from collections import Counter

import structlog

from oracle.telemetry.http_metrics import RefusalReason, get_refusal_counters
from oracle.telemetry.logging_setup import is_power_of_two


class Refusals:
    """Counts the refusals of one listener; logs the 1st, 2nd, 4th, 8th … of each reason."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._count_by_reason: Counter[RefusalReason] = Counter()
        self._counters = get_refusal_counters(listener)

    def record_refusal(self, reason: RefusalReason, address: str) -> None:
        """Count a refusal of a client at this address."""
        self._counters[reason].inc()
        self._count_by_reason[reason] += 1
        if is_power_of_two(self._count_by_reason[reason]):
            structlog.get_logger().warning(
                "connection_refused",
                listener=self._listener,
                reason=reason,
                address=address,
                in_all=self._count_by_reason[reason],
            )
