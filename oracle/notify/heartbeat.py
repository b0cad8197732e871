"""Sends periodic messages to a dead man's switch, which raises an alarm when they stop.

The daemon's main loop sends the heartbeats, so they also stop if the loop hangs. A heartbeat has
no sequence number and is never resent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from oracle.domain.health import HealthReport
from oracle.errors import OracleError
from oracle.notify.target import Message, Target
from oracle.rpc.background import BackgroundCall


@dataclass(slots=True)
class Heartbeat:
    """Sends heartbeats to one target every `interval_seconds`; `clock` is monotonic."""

    target: Target
    interval_seconds: float
    clock: Callable[[], float]
    _call: BackgroundCall[None] = field(default_factory=BackgroundCall)
    _next_at: float = 0.0

    def send_if_due(self, health: HealthReport, time: int) -> None:
        """Send a heartbeat if one is due, without waiting for the response."""
        self._call.wait_seconds = 0.0
        if self._call.is_pending:
            self._log_failed_delivery()
            return
        now = self.clock()
        if now < self._next_at:
            return
        self._next_at = now + self.interval_seconds
        text = f"heartbeat: {health.format_line()}"
        body = {"kind": "heartbeat", "time": time, "text": text, "health": health.to_dict()}
        message = Message("heartbeat", "heartbeat", text, body)
        self._call.start(lambda: self.target.send(message), f"heartbeat {self.target.name}")

    def _log_failed_delivery(self) -> None:
        outcome = self._call.take_finished()
        if outcome is None:
            return
        try:
            outcome.result()
        except Exception as error:  # noqa: BLE001  whatever a library raises, the daemon goes on
            reason = str(error) if isinstance(error, OracleError) else type(error).__name__
            log = structlog.get_logger()
            log.warning("heartbeat_delivery_failed", target=self.target.name, reason=reason)
