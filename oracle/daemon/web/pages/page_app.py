"""Builds the web application of the pages: routes, headers and error pages.

The pages only read the database, except the pages of subscriptions to notices. The server renders
every page completely, so that no page needs a script. All data comes from `queries`, as in the
read API.
"""

from collections.abc import Callable
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oracle import __version__
from oracle.daemon.web.answer_cache import AnswerCache, AnswerFlights, CachedResponse
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.daemon.web.pages.chain_pages import PAGES, RenderPage
from oracle.daemon.web.pages.page_frame import (
    FOLDER,
    HEADERS,
    POLICY,
    UNAVAILABLE,
    PageRequest,
    StatusLine,
    get_static_file_response,
    render_template,
)
from oracle.daemon.web.pages.verify_page import build_verify_page, build_verify_page_policy
from oracle.errors import OracleError
from oracle.notify.subscriptions import SubscriptionIntake, compute_link_token
from oracle.queries.api.source import (
    AmbiguousPrefixError,
    ApiSource,
    NotFoundError,
    RequestError,
    open_snapshot,
)
from oracle.store.subscription_repository import SubscriptionState

# The maximum number of pages read from the database concurrently.
_MAX_CONCURRENT_PAGES = 8
_CACHE_BYTES = 16 * 2**20
_MULTIPLE_CHOICES = 300
_NOT_FOUND, _UNPROCESSABLE, _UNAVAILABLE = 404, 422, 503
_UNAVAILABLE_TEXT = "Nothing is indexed yet, or the database cannot be read: qos-oracle status"
_NOT_FOUND_HINT = "The address or task may be on another chain, or not indexed yet."
_PATH = "/subscriptions/{subscription_id}/{token}"
_HEADLINE_BY_STATE = {
    SubscriptionState.NEW: "Not confirmed yet",
    SubscriptionState.UNCONFIRMED: "Not confirmed yet",
    SubscriptionState.ACTIVE: "Active subscription",
    SubscriptionState.ENDED: "Ended subscription",
}


def create_page_app(renderer: "PageRenderer", intake: SubscriptionIntake | None = None) -> FastAPI:
    """Create the web application of the pages, to be mounted at `/` behind the read API.

    `intake` is None if owners cannot subscribe to notices.
    """
    app = FastAPI(
        title="qos-oracle", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_middleware(_SafeHeaders)
    for path, render in PAGES.items():
        app.add_api_route(path, _build_page_route(renderer, render), methods=["GET"])

    if intake is not None:
        add_subscription_pages(app, intake)

    @app.get("/docs")
    def get_api_docs() -> Response:
        """Show the read API reference, rendered from its schema."""
        response = render_template(
            "api_docs.html",
            here=None,
            standing=StatusLine("good", f"Read API {__version__}"),
            as_of=None,
            json_path="/v1/openapi.json",
        )
        # Redoc adds inline styles to the page, so the policy must permit them.
        policy = HEADERS[POLICY].replace("style-src", "style-src 'unsafe-inline'")
        response.headers[POLICY] = policy
        return response

    @app.get("/verify")
    def get_verify_page() -> Response:
        """Return the page for checking evidence in the browser, as a single file."""
        headers = {POLICY: build_verify_page_policy(), "cache-control": "no-cache"}
        return HTMLResponse(build_verify_page(), headers=headers)

    @app.get("/llms.txt")
    def get_llms_text() -> Response:
        """Return a description of this server for language models."""
        text = (FOLDER / "llms.txt").read_text("utf-8")
        return PlainTextResponse(text, headers={"cache-control": "no-cache"})

    @app.get("/static/{digest}/{name:path}")
    def get_static_file(digest: str, name: str) -> Response:
        """Return a static file, which may be cached forever.

        The file's URL contains its digest.
        """
        file_response = get_static_file_response(digest, name)
        return file_response or _render_message_page("File not found.", "", _NOT_FOUND)

    @app.get("/{path:path}")
    def refuse_unknown_path(path: str) -> Response:  # noqa: ARG001 - FastAPI wants it named
        """Respond that the page does not exist."""
        return _render_message_page("Page not found.", "", _NOT_FOUND)

    return app


def _build_page_route(
    renderer: "PageRenderer", render: RenderPage
) -> Callable[[Request], Response]:
    def answer_request(request: Request) -> Response:
        return renderer.answer_page(request, render)

    answer_request.__doc__ = render.__doc__
    return answer_request


class PageRenderer:
    """Renders pages; thread-safe."""

    def __init__(
        self, source: ApiSource, get_phase: Callable[[], DemoPhase | None], *, has_evidence: bool
    ) -> None:
        """Create the renderer; `has_evidence` tells whether this host has kickout evidence."""
        self._source = source
        self._get_phase = get_phase
        self._has_evidence = has_evidence
        self._flights = AnswerFlights(_MAX_CONCURRENT_PAGES)
        self._cache = AnswerCache(source, _CACHE_BYTES, get_phase)

    def answer_page(self, request: Request, render: RenderPage) -> Response:
        """Return a page, or an error page with the reason."""
        try:
            response = self._cache.get_or_make_response(
                request, lambda: self._render_page(request, render), self._flights
            )
        except OracleError as error:
            return _render_refusal(error)
        return response or _render_message_page(
            "Too many requests.", "Try again in a few seconds.", _UNAVAILABLE
        )

    def get_fresh_page(self, scope: Scope) -> ASGIApp | None:
        """Return the cached page without blocking, or None if no fresh copy is cached."""
        response = self._cache.get_fresh_response(scope)
        return None if response is None else _SafeHeaders(response)

    def _render_page(self, request: Request, render: RenderPage) -> CachedResponse:
        with open_snapshot(self._source) as snapshot:
            phase = self._get_phase()
            request_values = (request.path_params, request.query_params, phase, self._has_evidence)
            return CachedResponse(
                render(snapshot, PageRequest(*request_values)), snapshot.as_of, phase
            )


def _render_refusal(error: OracleError) -> Response:
    if isinstance(error, AmbiguousPrefixError):
        return _render_message_page(
            "Several nodes match.", f"{error}.", _MULTIPLE_CHOICES, error.candidates
        )
    if isinstance(error, NotFoundError):
        return _render_message_page("Not found.", f"{error}. {_NOT_FOUND_HINT}", _NOT_FOUND)
    if isinstance(error, RequestError):
        return _render_message_page("Invalid request.", f"{error}.", _UNPROCESSABLE)
    # The error's text is not shown, because it may name the database host.
    return _render_message_page("Service unavailable.", _UNAVAILABLE_TEXT, _UNAVAILABLE)


def _render_message_page(
    headline: str, explanation: str, status: int, candidates: list[str] | None = None
) -> Response:
    return render_template(
        "message.html",
        status=status,
        here=None,
        standing=UNAVAILABLE,
        as_of=None,
        json_path=None,
        headline=headline,
        words=explanation,
        found=candidates or [],
    )


class _SafeHeaders:
    """ASGI middleware that adds security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and add the headers that it did not set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present_names = {name for name, _ in message["headers"]}
                added_headers = [
                    (name.encode(), value.encode()) for name, value in HEADERS.items()
                ]
                message["headers"] = [
                    *message["headers"],
                    *(header for header in added_headers if header[0] not in present_names),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def add_subscription_pages(app: FastAPI, intake: SubscriptionIntake) -> None:
    """Add the subscription page and the actions of its buttons."""

    @app.get(_PATH)
    def get_subscription(subscription_id: str, token: str) -> Response:
        """Show a subscription with buttons to confirm and end it."""
        return _render_subscription(intake, subscription_id, token)

    @app.post(_PATH + "/{action}")
    def change_subscription(subscription_id: str, token: str, action: str) -> Response:
        """Confirm or end a subscription."""
        change_subscription_state = {"confirm": intake.confirm, "end": intake.end}.get(action)
        try:
            subscription = intake.find_by_link(subscription_id, token)
            if subscription is not None and change_subscription_state is not None:
                change_subscription_state(subscription)
        except OracleError:
            return _render_subscription_template(
                "Service unavailable", HTTPStatus.SERVICE_UNAVAILABLE
            )
        return _render_subscription(intake, subscription_id, token)


def _render_subscription(intake: SubscriptionIntake, subscription_id: str, token: str) -> Response:
    try:
        subscription = intake.find_by_link(subscription_id, token)
    except OracleError:
        return _render_subscription_template("Service unavailable", HTTPStatus.SERVICE_UNAVAILABLE)
    if subscription is None:
        return _render_subscription_template("This link is not valid", HTTPStatus.NOT_FOUND)
    return _render_subscription_template(
        _HEADLINE_BY_STATE[subscription.state],
        HTTPStatus.OK,
        path=f"/subscriptions/{subscription.id}/{compute_link_token(subscription)}",
        node=subscription.node,
        channel=subscription.channel,
        state=subscription.state,
        reason=subscription.reason,
    )


def _render_subscription_template(
    headline: str, status: HTTPStatus, **values: str | None
) -> Response:
    default_values = {"path": None, "node": None, "channel": None, "state": None, "reason": None}
    page_frame = {"here": None, "standing": UNAVAILABLE, "as_of": None, "json_path": None}
    response = render_template(
        "subscription.html",
        status=status,
        headline=headline,
        **(default_values | page_frame | values),
    )
    response.headers["cache-control"] = "no-store"
    return response
