"""The start of the daemon: endpoints, lease, contract; and the servers that run meanwhile."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import structlog

from oracle.bindings.inspection import inspected
from oracle.bindings.qos_oracle import ContractConfiguration
from oracle.chain.profiles.event_reader import EventReader
from oracle.daemon.app import App
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_holder import Fate, fate_of
from oracle.daemon.lease.lease_keeper import HolderWatch, LeaseHeldError, try_take, worker
from oracle.daemon.records import Records
from oracle.daemon.scheduler import Job, run as run_steps
from oracle.daemon.stopping import StopSignal
from oracle.daemon.wall_clock import unix_seconds
from oracle.daemon.web.played_act import PlayedAct
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.indexer.snapshots import MAX_REQUEST_LOGS
from oracle.queries.api.node_order import NodeOrder
from oracle.queries.api.source import ApiSource
from oracle.queries.explain import EventArchive
from oracle.resources import extra_command
from oracle.store.ops.lease_repository import LeaseState
from oracle.telemetry import indexer_metrics, quorum_metrics

if TYPE_CHECKING:
    from fastapi import FastAPI

T = TypeVar("T")

# How often a standby looks whether the leader is gone.
STANDBY_SECONDS = 2.0

_MADE_BEFORE_A_LOOK = 50_000


@contextmanager
def serving_all(app: App, watch: DaemonHealth) -> Iterator[dict[str, str]]:
    """Answer who watches us and, where the settings say so, the other reporters.

    Yields the addresses, by the section that each comes from.

    Raises:
        InputError: a port is in use, or a certificate cannot be used.
    """
    # Here, and not above: `run --once` serves nobody, and is there sooner without it.
    from oracle.daemon.web.health_app import health_app  # noqa: PLC0415
    from oracle.daemon.web.http_server import serving  # noqa: PLC0415
    from oracle.daemon.web.statements_app import statements_app  # noqa: PLC0415

    told = app.config
    with ExitStack() as opened:
        web = serving(health_app(watch, app.opened_store), told.web.listener)
        addresses = {"web": opened.enter_context(web)}
        if told.statements.listener is not None:
            shown = serving(statements_app(app.board), told.statements.listener)
            addresses["statements"] = opened.enter_context(shown)
        # Before the first look at the chain there may be no tables to read.
        if told.api.enabled and app.is_store_open:
            read = serving(
                read_api_of(Records(told, app.rules, app.store), app.reader, lambda: watch.newest),
                told.api.listener,
            )
            addresses["api"] = opened.enter_context(read)
        yield addresses


@contextmanager
def tracing(endpoint: str | None) -> Iterator[None]:
    """Send traces of the steps to a collector; None: make none.

    Raises:
        InputError: the extra `otel` is not installed.
    """
    if endpoint is None:
        yield
        return
    try:
        from oracle.telemetry.trace_export import exporting  # noqa: PLC0415  an extra
    except ImportError:
        raise InputError(
            f"tracing.endpoint: OpenTelemetry is not installed; run {extra_command('otel')}"
        ) from None
    with exporting(endpoint):
        yield


def read_api_of(
    records: Records,
    reader: EventReader,
    head: Callable[[], int | None],
    *,
    clock: Callable[[], int] = lambda: int(unix_seconds()),
    act: Callable[[], PlayedAct | None] = lambda: None,
) -> "FastAPI":
    """Return the read API and the pages over the database.

    `head` tells the newest block, where it is known; `clock` unix seconds; `act` what is played,
    where it is a demonstration.

    Raises:
        InputError: the database does not fit the program.
    """
    # Its models take a tenth of a second, and only who serves it has them.
    from oracle.daemon.web.api.event_stream import StreamLimits  # noqa: PLC0415
    from oracle.daemon.web.api.read_api import ReadApiOptions, read_api  # noqa: PLC0415

    archive = EventArchive(
        records.store,
        reader,
        records.rules,
        records.config.oracle.min_scores,
        max_logs=MAX_REQUEST_LOGS,
    )
    told = records.config
    source = ApiSource(
        archive,
        NodeOrder(records.rules),
        head,
        clock,
        worker,
        records.dispatch_settings,
        token=reader.profile.token,
        labels={Address(at): label for at, label in told.network.labels.items()},
    )
    api = told.api
    streams = StreamLimits(api.max_streams, api.max_streams_per_address, api.stream_seconds)
    options = ReadApiOptions(api.cors, told.oracle.evidence_folder, streams, act)
    return read_api(source, options)


def await_answers(
    app: App, watch: DaemonHealth, stop: StopSignal, work: Callable[[], T]
) -> T | None:
    """Do `work` until endpoints let it be done, or `stop` is told; return what it returns.

    As a step of the daemon: its failures are told in the log, in the metrics and by `/readyz`.
    None: `stop` was told first.

    Raises:
        InputError: it is another chain, or its contracts are not ours.
    """
    done: list[T] = []

    def look() -> Mapping[str, object]:
        # Whoever was readmitted meanwhile may be asked again.
        app.recall_quarantine()
        done.append(work())
        stop.event.set()
        return {"did": "answered"}

    run_steps([Job("chain", app.config.chain.poll_seconds, look)], stop.event, watch.liveness)
    stop.clear()
    return done[0] if done else None


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
        LeaseHeldError: the holder lives, and we do not stand by.
        InputError: the database cannot be written.
    """
    epochs: list[int] = []
    seen, holder = [] if before is None else [before], HolderWatch()

    def look() -> Mapping[str, object] | None:
        epoch, held = try_take(app.store, command, holder)
        indexer_metrics.EPOCH.set(held.epoch)
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

    run_steps([Job("standby", STANDBY_SECONDS, look)], stop.event, watch.liveness)
    stop.clear()
    return epochs[0] if epochs else None


def refuse_living(held: LeaseState, before: LeaseState | None = None) -> None:
    """Leave the lease to a holder that lives: this kernel says so, or it has just renewed it.

    Raises:
        LeaseHeldError: it lives.
    """
    has_acted = before is not None and (
        held.epoch != before.epoch or held.until_ms != before.until_ms
    )
    if has_acted or fate_of(held.holder) is Fate.LIVES:
        raise LeaseHeldError(held)


def _stand_by(watch: DaemonHealth, held: LeaseState) -> None:
    if watch.standby_of != held.holder:
        structlog.get_logger().info("standby", leader=held.holder, epoch=held.epoch)
    watch.standby_of = held.holder


_OTHER_RULES = (
    "rulesHash is made of [rules], network.profile and oracle.period_seconds, heartbeat_seconds, "
    "deviation, report_ttl_seconds, max_words, min_scores and kick_after_rounds: put back what "
    "was changed, or let the contract's admin setRules"
)


def check_contract(app: App) -> ContractConfiguration:
    """Return what the contract is like.

    Raises:
        InputError: it is not as configured.
        TransientError: not enough endpoints answer to know.
    """
    constitution, found = inspected(app.publisher.lines, app.oracle_address, app.expected)
    if found:
        lines = "".join(f"\n  {difference.line()}" for difference in found)
        if any(difference.what == "rulesHash" for difference in found):
            lines += f"\n  {_OTHER_RULES}"
        raise InputError(f"the oracle contract is not as configured; nothing is sent{lines}")
    return constitution


def introduce(app: App, constitution: ContractConfiguration) -> None:
    """Say who signs and who sends here, and whose signatures are gathered from where."""
    keys, peers = app.keys, app.peers
    signer = keys.signer.address if keys and keys.signer else None
    transmitter = keys.transmitter.address if keys and keys.transmitter else None
    quorum_metrics.know(constitution.signers)
    structlog.get_logger().info(
        "reporting_as",
        contract=app.oracle_address,
        signer=signer,
        transmitter=transmitter,
        rank=None if transmitter is None else app.config.reporters.transmit_rank,
        quorum=constitution.quorum,
        signers=list(constitution.signers),
        round=constitution.contract_status.head.round,
        peers=[] if peers is None else [peer.name for peer in peers.all],
    )


def freeze_garbage() -> None:
    """Keep what the daemon is made of from the garbage collector, and let that come more rarely.

    A window makes some ten thousand events and rows and drops them again, none of them in a
    circle; looking for circles each seven hundred, and through all that was imported, cost a
    third of a backfill (benchmarks/backfill.py).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MADE_BEFORE_A_LOOK)
