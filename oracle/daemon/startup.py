"""The daemon's listeners and traces, and the interpreter settings at its start."""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from oracle.chain.profiles.event_reader import EventReader
from oracle.daemon.compose import Index
from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.process import DaemonProcess
from oracle.daemon.records import Records
from oracle.daemon.wall_clock import unix_seconds
from oracle.daemon.web.played_act import PlayedAct
from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.indexer.snapshots import MAX_REQUEST_LOGS
from oracle.queries.api.node_order import NodeOrder
from oracle.queries.api.source import ApiSource
from oracle.queries.explain import EventArchive
from oracle.resources import extra_command
from oracle.store.database import Store

if TYPE_CHECKING:
    from fastapi import FastAPI

_MADE_BEFORE_A_LOOK = 50_000


@contextmanager
def serving_all(process: DaemonProcess, index: Index | None) -> Iterator[dict[str, str]]:
    """Serve the operators' listener and, if configured, the statements listener and the read API.

    Yields the addresses by settings section. With `index` None the database has no tables yet, and
    the read API has no data.

    Raises:
        InputError: a port is in use, or a certificate cannot be used.
    """
    # Imported here because `run --once` serves nothing and starts faster without them.
    from oracle.daemon.web.health_app import health_app  # noqa: PLC0415
    from oracle.daemon.web.http_server import serving  # noqa: PLC0415
    from oracle.daemon.web.statements_app import statements_app  # noqa: PLC0415

    config, health = process.config, process.health

    def open_store() -> Store:
        if index is None:
            raise TransientError("is empty, and gets its tables when an endpoint answers")
        return index.store

    with ExitStack() as closing:
        web = serving(health_app(health, open_store), config.web.listener)
        addresses = {"web": closing.enter_context(web)}
        if config.statements.listener is not None:
            shown = serving(statements_app(process.board), config.statements.listener)
            addresses["statements"] = closing.enter_context(shown)
        if config.api.enabled and index is not None:
            api = read_api_of(index, index.reader, lambda: health.newest)
            addresses["api"] = closing.enter_context(serving(api, config.api.listener))
        yield addresses


@contextmanager
def tracing(endpoint: str | None) -> Iterator[None]:
    """Export traces of the steps to a collector; None: no traces.

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

    `get_head` returns the newest block, or None if unknown; `clock` returns unix seconds;
    `get_act` returns the current act of a demonstration.

    Raises:
        InputError: the database does not match the program.
    """
    # Imported here because the models take a tenth of a second, which only a serving process
    # should pay.
    from oracle.daemon.web.api.read_api import read_api  # noqa: PLC0415

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
    folder = told.oracle.evidence_folder
    return read_api(source, streams=api, cors=api.cors, evidence_folder=folder, act=act)


def freeze_garbage() -> None:
    """Exclude long-lived objects from garbage collection, and collect less often.

    A window creates and drops some ten thousand events and rows, none of them in a reference
    cycle. Searching for cycles every 700 allocations, through everything that was imported, cost a
    third of a backfill (benchmarks/backfill.py).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MADE_BEFORE_A_LOOK)
