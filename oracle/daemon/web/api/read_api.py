"""The application of the public listener: the read API, its schema, the pages and CORS."""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path

from fastapi import Depends, FastAPI, HTTPException, Request
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Match, Route

from oracle import __version__
from oracle.daemon.web.answer_cache import FreshAnswers
from oracle.daemon.web.api.answering import ApiAnswers, refuse_unknown_names
from oracle.daemon.web.api.event_stream import EventStreams, StreamLimits, event_routes
from oracle.daemon.web.api.node_routes import node_routes
from oracle.daemon.web.api.problems import PROBLEMS, register_problems
from oracle.daemon.web.api.record_routes import (
    draw_routes,
    evidence_routes,
    record_routes,
    rule_routes,
)
from oracle.daemon.web.pages.page_app import PageRenderer, page_app
from oracle.daemon.web.played_act import PlayedAct
from oracle.domain.ids import Hash
from oracle.kickouts.evidence_files import path_of
from oracle.queries.api.source import ApiSource

_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
_DESCRIPTION = (
    "Everything the oracle computed from the chain's logs, to be read and checked. Amounts and "
    "numbers in units of 10^-18 are text; times are unix seconds; every answer names the block "
    "that it speaks of, whether that is final, and how far behind it is."
)


def read_api(
    source: ApiSource,
    *,
    streams: StreamLimits,
    cors: Sequence[str] = (),
    evidence_folder: Path | None = None,
    act: Callable[[], PlayedAct | None] = lambda: None,
) -> FastAPI:
    """Return the application, which is read-only.

    `cors`: origins whose pages may read it in a browser; `*`: all. `evidence_folder`: where the
    daemon writes evidence; None: not on this host. `get_act` returns the current act of a
    demonstration, shown at the top of the pages.
    """
    answering = ApiAnswers(source)
    has_evidence = evidence_folder is not None
    pages = PageRenderer(source, act, has_evidence=has_evidence)
    web = FastAPI(
        title="qos-oracle read API",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
        dependencies=[Depends(refuse_unknown_names)],
    )
    register_problems(web)
    routers = [
        node_routes(answering),
        record_routes(answering),
        draw_routes(answering),
        rule_routes(answering),
        evidence_routes(answering, lambda named: _text_of(evidence_folder, named)),
        event_routes(EventStreams(source, streams)),
    ]
    for router in routers:
        web.include_router(router)
    # The middleware added last runs first, so CORS headers are set on fresh responses, too.
    web.add_middleware(FreshAnswers, answering.fresh, pages.fresh)
    if cors:
        web.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors),
            allow_methods=["GET"],
            expose_headers=["ETag"],
        )
    routes = [route for router in routers for route in router.routes]
    refuse = partial(_refuse_path, routes)
    web.add_api_route("/v1/{path:path}", refuse, methods=_METHODS, include_in_schema=False)
    # The pages handle all other paths.
    web.mount("/", page_app(pages))
    return web


def _refuse_path(routes: Sequence[BaseRoute], request: Request, path: str) -> None:
    """Raise 405 with `Allow` where the path has other methods, else 404."""
    allowed = {
        method
        for route in routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is Match.PARTIAL
        for method in route.methods or ()
    }
    if "GET" in allowed:
        allowed.add("HEAD")
    if allowed:
        listed = ", ".join(sorted(allowed))
        raise HTTPException(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"/v1/{path}: method {request.method} is not allowed; expected {listed}",
            {"allow": listed},
        )
    raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no path /v1/{path}")


def _text_of(folder: Path | None, named: Hash) -> str | None:
    """Return the text of an evidence file, or None if it does not exist."""
    if folder is None:
        return None
    try:
        return path_of(folder, named).read_text("utf-8")
    except OSError:
        return None
