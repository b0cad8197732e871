"""The pages as one application: routes, headers, and error pages.

The application only reads. Every page is rendered completely, so that none needs a script; all
data comes from `queries`, as in the read API.
"""

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oracle import __version__
from oracle.daemon.web.answer_cache import AnswerCache, CachedResponse, Flights
from oracle.daemon.web.pages import static_files
from oracle.daemon.web.pages.chain_pages import PAGES, ShowPage
from oracle.daemon.web.pages.page_frame import HEADERS, POLICY, PageRequest, page
from oracle.daemon.web.pages.status_line import OUT_OF_REACH
from oracle.daemon.web.played_act import PlayedAct
from oracle.errors import OracleError
from oracle.queries.api.source import (
    AmbiguousError,
    ApiSource,
    NotKnownError,
    QuestionError,
    looking,
)

# The number of pages that may be read from the database at once.
_SEATS = 8
_CACHE_BYTES = 16 * 2**20
_SEVERAL = 300
_NOT_FOUND, _WRONG, _NOT_NOW = 404, 422, 503
_OUT_OF_REACH = "Nothing is indexed yet, or the database cannot be read: qos-oracle status"
_ELSEWHERE = "It may be on another chain, or not indexed yet."


def page_app(renderer: "PageRenderer") -> FastAPI:
    """Return the application, to be mounted at `/` behind the paths of the read API."""
    web = FastAPI(
        title="qos-oracle", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    web.add_middleware(_SafeHeaders)
    for path, show in PAGES.items():
        web.add_api_route(path, _route(renderer, show), methods=["GET"])

    @web.get("/docs")
    def api_docs() -> Response:
        """The reference of the read API, drawn from its schema."""
        shown = page("api_docs.html", schema="/v1/openapi.json")
        # Redoc writes its styles into the page.
        policy = HEADERS[POLICY].replace("style-src", "style-src 'unsafe-inline'")
        shown.headers[POLICY] = policy
        return shown

    @web.get("/static/{digest}/{name:path}")
    def static(digest: str, name: str) -> Response:
        """A static file; its URL contains its digest, so that it can be cached forever."""
        found = static_files.answer(digest, name)
        return found or _message("There is no such file.", "", _NOT_FOUND)

    @web.get("/{path:path}")
    def nothing(path: str) -> Response:  # noqa: ARG001 - FastAPI wants it named
        """Respond that the page does not exist."""
        return _message("There is no such page.", "", _NOT_FOUND)

    return web


def _route(renderer: "PageRenderer", show: ShowPage) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return renderer.answer(request, show)

    answer.__doc__ = show.__doc__
    return answer


class PageRenderer:
    """Renders pages; thread-safe."""

    def __init__(
        self, source: ApiSource, act: Callable[[], PlayedAct | None], *, has_evidence: bool
    ) -> None:
        """Set the source; `has_evidence`: the evidence of kickouts is on this host."""
        self._source = source
        self._act = act
        self._has_evidence = has_evidence
        self._flights = Flights(_SEATS)
        self._cache = AnswerCache(source, _CACHE_BYTES, act)

    def answer(self, request: Request, show: ShowPage) -> Response:
        """Return a page, or an error page that gives the reason."""
        try:
            made = self._cache.answer(request, lambda: self._made(request, show), self._flights)
        except OracleError as error:
            return _refusal(error)
        return made or _message("Too many ask at this moment.", "Try again soon.", _NOT_NOW)

    def fresh(self, scope: Scope) -> ASGIApp | None:
        """Return a page that needs no check of the database; never blocks."""
        found = self._cache.fresh(scope)
        return None if found is None else _SafeHeaders(found)

    def _made(self, request: Request, show: ShowPage) -> CachedResponse:
        with looking(self._source) as look:
            act = self._act()
            told = (request.path_params, request.query_params, act, self._has_evidence)
            return CachedResponse(show(look, PageRequest(*told)), look.as_of, act)


def _refusal(error: OracleError) -> Response:
    if isinstance(error, AmbiguousError):
        return _message("That is the beginning of several.", f"{error}.", _SEVERAL, error.found)
    if isinstance(error, NotKnownError):
        return _message("That is not known here.", f"{error}. {_ELSEWHERE}", _NOT_FOUND)
    if isinstance(error, QuestionError):
        return _message("That cannot be shown.", f"{error}.", _WRONG)
    # The error's text may name the database's host.
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
    """ASGI middleware that adds the security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and add the headers that it did not set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [
                    *message["headers"],
                    *(header for header in added if header[0] not in present),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)
