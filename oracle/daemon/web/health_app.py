"""The read-only HTTP application for monitoring.

`/livez` and `/metrics` read memory only, in the server's own loop: they respond while the database
is locked or unavailable, and need no thread.
"""

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic_core import to_json

from oracle import __version__
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.wall_clock import unix_seconds
from oracle.daemon.web.rate_limit import ConcurrencyLimit
from oracle.errors import OracleError
from oracle.queries.health import health_of
from oracle.queries.intent_view import IntentView, intent_view, sent_of
from oracle.queries.operator_status import operator_status
from oracle.queries.status import overview
from oracle.queries.status_models import OperatorStatus
from oracle.store.database import Store
from oracle.telemetry import metrics

_NOT_NOW = 503
# Requests that may wait for the database; the server has forty threads.
_SEATS = 8
_NEWEST_INTENTS = 20


def health_app(watch: DaemonHealth, store: Callable[[], Store]) -> FastAPI:
    """Return the application; `get_store` returns the database for short read queries."""
    seats = ConcurrencyLimit(_SEATS)
    web = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @web.get("/livez")
    async def livez() -> Response:
        """200 while every job ticks, else 503 and the silent jobs. Restart the process then."""
        silent = watch.liveness.silent()
        return JSONResponse({"silent": silent}, _NOT_NOW if silent else 200)

    @web.get("/readyz")
    def readyz() -> Response:
        """200 while the daemon does its work, else 503 and the reasons.

        Ready: no condition of `oracle.domain.health` is active, and the database is available.
        """
        with seats.one() as is_seated:
            faults = _database_faults(store) if is_seated else [_FULL]
        health = watch.health()
        reasons = [one.text() for one in health.findings] + faults
        body = {
            "ready": not reasons,
            "reasons": reasons,
            "conditions": [one.key for one in health.conditions],
            "standby": watch.standby_of is not None,
            "leader": watch.standby_of,
            "head": watch.newest,
            "folded": watch.folded.number if watch.folded else None,
            "lag_blocks": watch.lag_blocks,
            "halt": watch.halt,
            "stalled": watch.is_stalled,
        }
        return JSONResponse(body, _NOT_NOW if reasons else 200)

    @web.get("/metrics")
    async def prometheus() -> Response:
        """All metrics for Prometheus, from memory."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @web.get("/v1/operations")
    def operations() -> Response:
        """The output of `qos-oracle status --json`.

        `dispatcher` is present if this process starts tasks, `contract` if it sends reports, both
        as of their last check.
        """
        return _answered(
            seats,
            lambda: _status(watch, store()),
        )

    @web.get("/v1/outbox")
    def outbox() -> Response:
        """The output of `qos-oracle outbox list --json`."""
        return _answered(seats, lambda: _intents(store()))

    return web


_FULL = "database: too many wait for it already"


def _answered(seats: ConcurrencyLimit, read: Callable[[], object]) -> Response:
    """Respond with data from the database; 503 if it is unavailable or too many wait."""
    with seats.one() as is_seated:
        try:
            if is_seated:
                return Response(to_json(read()), media_type="application/json")
        except OracleError as error:
            return JSONResponse({"error": str(error)}, _NOT_NOW)
    return JSONResponse({"error": _FULL}, _NOT_NOW)


def _status(watch: DaemonHealth, store: Store) -> OperatorStatus:
    with store.reading() as uow:
        health = health_of(uow, worker)
    return operator_status(
        overview(store, worker),
        health=health,
        chain=watch.chain,
        endpoints=watch.endpoints,
        dispatcher=watch.dispatcher,
    )


def _intents(store: Store) -> list[IntentView]:
    """Return the output of `outbox list --json`."""
    now = int(unix_seconds())
    with store.reading() as uow:
        newest = uow.outbox.intents.newest(_NEWEST_INTENTS)
        return [intent_view(intent, sent_of(uow, intent), now) for intent in newest]


def _database_faults(store: Callable[[], Store]) -> list[str]:
    try:
        with store().reading() as uow:
            uow.cursor.get()
    except OracleError as error:
        return [f"database: {error}"]
    return []
