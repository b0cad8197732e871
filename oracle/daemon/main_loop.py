"""Runs the daemon from start to end: opens and checks its components, and runs its jobs."""

from contextlib import ExitStack

from oracle.daemon.compose import compute_rules_hash
from oracle.daemon.config.loader import Config
from oracle.daemon.configured_keys import make_key_opener
from oracle.daemon.health_reporter import report_daemon_health, report_to_systemd
from oracle.daemon.jobs import open_jobs
from oracle.daemon.lease_keeper import hold_lease, keep_lease
from oracle.daemon.rules_switch import RulesSwitchedError, has_other_rules
from oracle.daemon.run_phases import (
    RUN_COMMAND,
    acquire_lease_or_wait,
    get_verified_final_cursor,
    log_daemon_started,
    log_shared_addresses,
    make_reporter_opener,
    open_existing_records,
    prepare_senders,
    retry_until_answered,
    wait_for_index,
    wake_on_new_heads,
)
from oracle.daemon.scheduler import (
    EndpointRetryWaiter,
    Waker,
    run_jobs,
    run_until_idle,
    wrap_jobs_with_waits,
)
from oracle.daemon.startup import DaemonProcess, SendPermissions, serve_listeners
from oracle.daemon.stopping import StopSignal
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import metrics
from oracle.telemetry.logger import get_logger


def run_daemon(
    config: Config, permissions: SendPermissions, stop: StopSignal, *, is_standby: bool
) -> None:
    """Index, report, dispatch and serve in one process with one lease, until `stop` is set.

    Raises:
        LeaseHeldError: another process leads, and this process is no standby.
        InputError: the settings do not match the chain, the database or the contract.
        FatalError: the lease was lost, or a job failed permanently.
    """
    is_running = True
    while is_running:
        with ExitStack() as exit_stack:
            process = DaemonProcess(config, permissions, stop, exit_stack)
            try:
                _run_daemon_phases(process, is_standby=is_standby)
                is_running = False
            except RulesSwitchedError:
                # All components depend on the rules, so they are all reopened.
                stop.clear_stop_event()
    get_logger().info("process_stopped", by=stop.reason)


def _run_daemon_phases(process: DaemonProcess, *, is_standby: bool) -> None:
    """Open all components, starting with those that may fail, and run the jobs."""
    stop, health, exit_stack = process.stop, process.health, process.exit_stack
    records = open_existing_records(process)
    exit_stack.enter_context(report_to_systemd(health.liveness.find_stuck_reason))
    index = wait_for_index(process, records)
    if index is None:
        return
    is_dry_run = not process.permissions.reports
    metrics.set_build_info(compute_rules_hash(index.config, index.reader), is_dry_run=is_dry_run)
    open_key = make_key_opener(index.config)
    get_reporter = make_reporter_opener(process, index, open_key)
    epoch = acquire_lease_or_wait(process, index, get_reporter, is_standby=is_standby)
    if epoch is None:
        return
    with (
        keep_lease(
            index.store, epoch, stop.request_stop, health.liveness.find_stuck_reason
        ) as lease_keeper,
        report_daemon_health(index.store, health, RUN_COMMAND, lambda: lease_keeper.failure),
    ):
        if has_other_rules(index):
            raise RulesSwitchedError("the process that led before has switched the rules")
        senders = retry_until_answered(
            process, lambda: prepare_senders(process, index, epoch, open_key, get_reporter), index
        )
        if senders is None:
            return
        jobs = open_jobs(index, epoch, senders, health, exit_stack)
        waker = Waker()
        with serve_listeners(process, index) as addresses, wake_on_new_heads(index, waker):
            log_daemon_started(process, epoch, addresses)
            log_shared_addresses(process.config.chain)
            run_jobs(jobs, stop.event, health.liveness, waker)


def run_to_head(config: Config, permissions: SendPermissions, stop: StopSignal) -> Cursor | None:
    """Index up to the newest block, send all due transactions, and return the last folded block.

    A signal ends the run between ticks.

    Raises:
        FatalError: the index is halted, or contains blocks that are not verified.
        TransientError: no endpoint answers, or the outcome of a sent call is unknown.
    """
    try:
        return _run_to_head(config, permissions, stop)
    except RulesSwitchedError:
        return run_to_head(config, permissions, stop)


def _run_to_head(config: Config, permissions: SendPermissions, stop: StopSignal) -> Cursor | None:
    retry_waiter = EndpointRetryWaiter(stop)
    with ExitStack() as exit_stack:
        process = DaemonProcess(config, permissions, stop, exit_stack)
        index = wait_for_index(
            process, open_existing_records(process), retry_waiter.run_with_retries
        )
        stop.exit_if_signalled()
        if index is None:
            return None
        open_key = make_key_opener(index.config)
        get_reporter = make_reporter_opener(process, index, open_key)
        with hold_lease(index.store, RUN_COMMAND) as epoch:
            senders = retry_waiter.run_with_retries(
                lambda: prepare_senders(process, index, epoch, open_key, get_reporter)
            )
            jobs = open_jobs(index, epoch, senders, process.health, exit_stack, stop.event.wait)
            # Do not skip slow witnesses, because the command fails if a block is still unconfirmed
            # when the command ends.
            index.chain.allow_slow_witnesses()
            run_until_idle(wrap_jobs_with_waits(jobs, stop), stop.event)
            stop.exit_if_signalled()
            return get_verified_final_cursor(index, senders)
