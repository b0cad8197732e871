"""The phases of `run` before its jobs: an endpoint that answers, the lease, and the checks."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import structlog

from oracle.daemon.app import App
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_keeper import try_take
from oracle.daemon.scheduler import Waker
from oracle.daemon.startup import (
    await_answers,
    await_lease,
    check_contract,
    freeze_garbage,
    introduce,
    refuse_living,
    serving_all,
)
from oracle.daemon.steps import DaemonSteps
from oracle.daemon.stopping import StopSignal
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.health import Condition
from oracle.errors import TransientError
from oracle.indexer.reorgs import finality_halt
from oracle.rpc.new_heads import NewHeadSubscription, PolledHead

# How the lease names its holder.
RUN_COMMAND = "qos-oracle run"

T = TypeVar("T")


class Sends(NamedTuple):
    """The kinds of transactions that this process may send."""

    reports: bool
    starts: bool


@dataclass(frozen=True, slots=True)
class DaemonProcess:
    """The parts that every phase of the daemon's life shares."""

    app: App
    sends: Sends
    stop: StopSignal
    watch: DaemonHealth


def take_lease(process: DaemonProcess, *, is_standby: bool) -> int | None:
    """Take the lease of the database and return its epoch, or None if `stop` was set first.

    A standby checks the contract and then waits for the leader to end. Another process waits only
    where the holder may be dead, until the lease expires.

    Raises:
        LeaseHeldError: the holder is alive, and this process is no standby.
    """
    app, stop, before = process.app, process.stop, None
    if is_standby:
        if process.sends.reports:
            retry_until_answered(process, lambda: check_contract(app))
            if stop.reason is not None:
                return None
    else:
        # The lease before the port, so that a second daemon names the first one in its error.
        epoch, before = try_take(app.store, RUN_COMMAND)
        if epoch is not None:
            return epoch
        refuse_living(before)
    watch = process.watch
    freeze_garbage()
    with serving_all(app, watch) as addresses:
        if before is None:
            structlog.get_logger().info("standby_started", **addresses)
        else:
            reason = f"{before.holder} may be dead; its lease is not over"
            structlog.get_logger().warning("waiting_for_lease", **addresses, reason=reason)
        return await_lease(app, watch, stop, RUN_COMMAND, before=before)


def retry_until_answered(process: DaemonProcess, work: Callable[[], T]) -> T | None:
    """Return the result of `work`, repeated until an endpoint answers it.

    Meanwhile health, metrics and API are served, and the log says why. None: `stop` was set first.
    """
    try:
        return work()
    except TransientError as error:
        app, watch = process.app, process.watch
        watch.raise_condition(Condition.NO_ENDPOINT, str(error))
        with serving_all(app, watch) as addresses:
            structlog.get_logger().warning("waiting_for_endpoint", **addresses, reason=str(error))
            done = await_answers(app, watch, process.stop, work)
        watch.clear_condition(Condition.NO_ENDPOINT)
        return done


def prepare_steps(app: App, epoch: int, sends: Sends, watch: DaemonHealth) -> DaemonSteps:
    """Check everything that can be checked before the first tick, and return the daemon's steps.

    Raises:
        InputError: the database is of another chain or of other rules, or a key or the contract
            is not as configured.
        TransientError: no endpoint answers now.
    """
    app.store.fence(epoch)
    # The leader before may have proven an endpoint wrong since this process began.
    app.recall_quarantine()
    app.identify()
    steps = DaemonSteps(app, epoch, watch)
    halt_reason = finality_halt.show(app.store)
    if halt_reason is not None:
        structlog.get_logger().error("halted", reason=halt_reason)
    with app.store.reading() as uow:
        cursor = uow.cursor.get()
    if cursor is not None:
        watch.folded_to(cursor)
    if sends.starts:
        steps.starts = app.starter(epoch, unix_seconds)
    if sends.reports:
        introduce(app, check_contract(app))
        steps.reporter = app.reporter(epoch, unix_seconds)
        watch.heartbeat_seconds = app.report_settings.heartbeat_seconds
    freeze_garbage()
    return steps


@contextmanager
def waking_on_new_heads(app: App, waker: Waker) -> Iterator[None]:
    """Let `[chain] websocket`, where it is set, start the index job at each new head."""
    url = app.config.chain.websocket
    if url is None:
        yield
        return
    tracker = app.source.tracker
    new_heads = NewHeadSubscription(
        url,
        lambda: waker.wake("index"),
        lambda: PolledHead(tracker.newest, tracker.block_seconds),
        time.monotonic,
    )
    new_heads.start()
    try:
        yield
    finally:
        new_heads.stop()
