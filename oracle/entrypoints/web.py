"""The HTTP door, for machines that watch the daemon; nothing can be changed through it.

`/livez` and `/metrics` read memory only: they answer while the database is locked or away.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from oracle import __version__
from oracle.entrypoints.answers import status_answer
from oracle.entrypoints.watch import Watch
from oracle.errors import InputError, OracleError
from oracle.services.observing import overview
from oracle.store.store import Store
from oracle.telemetry import metrics

_STOP_SECONDS = 1
_NOT_NOW = 503


def build(watch: Watch, store: Callable[[], Store]) -> FastAPI:
    """Return the application; `store` gives the database, only read, in short statements."""
    web = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @web.get("/livez")
    def livez() -> Response:
        silent = watch.beats.silent()
        return JSONResponse({"silent": silent}, _NOT_NOW if silent else 200)

    @web.get("/readyz")
    def readyz() -> Response:
        reasons = watch.reasons() + _database_faults(store)
        body = {
            "ready": not reasons,
            "reasons": reasons,
            "standby": watch.standby_of is not None,
            "leader": watch.standby_of,
            "head": watch.newest,
            "folded": watch.folded.number if watch.folded else None,
            "lag_blocks": watch.lag_blocks,
            "latch": watch.latch,
            "stalled": watch.is_stalled,
        }
        return JSONResponse(body, _NOT_NOW if reasons else 200)

    @web.get("/metrics")
    def prometheus() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @web.get("/v1/status")
    def status() -> Response:
        try:
            seen = overview(store())
            return JSONResponse(status_answer(seen, watch.dispatcher, watch.endpoints))
        except OracleError as error:
            return JSONResponse({"error": str(error)}, _NOT_NOW)

    return web


def _database_faults(store: Callable[[], Store]) -> list[str]:
    try:
        with store().reading() as unit:
            unit.cursor.get()
    except OracleError as error:
        return [f"database: {error}"]
    return []


@contextmanager
def serving(web: FastAPI, host: str, port: int) -> Iterator[str]:
    """Serve in a thread; yields the address, `http://host:port`.

    Raises:
        InputError: the port is in use, or the host is none of this machine's.
    """
    listening = _listen(host, port)
    server = uvicorn.Server(
        uvicorn.Config(
            web,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
    )
    thread = threading.Thread(target=server.run, args=([listening],), name="web", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(2 * _STOP_SECONDS)
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    """Listen before the server's thread starts, so that a taken port is the user's to know."""
    try:
        return socket.create_server((host, port))
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            f"web.host and web.port: cannot listen on {host}:{port}: {why}"
        ) from error
