"""Builds the public web application: the read API, its schema and the pages."""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path

from fastapi import Depends, FastAPI, HTTPException, Request
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Match, Route

from oracle import __version__
from oracle.daemon.web.answer_cache import FreshAnswers
from oracle.daemon.web.api.answering import (
    PROBLEMS,
    ApiAnswers,
    PostLimit,
    PostLimits,
    register_problem_handlers,
    reject_unknown_parameters,
)
from oracle.daemon.web.api.event_stream import EventStreams, StreamLimits, build_event_routes
from oracle.daemon.web.api.node_routes import build_explanation_routes, build_node_routes
from oracle.daemon.web.api.objection_routes import (
    build_objection_intake_routes,
    create_objection_post_limit,
)
from oracle.daemon.web.api.record_routes import (
    build_draw_routes,
    build_evidence_routes,
    build_kickout_routes,
    build_leaf_routes,
    build_record_routes,
    build_rule_routes,
)
from oracle.daemon.web.api.subscription_routes import (
    build_subscription_routes,
    create_subscription_post_limit,
)
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.daemon.web.pages.page_app import PageRenderer, create_page_app
from oracle.domain.ids import Address
from oracle.kickouts.evidence_files import build_evidence_path
from oracle.queries.api.source import ApiSource

_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"]
_DESCRIPTION = (
    "Everything that the oracle computed from the chain's logs, for reading and verification. "
    "Amounts and numbers in units of 10^-18 are strings, and times are unix seconds. Every "
    "response has the block that it is as of, whether that block is final, and how far the block "
    "is behind the head."
)


def create_read_api(
    source: ApiSource,
    *,
    streams: StreamLimits,
    cors: Sequence[str] = (),
    evidence_folder: Path | None = None,
    get_phase: Callable[[], DemoPhase | None] = lambda: None,
) -> FastAPI:
    """Create the public web application: the read API, its schema and the pages.

    The application only reads the database, except that it stores objections and subscriptions to
    notices. `cors` lists the origins whose pages may read the API in a browser; `*` allows all
    origins. `evidence_folder` is the folder to which the daemon writes evidence, or None if the
    daemon runs on another host. `get_phase` returns the current phase of a demonstration, which is
    shown at the top of the pages.
    """
    api_answers = ApiAnswers(source)
    has_evidence = evidence_folder is not None
    pages = PageRenderer(source, get_phase, has_evidence=has_evidence)
    app = FastAPI(
        title="qos-oracle read API",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
        dependencies=[Depends(reject_unknown_parameters)],
    )
    register_problem_handlers(app)
    routers = [
        build_node_routes(api_answers),
        build_explanation_routes(api_answers),
        build_record_routes(api_answers),
        build_kickout_routes(api_answers),
        build_leaf_routes(api_answers),
        build_draw_routes(api_answers),
        build_rule_routes(api_answers),
        build_evidence_routes(
            api_answers,
            lambda node, due_since: _read_evidence_text(evidence_folder, node, due_since),
        ),
        build_event_routes(EventStreams(source, streams)),
    ]
    post_limits: dict[str, PostLimit] = {}
    if source.objection_intake is not None:
        routers.append(build_objection_intake_routes(api_answers))
        post_limits["/v1/objections"] = create_objection_post_limit()
    if source.subscriptions is not None:
        routers.append(build_subscription_routes(source.subscriptions))
        post_limits["/v1/subscriptions"] = create_subscription_post_limit(
            source.subscriptions.terms
        )
    for router in routers:
        app.include_router(router)
    # Middleware added last runs first, so cached responses get CORS headers too.
    app.add_middleware(FreshAnswers, api_answers.get_fresh, pages.get_fresh_page)
    if cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors),
            allow_methods=["GET"],
            expose_headers=["ETag", "X-Ipfs-Roots"],
        )
    app.add_middleware(PostLimits, post_limits)
    routes = [route for router in routers for route in router.routes]
    raise_path_error = partial(_raise_path_error, routes)
    app.add_api_route(
        "/v1/{path:path}", raise_path_error, methods=_METHODS, include_in_schema=False
    )
    # The page application handles all other paths.
    app.mount("/", create_page_app(pages, source.subscriptions))
    return app


def _raise_path_error(routes: Sequence[BaseRoute], request: Request, path: str) -> None:
    """Raise an error with status 405 if the path exists for other methods, else 404."""
    methods = {
        method
        for route in routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is Match.PARTIAL
        for method in route.methods or ()
    }
    if "GET" in methods:
        methods.add("HEAD")
    if methods:
        allowed_methods_text = ", ".join(sorted(methods))
        raise HTTPException(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"/v1/{path}: method {request.method} is not allowed; expected {allowed_methods_text}",
            {"allow": allowed_methods_text},
        )
    raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no path /v1/{path}")


def _read_evidence_text(folder: Path | None, node: Address, due_since: int) -> str | None:
    """Return the text of an evidence file, or None if there is no such file."""
    if folder is None:
        return None
    try:
        return build_evidence_path(folder, node, due_since).read_text("utf-8")
    except OSError:
        return None
