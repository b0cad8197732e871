"""The application of the third listener: the read API, its schema, and who may ask from where."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from fastapi import Depends, FastAPI, HTTPException
from starlette.middleware.cors import CORSMiddleware

from oracle import __version__
from oracle.daemon.web.answer_cache import FreshAnswers
from oracle.daemon.web.api.answering import ApiAnswers, refuse_unknown_names
from oracle.daemon.web.api.event_stream import EventStreams, event_routes
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

_DESCRIPTION = (
    "Everything the oracle computed from the chain's logs, to be read and checked. Amounts and "
    "numbers in units of 10^-18 are text; times are unix seconds; every answer names the block "
    "that it speaks of, whether that is final, and how far behind it is."
)


@dataclass(frozen=True, slots=True)
class ReadApiOptions:
    """`cors`: origins whose pages may read it in a browser; `*`: all.

    `evidence_folder`: where the daemon lays evidence down, None: nowhere here. `streams`: how many
    may listen at the same time. `act`: what a demonstration plays now, to be said on its page.
    """

    cors: Sequence[str] = ()
    evidence_folder: Path | None = None
    streams: int = 1200
    act: Callable[[], PlayedAct | None] = lambda: None


def read_api(source: ApiSource, options: ReadApiOptions) -> FastAPI:
    """Return the application; nothing can be changed through it."""
    answering = ApiAnswers(source)
    has_evidence = options.evidence_folder is not None
    pages = PageRenderer(source, options.act, has_evidence=has_evidence)
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
    web.include_router(node_routes(answering))
    web.include_router(record_routes(answering))
    web.include_router(draw_routes(answering))
    web.include_router(rule_routes(answering))
    web.include_router(
        evidence_routes(answering, lambda named: _text_of(options.evidence_folder, named))
    )
    web.include_router(event_routes(EventStreams(source, options.streams)))
    # The last one that is added is asked first: CORS puts its headers on what is fresh, too.
    web.add_middleware(FreshAnswers, answering.fresh, pages.fresh)
    if options.cors:
        web.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors),
            allow_methods=["GET"],
            expose_headers=["ETag"],
        )
    web.add_api_route("/v1/{path:path}", _nothing, include_in_schema=False)
    # The pages take every path that is left.
    web.mount("/", page_app(pages))
    return web


def _nothing(path: str) -> None:
    """Say in the API's own way that there is no such path."""
    raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no path /v1/{path}")


def _text_of(folder: Path | None, named: Hash) -> str | None:
    """Read a file of evidence; None: it is not there."""
    if folder is None:
        return None
    try:
        return path_of(folder, named).read_text("utf-8")
    except OSError:
        return None
