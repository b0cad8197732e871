"""What `run` waits for: an endpoint that answers, and a signal that ends it."""

import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from oracle.app import App
from oracle.chain.failures import NoneAnswersError
from oracle.entrypoints.watch import Watch
from oracle.errors import TransientError
from oracle.scheduler import Step, run as run_steps


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
