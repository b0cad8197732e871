"""The daemon from its start to its end: what it waits for, and the jobs that it repeats."""

import time

import structlog

from oracle import __version__
from oracle.daemon.app import App
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.endpoints.endpoint_patience import EndpointPatience, patient
from oracle.daemon.health_reporter import HealthReporter, reporting_health
from oracle.daemon.lease.lease_holder import holder_name
from oracle.daemon.lease.lease_keeper import RENEW_SECONDS, LeaseKeeper, leading, leased
from oracle.daemon.maintenance_steps import (
    COUNTERS_TURN_SECONDS,
    SNAPSHOT_TURN_SECONDS,
    why_unaudited,
)
from oracle.daemon.optional_steps import node_metrics_job, notify_job
from oracle.daemon.run_phases import (
    RUN_COMMAND,
    DaemonProcess,
    Sends,
    prepare_steps,
    retry_until_answered,
    take_lease,
    waking_on_new_heads,
)
from oracle.daemon.scheduler import Job, JobLiveness, Waker, run as run_jobs, run_once
from oracle.daemon.service_manager import supervised
from oracle.daemon.startup import serving_all
from oracle.daemon.steps import (
    PROBE_SECONDS,
    RECONCILE_SECONDS,
    STATISTICS_SECONDS,
    DaemonSteps,
)
from oracle.daemon.stopping import StopSignal
from oracle.errors import FatalError, TransientError
from oracle.telemetry import metrics


def run_daemon(app: App, sends: Sends, stop: StopSignal, *, is_standby: bool) -> None:
    """Index, report, dispatch and serve until `stop`: one process, one lease.

    Raises:
        LeaseHeldError: another process leads, and this one is no standby.
        InputError: the settings do not fit the chain, the database or the contract.
        FatalError: the lease was lost, or a job failed in a way that does not pass by itself.
    """
    liveness = JobLiveness(time.monotonic)
    process = DaemonProcess(app, sends, stop, DaemonHealth(liveness))
    with supervised(liveness.stuck_reason):
        retry_until_answered(process, app.require_chain)
        if stop.reason is None:
            app.create_store()
            metrics.say_build(app.rules_hash, is_dry_run=not sends.reports)
            epoch = take_lease(process, is_standby=is_standby)
            if epoch is not None:
                with leading(app.store, epoch, stop.end, liveness.stuck_reason) as lease:
                    _lead(process, epoch, lease)
    structlog.get_logger().info("stopped", by=stop.reason)


def _lead(process: DaemonProcess, epoch: int, lease: LeaseKeeper) -> None:
    """Check what can be checked before the first tick, then repeat the jobs until the end."""
    app, stop, watch = process.app, process.stop, process.watch
    reporter = HealthReporter(app.store, watch, holder_name(RUN_COMMAND))
    with reporting_health(reporter, lambda: lease.failure):
        steps = retry_until_answered(
            process, lambda: prepare_steps(app, epoch, process.sends, watch)
        )
        if steps is None:
            return
        with serving_all(app, watch) as addresses:
            structlog.get_logger().info(
                "started",
                version=__version__,
                chain_id=app.config.chain.id,
                **addresses,
                publishing=process.sends.reports,
                dispatching=process.sends.starts,
                epoch=epoch,
            )
            metrics.STARTED.set_to_current_time()
            waker = Waker()
            with waking_on_new_heads(app, waker):
                # The lease has a thread of its own: a long tick must not let it run out.
                jobs = [job for job in list_jobs(steps) if job.name != "lease"]
                run_jobs(jobs, stop.event, watch.liveness, waker)


def run_to_head(app: App, sends: Sends, stop: StopSignal) -> None:
    """Index to the newest block, send what is due, and return; a signal ends it between ticks.

    Raises:
        FatalError: the index is halted, or holds blocks that nothing should be derived from.
        TransientError: no endpoint answers, or it is unknown what became of a sent call.
    """
    EndpointPatience(stop).borne(app.require_chain)
    stop.check()
    app.create_store()
    with leased(app.store, RUN_COMMAND) as epoch:
        watch = DaemonHealth(JobLiveness(time.monotonic))
        steps = EndpointPatience(stop).borne(lambda: prepare_steps(app, epoch, sends, watch))
        steps.wait = stop.event.wait
        # A block that is unconfirmed at the end would let the command exit with 1.
        app.chain.wait_for_slow_witnesses()
        run_once(patient(list_jobs(steps), stop), stop.event)
        stop.check()
        with app.store.reading() as uow:
            halt_reason = uow.halts.reason()
        unaudited_reason = why_unaudited(app)
        unproven_calls = steps.unproven
    if halt_reason is not None:
        raise FatalError(f"not caught up: {halt_reason}")
    if unaudited_reason is not None:
        raise FatalError(f"not sure: {unaudited_reason}")
    if unproven_calls:
        raise TransientError(f"not known what became of a call: {unproven_calls[0]}")


def list_jobs(steps: DaemonSteps) -> list[Job]:
    """Return the daemon's jobs in the order of their first ticks; those not configured are absent.

    `run --once` has no job that only serves a process that stays: snapshots and node metrics.
    """
    app, ingest, maintenance = steps.app, steps.ingest, steps.integrity
    config, poll, stays = app.config, app.config.chain.poll_seconds, steps.wait is None
    return [
        Job("lease", RENEW_SECONDS, steps.keep_lease),
        Job("reconcile", RECONCILE_SECONDS, steps.compare),
        # Before the index: notices read blocks that a rewind by hand is about to replace.
        *([notify_job(app, ingest, steps.watch, is_daemon=stays)] if config.notify else []),
        *([node_metrics_job(app)] if config.metrics.nodes and stays else []),
        *([] if steps.feed is None else steps.feed.jobs()),
        Job("index", poll, steps.index),
        # Confirm before sending: a call that was mined meanwhile must not be paid for twice.
        Job("confirm", poll, steps.confirm),
        Job("publish", poll, steps.publish),
        *([] if steps.starts is None else [Job("dispatch", poll, steps.dispatch)]),
        Job("audit", poll, steps.audit),
        Job("probe", PROBE_SECONDS, steps.probe),
        *([Job("snapshots", SNAPSHOT_TURN_SECONDS, maintenance.snapshot)] if stays else []),
        Job("counters", COUNTERS_TURN_SECONDS, steps.compare_counters),
        Job("statistics", STATISTICS_SECONDS, steps.count),
    ]
