"""`run`: the daemon itself."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

import structlog
import typer

from oracle import __version__
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    open_app,
    print_json,
)
from oracle.cli.write_session import unix_seconds
from oracle.daemon.app import App
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.endpoints.endpoint_patience import EndpointPatience, patient
from oracle.daemon.health_reporter import HealthReporter, reporting_health
from oracle.daemon.lease.lease_holder import holder_name
from oracle.daemon.lease.lease_keeper import LeaseKeeper, leading, leased, try_take
from oracle.daemon.maintenance_steps import why_unaudited
from oracle.daemon.scheduler import JobLiveness, Waker, run as run_steps, run_once
from oracle.daemon.service_manager import supervised
from oracle.daemon.startup import (
    await_answers,
    await_lease,
    check_contract,
    freeze_garbage,
    introduce,
    refuse_living,
    serving_all,
    tracing,
)
from oracle.daemon.steps import DaemonSteps, steps_of
from oracle.daemon.stopping import StopSignal, until_told
from oracle.daemon.web.listener import raise_descriptor_limit
from oracle.domain.health import Condition
from oracle.errors import FatalError, InputError, TransientError
from oracle.indexer.reorgs import finality_halt
from oracle.rpc.new_heads import NewHeadSubscription, PolledHead
from oracle.store.schema import SchemaAge, schema_state
from oracle.telemetry import logging_setup, metrics

_COMMAND = "qos-oracle run"

T = TypeVar("T")

_SendOption = Annotated[
    bool | None,
    typer.Option(
        "--publish/--dry-run",
        help="Send reports and kickouts, or send nothing at all. Default: oracle.publish.",
    ),
]

_StartOption = Annotated[
    bool | None,
    typer.Option(
        "--dispatch/--no-dispatch",
        help="Start drawn tasks on chain, or only draw. Default: dispatch.enabled, not with "
        "--dry-run.",
    ),
]


def register(app: typer.Typer) -> None:
    """Put `run` on the command line."""
    app.command(
        "run", epilog="Example: qos-oracle run --config config/local.toml --publish --dispatch"
    )(run)


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Catch up with the head, do what is due, and leave.")
    ] = False,
    publish: _SendOption = None,
    dispatch: _StartOption = None,
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Where another daemon leads, wait, and take over from it."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Log as JSON lines; --once prints at its end how far it is."),
    ] = False,
) -> None:
    """Be the daemon: index the chain, score its nodes, report, give out tasks; until SIGTERM.

    It sends only what --publish, --dispatch or their settings say; the rest is computed and kept.
    Makes the tables of an empty database. One process works on a database at a time; others may
    stand by. Exit codes: 1 may be started again by itself, 2 needs a person.
    """
    if dispatch and publish is False:
        raise InputError("--dispatch sends transactions, and --dry-run sends none: give one")
    if once and standby:
        raise InputError("--once leaves when all is done, and --standby waits: give one")

    def work(stop: StopSignal) -> None:
        with open_app(config) as app, tracing(app.config.tracing.endpoint):
            told = app.config
            logging_setup.configure("json" if as_json else told.log.format, told.log.level)
            if schema_state(told.database.url).age is not SchemaAge.EMPTY:
                # Says at once what is wrong with it. An empty one stays so until the chain
                # is right.
                app.require_store()
            sends = _Sends(
                reports=told.oracle.publish if publish is None else publish,
                starts=(told.dispatch.enabled and publish is not False)
                if dispatch is None
                else dispatch,
            )
            if sends.reports or sends.starts:
                app.refuse_unproven()
            if once:
                _once(app, sends, stop)
                if as_json:
                    print_json(_reached(app, sends))
            else:
                _daemon(app, sends, stop, is_standby=standby)

    raise_descriptor_limit()
    until_told(work)


class _Sends(NamedTuple):
    """What this run may send."""

    reports: bool
    starts: bool


def _once(app: App, sends: _Sends, stop: StopSignal) -> None:
    """Catch up, do what is due, and leave; a signal ends it after the turn at hand."""
    EndpointPatience(stop).borne(app.require_chain)
    stop.check()
    app.create_store()
    with leased(app.store, _COMMAND) as epoch:
        watch = DaemonHealth(JobLiveness(time.monotonic))
        work = EndpointPatience(stop).borne(lambda: _prepared(app, epoch, sends, watch))
        work.wait = stop.event.wait
        # What is left unconfirmed at the end would end the command with 1.
        app.chain.wait_for_slow_witnesses()
        run_once(patient(steps_of(work), stop), stop.event)
        stop.check()
        with app.store.reading() as uow:
            closed = uow.halts.reason()
        doubt = why_unaudited(app)
        unproven = work.unproven
    if closed is not None:
        # It has not caught up, and whoever asked for that must hear it.
        raise FatalError(f"not caught up: {closed}")
    if doubt is not None:
        raise FatalError(f"not sure: {doubt}")
    if unproven:
        raise TransientError(f"not known what became of a call: {unproven[0]}")


def _reached(app: App, sends: _Sends) -> dict[str, object]:
    """Say how far the index is, and what could be sent on the way."""
    with app.store.reading() as uow:
        cursor = uow.cursor.get()
    at = None if cursor is None else {"block": cursor.number, "time": cursor.time}
    return {"folded": at, "publishing": sends.reports, "dispatching": sends.starts}


@dataclass(frozen=True, slots=True)
class _Process:
    """What every phase of the daemon's life shares."""

    app: App
    sends: _Sends
    stop: StopSignal
    watch: DaemonHealth


def _daemon(app: App, sends: _Sends, stop: StopSignal, *, is_standby: bool) -> None:
    """Be the daemon."""
    liveness = JobLiveness(time.monotonic)
    process = _Process(app, sends, stop, DaemonHealth(liveness))
    with supervised(liveness.stuck_reason):
        _awaited(process, app.require_chain)
        if stop.reason is None:
            app.create_store()
            metrics.say_build(app.rules_hash, is_dry_run=not sends.reports)
            epoch = _lease(process, is_standby=is_standby)
            if epoch is not None:
                with leading(app.store, epoch, stop.end, liveness.stuck_reason) as lease:
                    _lead(process, epoch, lease)
    structlog.get_logger().info("stopped", by=stop.reason)


def _lead(process: _Process, epoch: int, lease: LeaseKeeper) -> None:
    """Do the work of the one that writes, and report its health."""
    app, sends = process.app, process.sends
    reporter = HealthReporter(app.store, process.watch, holder_name(_COMMAND))
    with reporting_health(reporter, lambda: lease.failure):
        work = _awaited(process, lambda: _prepared(app, epoch, sends, process.watch))
        if work is not None:
            _work(process, work, epoch)


def _work(process: _Process, work: DaemonSteps, epoch: int) -> None:
    """Turn the loops until the process is told to end."""
    app, sends, stop = process.app, process.sends, process.stop
    with serving_all(app, work.watch) as addresses:
        structlog.get_logger().info(
            "started",
            version=__version__,
            chain_id=app.config.chain.id,
            **addresses,
            publishing=sends.reports,
            dispatching=sends.starts,
            epoch=epoch,
        )
        metrics.STARTED.set_to_current_time()
        waker = Waker()
        with _woken(app, waker):
            # The lease is kept beside the worker, not by it.
            steps = [step for step in steps_of(work) if step.name != "lease"]
            run_steps(steps, stop.event, work.watch.liveness, waker)


def _lease(process: _Process, *, is_standby: bool) -> int | None:
    """Take the lease; return its epoch, None: told to end first.

    A standby waits for it with everything checked that can be; who does not stand by, for that of
    a holder that may be dead.

    Raises:
        LeaseHeldError: the holder lives, and we do not stand by.
    """
    app, stop, before = process.app, process.stop, None
    if is_standby:
        if process.sends.reports and _awaited(process, lambda: check_contract(app)) is None:
            return None
    else:
        # The lease before the port: a second daemon hears who the first one is.
        epoch, before = try_take(app.store, _COMMAND)
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
        return await_lease(app, watch, stop, _COMMAND, before=before)


def _awaited(process: _Process, work: Callable[[], T]) -> T | None:
    """Return what `work` does; where no endpoint lets it, say why not, until one does.

    None: told to end first.
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


def _prepared(app: App, epoch: int, sends: _Sends, watch: DaemonHealth) -> DaemonSteps:
    """Check everything that can be checked before the first turn."""
    app.store.fence(epoch)
    # Who led before may have found out somebody since this process began.
    app.recall_quarantine()
    app.identify()
    work = DaemonSteps(app, epoch, watch)
    closed = finality_halt.show(app.store)
    if closed is not None:
        structlog.get_logger().error("halted", reason=closed)
    with app.store.reading() as uow:
        cursor = uow.cursor.get()
    if cursor is not None:
        work.watch.folded_to(cursor)
    if sends.starts:
        work.starts = app.starter(epoch, unix_seconds)
    if sends.reports:
        introduce(app, check_contract(app))
        work.reporter = app.reporter(epoch, unix_seconds)
        watch.heartbeat_seconds = app.report_settings.heartbeat_seconds
    freeze_garbage()
    return work


@contextmanager
def _woken(app: App, waker: Waker) -> Iterator[None]:
    """Let a websocket bring the next look forward, where there is one in the settings."""
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
