"""The daemon from start to end: opens its parts, checks them and runs the jobs."""

from contextlib import ExitStack

import structlog

from oracle.daemon.compose import rules_hash
from oracle.daemon.config.loader import Config
from oracle.daemon.endpoints.endpoint_patience import EndpointPatience, patient
from oracle.daemon.health_reporter import reporting_health
from oracle.daemon.jobs import open_jobs
from oracle.daemon.lease.lease_keeper import leading, leased
from oracle.daemon.process import DaemonProcess, Sends
from oracle.daemon.run_phases import (
    RUN_COMMAND,
    check_outcome,
    log_started,
    open_unless_empty,
    prepare_senders,
    retry_until_answered,
    take_lease,
    wait_for_index,
    waking_on_new_heads,
)
from oracle.daemon.scheduler import Waker, run as run_jobs, run_once
from oracle.daemon.senders import sender_openers
from oracle.daemon.service_manager import supervised
from oracle.daemon.startup import serving_all
from oracle.daemon.stopping import StopSignal
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import metrics


def run_daemon(config: Config, sends: Sends, stop: StopSignal, *, is_standby: bool) -> None:
    """Index, report, dispatch and serve until `stop`: one process, one lease.

    Raises:
        LeaseHeldError: another process leads, and this process is no standby.
        InputError: the settings do not match the chain, the database or the contract.
        FatalError: the lease was lost, or a job failed permanently.
    """
    with ExitStack() as closing:
        _run(DaemonProcess(config, sends, stop, closing), is_standby=is_standby)
    structlog.get_logger().info("process_stopped", by=stop.reason)


def _run(process: DaemonProcess, *, is_standby: bool) -> None:
    """Open all parts in the order in which they can fail, then run the jobs until the end."""
    stop, health, closing = process.stop, process.health, process.closing
    records = open_unless_empty(process)
    closing.enter_context(supervised(health.liveness.stuck_reason))
    index = wait_for_index(process, records)
    if index is None:
        return
    is_dry_run = not process.sends.reports
    metrics.say_build(rules_hash(process.config, index.reader), is_dry_run=is_dry_run)
    openers = sender_openers(index, process.board, closing)
    epoch = take_lease(process, index, openers.open_reporter, is_standby=is_standby)
    if epoch is None:
        return
    with (
        leading(index.store, epoch, stop.end, health.liveness.stuck_reason) as lease,
        reporting_health(index.store, health, RUN_COMMAND, lambda: lease.failure),
    ):
        senders = retry_until_answered(
            process, lambda: prepare_senders(process, index, epoch, openers), index
        )
        if senders is None:
            return
        jobs, waker = open_jobs(index, epoch, senders, health, closing), Waker()
        with serving_all(process, index) as addresses, waking_on_new_heads(index, waker):
            log_started(process, epoch, addresses)
            run_jobs(jobs, stop.event, health.liveness, waker)


def run_to_head(config: Config, sends: Sends, stop: StopSignal) -> Cursor | None:
    """Index to the newest block, send what is due, and return the last folded block.

    A signal ends the run between ticks.

    Raises:
        FatalError: the index is halted, or holds blocks that nothing should be derived from.
        TransientError: no endpoint answers, or the outcome of a sent call is unknown.
    """
    patience = EndpointPatience(stop)
    with ExitStack() as closing:
        process = DaemonProcess(config, sends, stop, closing)
        index = wait_for_index(process, open_unless_empty(process), patience.borne)
        stop.check()
        if index is None:
            return None
        openers = sender_openers(index, process.board, closing)
        with leased(index.store, RUN_COMMAND) as epoch:
            senders = patience.borne(lambda: prepare_senders(process, index, epoch, openers))
            jobs = open_jobs(index, epoch, senders, process.health, closing, stop.event.wait)
            # A block that is still unconfirmed at the end would make the command exit with 1.
            index.chain.wait_for_slow_witnesses()
            run_once(patient(jobs, stop), stop.event)
            stop.check()
            return check_outcome(index, senders)
