"""The HTTP door, for machines that watch the daemon; nothing can be changed through it.

`/livez`, `/metrics` and the statements read memory only: they answer while the database is locked
or away, and whoever waits for it leaves them a thread.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from oracle import __version__
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.rate_limit import ClientBuckets, ConcurrencyLimit
from oracle.errors import InputError, OracleError
from oracle.queries.json_answers import status_answer
from oracle.queries.outbox_answers import intent_answer, sent_of
from oracle.queries.status import overview
from oracle.quorum.board import Board
from oracle.quorum.wire_format import written
from oracle.store.database import Store
from oracle.telemetry import metrics

_STOP_SECONDS = 1
_NOT_NOW, _TOO_MANY, _NONE = 503, 429, 404
# Answers about statements to one address: every other reporter asks once in some seconds.
_PER_SECOND, _AT_ONCE = 20.0, 100
# Requests that may wait for the database; the server has forty threads.
_SEATS = 8
_NEWEST_INTENTS = 20


def build(
    watch: DaemonHealth,
    store: Callable[[], Store],
    board: Board | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> FastAPI:
    """Return the application; `store` gives the database, only read, in short statements.

    `board`: what this reporter signed; None where it shows nothing.
    """
    seats = ConcurrencyLimit(_SEATS)
    web = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @web.get("/livez")
    def livez() -> Response:
        """200 while every loop turns, else 503 and which are silent. Restart the process then."""
        silent = watch.liveness.silent()
        return JSONResponse({"silent": silent}, _NOT_NOW if silent else 200)

    @web.get("/readyz")
    def readyz() -> Response:
        """200 while it does its work, else 503 and the reasons.

        Within 10 blocks of the head and a look at it in the last minute, no halt active, no block
        left out, no report held, no sender that a person has to release, no fork in doubt, no
        history below the level that is asked for, a chain that moves, no step failing three times
        in a row, and the database there.
        """
        with seats.one() as is_seated:
            faults = _database_faults(store) if is_seated else [_FULL]
        reasons = watch.reasons() + faults
        body = {
            "ready": not reasons,
            "reasons": reasons,
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
    def prometheus() -> Response:
        """Everything for Prometheus, from memory."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @web.get("/v1/status")
    def status() -> Response:
        """What `qos-oracle status --json` prints.

        `dispatcher` only where this process starts tasks, `contract` where it sends reports, both
        as they stood when they were asked last.
        """
        return _answered(
            seats,
            lambda: status_answer(
                overview(store(), worker), watch.dispatcher, watch.endpoints, watch.chain
            ),
        )

    @web.get("/v1/outbox")
    def outbox() -> Response:
        """What `qos-oracle outbox list --json` prints."""
        return _answered(seats, lambda: _intents(store()))

    if board is not None:
        _show_statements(web, board, ClientBuckets(_PER_SECOND, _AT_ONCE, clock))
    return web


_FULL = "database: too many wait for it already"


def _show_statements(web: FastAPI, board: Board, buckets: ClientBuckets) -> None:
    """Show what was signed to anybody: it is going to be public, and counts for nothing alone."""

    def shown(asked: Request, place: str) -> Response:
        # A proxy on this machine says for whom it asks; see docs/how-to/run-several-reporters.md.
        if not buckets.take("" if asked.client is None else asked.client.host):
            return JSONResponse({"error": "too many requests"}, _TOO_MANY)
        found = board.at(place)
        if not found:
            return JSONResponse({"error": "nothing was signed here"}, _NONE)
        return Response(written(found), media_type="application/json")

    @web.get("/v1/report/{around}")
    def report(asked: Request, around: int) -> Response:
        """What this reporter signed for a round: fields, digest, signer, signature.

        From memory; 404 where nothing was signed, 429 above 20 a second for each address.
        """
        return shown(asked, f"report/{around}")

    @web.get("/v1/kick/{node}")
    def kick(asked: Request, node: str) -> Response:
        """The same of a kickout, by the node's address."""
        return shown(asked, f"kick/{node}")


def _answered(seats: ConcurrencyLimit, read: Callable[[], object]) -> Response:
    """Answer with what is read from the database; 503 where it is away or too many wait."""
    with seats.one() as is_seated:
        try:
            if is_seated:
                return JSONResponse(read())
        except OracleError as error:
            return JSONResponse({"error": str(error)}, _NOT_NOW)
    return JSONResponse({"error": _FULL}, _NOT_NOW)


def _intents(store: Store) -> list[dict[str, object]]:
    """Return what `outbox list --json` prints."""
    now = int(time.clock_gettime(time.CLOCK_REALTIME))
    with store.reading() as uow:
        newest = uow.outbox.intents.newest(_NEWEST_INTENTS)
        return [intent_answer(intent, sent_of(uow, intent), now) for intent in newest]


def _database_faults(store: Callable[[], Store]) -> list[str]:
    try:
        with store().reading() as uow:
            uow.cursor.get()
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
