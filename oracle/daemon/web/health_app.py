"""The read-only HTTP application for monitoring.

`/livez` and `/metrics` read only memory, in the event loop of the server. Therefore they respond
even if the database is locked or unavailable, or if all threads are busy.
"""

from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic_core import to_json

from oracle import __version__
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease_keeper import find_leader
from oracle.daemon.wall_clock import unix_seconds
from oracle.daemon.web.rate_limit import ConcurrencyLimit
from oracle.errors import OracleError
from oracle.queries.health import build_health_report
from oracle.queries.intent_view import IntentView, build_intent_view, load_sent_state
from oracle.queries.status import add_chain_view, load_operator_status
from oracle.queries.status_models import OperatorStatus
from oracle.store.database import Store
from oracle.telemetry import metrics

_NOT_NOW = 503
# At most this many of the server's forty threads may wait for the database.
_MAX_DATABASE_REQUESTS = 8
_NEWEST_INTENTS = 20


def create_health_app(daemon_health: DaemonHealth, get_store: Callable[[], Store]) -> FastAPI:
    """Create the operators' application, which reads the database through `get_store`."""
    database_limit = ConcurrencyLimit(_MAX_DATABASE_REQUESTS)
    app = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/livez")
    async def get_livez() -> Response:
        """Return 200 while every job ticks, else 503 with the silent jobs.

        Restart the process if it returns 503.
        """
        silent_jobs = daemon_health.liveness.get_silent_jobs()
        return JSONResponse({"silent": silent_jobs}, _NOT_NOW if silent_jobs else 200)

    @app.get("/readyz")
    def get_readyz() -> Response:
        """Return 200 while the daemon is ready, else 503 with the reasons.

        The daemon is ready if no condition of `oracle.domain.health` is active, and the database
        is available.
        """
        with database_limit.try_enter() as is_admitted:
            faults = _find_database_faults(get_store) if is_admitted else [_DATABASE_BUSY]
        health = daemon_health.build_report()
        reasons = [finding.format_line() for finding in health.findings] + faults
        readiness = {
            "ready": not reasons,
            "reasons": reasons,
            "conditions": [condition.key for condition in health.conditions],
            "standby": daemon_health.leader is not None,
            "leader": daemon_health.leader,
            "head": daemon_health.newest_block,
            "folded": daemon_health.folded_block.number if daemon_health.folded_block else None,
            "lag_blocks": daemon_health.lag_blocks,
            "halt": daemon_health.halt_reason,
            "stalled": daemon_health.is_stalled,
        }
        return JSONResponse(readiness, _NOT_NOW if reasons else 200)

    @app.get("/metrics")
    async def get_metrics(request: Request) -> Response:
        """Return all metrics in the Prometheus format, from memory."""
        body, media_type = metrics.render_metrics(request.headers.get("accept", ""))
        return Response(body, media_type=media_type)

    @app.get("/v1/operations")
    def get_operations() -> Response:
        """Return the output of `qos-oracle status --json`.

        `dispatcher` is present if this process starts tasks, and `contract` if it sends reports;
        the values of both are as of their last check.
        """
        return _answer_from_database(
            database_limit,
            lambda: _load_operator_status(daemon_health, get_store()),
        )

    @app.get("/v1/outbox")
    def get_outbox() -> Response:
        """Return the output of `qos-oracle outbox list --json`."""
        return _answer_from_database(database_limit, lambda: _list_outbox_intents(get_store()))

    return app


_DATABASE_BUSY = "database: too many requests are waiting for the database"


def _answer_from_database(
    database_limit: ConcurrencyLimit, read_answer: Callable[[], object]
) -> Response:
    """Respond with data from the database, or with 503 if it is unavailable or overloaded."""
    with database_limit.try_enter() as is_admitted:
        try:
            if is_admitted:
                return Response(to_json(read_answer()), media_type="application/json")
        except OracleError as error:
            return JSONResponse({"error": str(error)}, _NOT_NOW)
    return JSONResponse({"error": _DATABASE_BUSY}, _NOT_NOW)


def _load_operator_status(daemon_health: DaemonHealth, store: Store) -> OperatorStatus:
    with store.read_transaction() as uow:
        health = build_health_report(uow, find_leader)
    status = load_operator_status(
        store,
        find_leader,
        health=health,
        endpoints=daemon_health.endpoints,
        dispatcher=daemon_health.dispatcher_balance,
    )
    return add_chain_view(status, daemon_health.chain_view)


def _list_outbox_intents(store: Store) -> list[IntentView]:
    """Return the output of `outbox list --json`."""
    now = int(unix_seconds())
    with store.read_transaction() as uow:
        newest_intents = uow.outbox.intents.list_newest(_NEWEST_INTENTS)
        return [
            build_intent_view(intent, load_sent_state(uow, intent), now)
            for intent in newest_intents
        ]


def _find_database_faults(get_store: Callable[[], Store]) -> list[str]:
    try:
        with get_store().read_transaction() as uow:
            uow.cursor.get()
    except OracleError as error:
        return [f"database: {error}"]
    return []
