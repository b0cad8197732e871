"""What `run` waits for: an endpoint that answers, its turn to lead, and a signal that ends it."""

import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from oracle.app import App
from oracle.chain.failures import NoneAnswersError
from oracle.entrypoints.watch import Watch
from oracle.errors import TransientError
from oracle.scheduler import Step, run as run_steps
from oracle.services.leasing import try_take
from oracle.telemetry import lease_metrics

# How often a standby looks whether the leader is gone.
STANDBY_SECONDS = 2.0


@dataclass(slots=True)
class Stop:
    """Set when the daemon is to end; `reason` names the signal that said so, None: none did."""

    event: threading.Event = field(default_factory=threading.Event)
    reason: str | None = None

    def tell(self, number: int) -> None:
        """Note the signal, and end what waits for the event."""
        self.reason = signal.Signals(number).name
        self.event.set()


def await_chain(app: App, watch: Watch, stop: Stop) -> None:
    """Look for the chain until an endpoint answers or `stop` is told.

    As a step of the daemon: its failures are told in the log, in the metrics and by `/readyz`.

    Raises:
        InputError: it is another chain, or its contracts are not ours.
    """

    def look() -> Mapping[str, object]:
        try:
            # Whoever was readmitted meanwhile may be asked again.
            app.recall_quarantine()
            app.require_chain()
        except NoneAnswersError as error:
            raise TransientError(str(error)) from None
        stop.event.set()
        return {"did": "answered"}

    run_steps([Step("chain", app.config.chain.poll_seconds, look)], stop.event, watch.beats)
    # In this order, so that a signal that comes now is not forgotten.
    stop.event.clear()
    if stop.reason is not None:
        stop.event.set()


def await_lease(app: App, watch: Watch, stop: Stop, command: str) -> int | None:
    """Stand by until the lease of the database is free or over; return its epoch.

    As a step of the daemon: its failures are told in the log, in the metrics and by `/readyz`.
    None: `stop` was told first.

    Raises:
        InputError: the database cannot be written.
    """
    epochs: list[int] = []

    def look() -> Mapping[str, object] | None:
        epoch, held = try_take(app.store, command)
        lease_metrics.EPOCH.set(held.epoch)
        if epoch is None:
            if watch.standby_of != held.holder:
                structlog.get_logger().info("standby", leader=held.holder, epoch=held.epoch)
            watch.standby_of = held.holder
            return None
        epochs.append(epoch)
        watch.standby_of = None
        stop.event.set()
        return {"did": "took over", "epoch": epoch}

    run_steps([Step("standby", STANDBY_SECONDS, look)], stop.event, watch.beats)
    # In this order, so that a signal that comes now is not forgotten.
    stop.event.clear()
    if stop.reason is not None:
        stop.event.set()
    return epochs[0] if epochs else None
