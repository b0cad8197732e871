"""The pages as one application: routes, headers, and what is said where nothing can be shown.

It only reads. Every answer is rendered whole, so that nothing of it needs a script; each part of
it comes from `queries`, as the answers of the API do.
"""

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oracle import __version__
from oracle.daemon.web.pages import static_files
from oracle.daemon.web.pages.chain_pages import PAGES, ShowPage
from oracle.daemon.web.pages.page_cache import PageCache, tag_of
from oracle.daemon.web.pages.page_frame import HEADERS, PageRequest, page
from oracle.daemon.web.pages.status_line import OUT_OF_REACH
from oracle.daemon.web.played_act import PlayedAct
from oracle.daemon.web.single_flight import SingleFlight
from oracle.errors import OracleError
from oracle.queries.api.source import (
    AmbiguousError,
    ApiSource,
    NotKnownError,
    QuestionError,
    looking,
)

# Pages that may be read from the database at once, and how long one that another makes is waited
# for.
_SEATS, _PATIENCE_SECONDS = 8, 5.0
_DONE, _SEVERAL, _NOT_MODIFIED = 200, 300, 304
_NOT_FOUND, _WRONG, _NOT_NOW = 404, 422, 503
_OUT_OF_REACH = "Nothing is indexed yet, or the database cannot be read: qos-oracle status"
_ELSEWHERE = "It may be on another chain, or not indexed yet."


def page_app(
    source: ApiSource, act: Callable[[], PlayedAct | None], *, has_evidence: bool
) -> FastAPI:
    """Return the application, to be mounted at `/` behind the paths of the read API.

    `act` tells what a demonstration plays now; `has_evidence`: that of kickouts is kept here.
    """
    renderer = _Renderer(source, act, has_evidence=has_evidence)
    web = FastAPI(
        title="qos-oracle", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    web.add_middleware(_SafeHeaders)
    for path, show in PAGES.items():
        web.add_api_route(path, _route(renderer, show), methods=["GET"])

    @web.get("/static/{digest}/{name:path}")
    def static(digest: str, name: str) -> Response:
        """A file of the pages; its address has its digest, so that it may be kept for ever."""
        found = static_files.answer(digest, name)
        return found or _message("There is no such file.", "", _NOT_FOUND)

    @web.get("/{path:path}")
    def nothing(path: str) -> Response:  # noqa: ARG001 - FastAPI wants it named
        """Say that there is no such page."""
        return _message("There is no such page.", "", _NOT_FOUND)

    return web


def _route(renderer: "_Renderer", show: ShowPage) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return renderer.answer(request, show)

    answer.__doc__ = show.__doc__
    return answer


class _Renderer:
    """Renders each page once as long as nothing moves; any thread may ask."""

    def __init__(
        self, source: ApiSource, act: Callable[[], PlayedAct | None], *, has_evidence: bool
    ) -> None:
        self._source = source
        self._act = act
        self._has_evidence = has_evidence
        self._flights = SingleFlight[Response](_SEATS, _PATIENCE_SECONDS)
        self._cache = PageCache()

    def answer(self, request: Request, show: ShowPage) -> Response:
        """Return a page, or one that says why there is none."""
        question = f"{request.url.path}?{request.url.query}"
        try:
            with looking(self._source) as look:
                tag = tag_of(look.as_of, self._act())
            if tag in request.headers.get("if-none-match", ""):
                return Response(status_code=_NOT_MODIFIED, headers=_headers(tag))
            known = self._cache.get(tag, question)
            if known is not None:
                return HTMLResponse(known, headers=_headers(tag))
            made = self._flights.fly(question, lambda: self._made(request, show, question))
        except OracleError as error:
            return _refusal(error)
        return made or _message("Too many ask at this moment.", "Try again soon.", _NOT_NOW)

    def _made(self, request: Request, show: ShowPage, question: str) -> Response:
        with looking(self._source) as look:
            act = self._act()
            told = (request.path_params, request.query_params, act, self._has_evidence)
            made = show(look, PageRequest(*told))
            tag = tag_of(look.as_of, act)
        if made.status_code != _DONE:
            return made
        body = bytes(made.body)
        self._cache.put(tag, question, body)
        return HTMLResponse(body, headers=_headers(tag))


def _headers(tag: str) -> dict[str, str]:
    return {"etag": tag, "cache-control": "no-cache"}


def _refusal(error: OracleError) -> Response:
    if isinstance(error, AmbiguousError):
        return _message("That is the beginning of several.", f"{error}.", _SEVERAL, error.found)
    if isinstance(error, NotKnownError):
        return _message("That is not known here.", f"{error}. {_ELSEWHERE}", _NOT_FOUND)
    if isinstance(error, QuestionError):
        return _message("That cannot be shown.", f"{error}.", _WRONG)
    # Its text may name the machine that the database is on.
    return _message("There is nothing to be shown now.", _OUT_OF_REACH, _NOT_NOW)


def _message(headline: str, words: str, status: int, found: list[str] | None = None) -> Response:
    return page(
        "message.html",
        status=status,
        here=None,
        standing=OUT_OF_REACH,
        as_of=None,
        json_path=None,
        headline=headline,
        words=words,
        found=found or [],
    )


class _SafeHeaders:
    """Puts what a browser has to be told on every answer, whatever made it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers beside those of the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *told]
            await send(message)

        await self._app(scope, receive, with_headers)
