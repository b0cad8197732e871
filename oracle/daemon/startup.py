"""What `run` waits for: an endpoint that answers, and its turn to lead."""

from collections.abc import Mapping

import structlog

from oracle.daemon.app import App
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_holder import Fate, fate_of
from oracle.daemon.lease.lease_keeper import HeldError, try_take
from oracle.daemon.scheduler import Job, run as run_steps
from oracle.daemon.stopping import StopSignal
from oracle.store.ops.lease_repository import LeaseState
from oracle.telemetry import lease_metrics

# How often a standby looks whether the leader is gone.
STANDBY_SECONDS = 2.0


def await_chain(app: App, watch: DaemonHealth, stop: StopSignal) -> None:
    """Look for the chain until an endpoint answers or `stop` is told.

    As a step of the daemon: its failures are told in the log, in the metrics and by `/readyz`.

    Raises:
        InputError: it is another chain, or its contracts are not ours.
    """

    def look() -> Mapping[str, object]:
        # Whoever was readmitted meanwhile may be asked again.
        app.recall_quarantine()
        app.require_chain()
        stop.event.set()
        return {"did": "answered"}

    run_steps([Job("chain", app.config.chain.poll_seconds, look)], stop.event, watch.beats)
    stop.clear()


def await_lease(
    app: App,
    watch: DaemonHealth,
    stop: StopSignal,
    command: str,
    *,
    before: LeaseState | None = None,
) -> int | None:
    """Wait until the lease of the database is free or over, or its holder gone; return its epoch.

    As a step of the daemon: its failures are told in the log, in the metrics and by `/readyz`.
    None: `stop` was told first. Who does not stand by gives how the lease stood `before`: it waits
    for a holder that may be dead, and for no other.

    Raises:
        HeldError: the holder lives, and we do not stand by.
        InputError: the database cannot be written.
    """
    epochs: list[int] = []
    seen = [] if before is None else [before]

    def look() -> Mapping[str, object] | None:
        epoch, held = try_take(app.store, command)
        lease_metrics.EPOCH.set(held.epoch)
        if epoch is None:
            if seen:
                refuse_living(held, seen[-1])
                seen.append(held)
                watch.waits_for = f"the lease of {held.holder} to be over"
            else:
                _stand_by(watch, held)
            return None
        epochs.append(epoch)
        watch.standby_of = watch.waits_for = None
        stop.event.set()
        return {"did": "took over", "epoch": epoch}

    run_steps([Job("standby", STANDBY_SECONDS, look)], stop.event, watch.beats)
    stop.clear()
    return epochs[0] if epochs else None


def refuse_living(held: LeaseState, before: LeaseState | None = None) -> None:
    """Leave the lease to a holder that lives: this kernel says so, or it has just renewed it.

    Raises:
        HeldError: it lives.
    """
    has_acted = before is not None and (
        held.epoch != before.epoch or held.seconds_left > before.seconds_left
    )
    if has_acted or fate_of(held.holder) is Fate.LIVES:
        raise HeldError(held)


def _stand_by(watch: DaemonHealth, held: LeaseState) -> None:
    if watch.standby_of != held.holder:
        structlog.get_logger().info("standby", leader=held.holder, epoch=held.epoch)
    watch.standby_of = held.holder
