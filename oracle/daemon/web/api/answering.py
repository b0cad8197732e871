"""Turns read API requests into responses, and errors into problem documents.

A problem document is `application/problem+json` (RFC 9457).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from inspect import isclass
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from oracle.daemon.wall_clock import unix_seconds
from oracle.daemon.web.answer_cache import AnswerCache, AnswerFlights, CachedResponse
from oracle.daemon.web.rate_limit import ClientBuckets, TokenBucket
from oracle.errors import OracleError
from oracle.indexer.folded_state import NoNearbySnapshotError
from oracle.kickouts.objection_intake import ObjectionRefusal, ObjectionRefusedError
from oracle.queries.answers import Answer
from oracle.queries.api.source import (
    AmbiguousPrefixError,
    ApiSnapshot,
    ApiSource,
    NotFoundError,
    RequestError,
    open_snapshot,
)
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import is_power_of_two

# The maximum number of concurrent answers; lower than the number of read connections.
_MAX_CONCURRENT_ANSWERS = 6
# Slow answers fold raw logs, which takes seconds of CPU time.
_MAX_CONCURRENT_SLOW_ANSWERS = 1
_CACHE_BYTES = 64 * 2**20
_MEDIA_TYPE = "application/problem+json"
_RETRY_SECONDS = 2
# HTTP status of a refused objection. Reasons that are not listed have status 409.
_STATUS_BY_REFUSAL = {
    ObjectionRefusal.NOT_SIGNED_BY_NODE: HTTPStatus.FORBIDDEN,
    ObjectionRefusal.SIGNATURE_UNCHECKED: HTTPStatus.SERVICE_UNAVAILABLE,
    ObjectionRefusal.NOT_MEMBER: HTTPStatus.NOT_FOUND,
    ObjectionRefusal.HOURLY_LIMIT: HTTPStatus.TOO_MANY_REQUESTS,
    ObjectionRefusal.DAILY_GAS: HTTPStatus.TOO_MANY_REQUESTS,
}

T = TypeVar("T", bound=Answer)


class Problem(BaseModel):
    """A problem document, which explains why a request has no answer."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no address of a node starts with 0xabc"])
    at: int = Field(description="Time of the error by the server's clock, in unix seconds.")
    found: list[str] | None = Field(
        None,
        description=(
            "All node addresses that start with the prefix in the request, if there are several."
        ),
    )
    refusal: str | None = Field(None, description="Why the posted objection was refused.")
    calldata: str | None = Field(
        None,
        description=(
            "Data of a call to the objections contract, which any account can send instead of "
            "this reporter."
        ),
    )


def build_problem_schema(status: HTTPStatus, description: str) -> dict[str, Any]:
    """Build the OpenAPI description of a problem document with this status."""
    content_schema = {_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "description": f"{status.phrase}: {description}",
        "content": content_schema,
        "model": Problem,
    }


# The error responses that every path may return.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    300: build_problem_schema(
        HTTPStatus.MULTIPLE_CHOICES, "several nodes match the prefix; see `found`."
    ),
    304: {"description": "The response named by `If-None-Match` is still current."},
    400: build_problem_schema(HTTPStatus.BAD_REQUEST, "the request is invalid; see `detail`."),
    404: build_problem_schema(HTTPStatus.NOT_FOUND, "no indexed event refers to it."),
    422: build_problem_schema(
        HTTPStatus.UNPROCESSABLE_ENTITY, "a parameter does not match the schema."
    ),
    429: {"description": "Too many requests from one address; retry later."},
    503: build_problem_schema(
        HTTPStatus.SERVICE_UNAVAILABLE, "nothing is indexed yet, or the database is unavailable."
    ),
}


def build_problem_response(
    status: int,
    detail: str,
    candidates: list[str] | None = None,
    headers: Mapping[str, str] | None = None,
    refused: ObjectionRefusedError | None = None,
) -> Response:
    """Build a response with a problem document and the given headers.

    `refused` is the error of a refused objection, whose reason is added as a code, or None.
    """
    problem = Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        at=int(unix_seconds()),
        found=candidates,
        refusal=None if refused is None else refused.refusal.value,
        calldata=None if refused is None else refused.calldata,
    )
    response_headers = {"cache-control": "no-store", **(headers or {})}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response_headers["retry-after"] = str(_RETRY_SECONDS)
    return JSONResponse(
        problem.model_dump(exclude_none=True), status, response_headers, _MEDIA_TYPE
    )


def build_problem_from_error(error: OracleError) -> Response:
    """Build a problem document for an error.

    The error's text is included only if it is meant for clients. Other texts may name a host or a
    file, so they are only logged.
    """
    if isinstance(error, AmbiguousPrefixError):
        return build_problem_response(HTTPStatus.MULTIPLE_CHOICES, str(error), error.candidates)
    if isinstance(error, NotFoundError):
        return build_problem_response(HTTPStatus.NOT_FOUND, str(error))
    if isinstance(error, RequestError):
        return build_problem_response(HTTPStatus.BAD_REQUEST, str(error))
    if isinstance(error, ObjectionRefusedError):
        status = _STATUS_BY_REFUSAL.get(error.refusal, HTTPStatus.CONFLICT)
        return build_problem_response(status, str(error), refused=error)
    if isinstance(error, NoNearbySnapshotError):
        return build_problem_response(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    return build_problem_response(
        HTTPStatus.SERVICE_UNAVAILABLE, "nothing is indexed yet, or the database cannot be read"
    )


def register_problem_handlers(app: FastAPI) -> None:
    """Make the framework return its own errors as problem documents."""

    @app.exception_handler(RequestValidationError)
    def _handle_invalid_request(_request: Request, error: RequestValidationError) -> Response:
        fault_text = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        return build_problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, fault_text)

    @app.exception_handler(HTTPException)
    def _handle_http_error(_request: Request, error: HTTPException) -> Response:
        return build_problem_response(error.status_code, str(error.detail), headers=error.headers)


class ApiAnswers:
    """The cached answers of the read API; thread-safe."""

    def __init__(self, source: ApiSource) -> None:
        self.source = source
        self._cache = AnswerCache(source, _CACHE_BYTES)
        self.get_fresh = self._cache.get_fresh_response
        self._flights = AnswerFlights(_MAX_CONCURRENT_ANSWERS)
        self._slow_flights = AnswerFlights(_MAX_CONCURRENT_SLOW_ANSWERS)
        self._faults = 0

    def answer_from_snapshot(self, request: Request, make: Callable[[ApiSnapshot], T]) -> Response:
        """Respond with an answer built from one snapshot of the database."""

        def make_answer() -> T:
            with open_snapshot(self.source) as snapshot:
                return make(snapshot)

        return self.answer_request(request, make_answer)

    def answer_request(
        self,
        request: Request,
        make: Callable[[], Answer],
        *,
        is_slow: bool | Callable[[], bool] = False,
    ) -> Response:
        """Respond with the result of `make`.

        Only one slow request is answered at a time. Errors are returned with status 300, 400, 404
        or 503; see `build_problem_from_error`.
        """
        make_response = (
            self._cache.get_or_make_response
            if request.method == "GET"
            else self._cache.make_uncached_response
        )
        try:
            needs_slow_slot = is_slow() if callable(is_slow) else is_slow
            flights = self._slow_flights if needs_slow_slot else self._flights
            response = make_response(request, lambda: _build_cached_response(make()), flights)
        except OracleError as error:
            self._log_hidden_error(error)
            return build_problem_from_error(error)
        overload_message = "too many concurrent requests; retry later"
        return response or build_problem_response(HTTPStatus.SERVICE_UNAVAILABLE, overload_message)

    def _log_hidden_error(self, error: OracleError) -> None:
        """Log the 1st, 2nd, 4th, 8th … error whose text is not in the response."""
        if build_problem_from_error(error).status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            return
        self._faults += 1
        if is_power_of_two(self._faults):
            get_logger().warning("read_api_unavailable", reason=str(error), in_all=self._faults)


def reject_unknown_parameters(request: Request) -> None:
    """Reject unknown query parameters, so that a misspelled filter is not ignored.

    Raises:
        RequestValidationError: some parameters are unknown; the error names them.
    """
    parameter_names: set[str] = set()
    for field in request.scope["route"].dependant.query_params:
        annotation = field.field_info.annotation
        is_model = isclass(annotation) and issubclass(annotation, BaseModel)
        parameter_names |= set(annotation.model_fields) if is_model else {field.alias}
    unknown_parameters = sorted(request.query_params.keys() - parameter_names)
    if unknown_parameters:
        raise RequestValidationError(
            [
                {"loc": ("query", name), "msg": "unknown query parameter"}
                for name in unknown_parameters
            ]
        )


def _build_cached_response(answer: Answer) -> CachedResponse:
    body = answer.model_dump_json().encode()
    return CachedResponse(Response(body, media_type="application/json"), answer.as_of)


@dataclass(frozen=True, slots=True)
class PostLimit:
    """The limits on posts to one path, for each client network and for all clients together.

    `detail` is the reason that refused clients get. Bodies longer than `max_body_bytes` are
    refused as well.
    """

    client_buckets: ClientBuckets
    common_bucket: TokenBucket
    detail: str
    max_body_bytes: int


class PostLimits:
    """ASGI middleware that refuses posts beyond their path's limit with status 413 or 429."""

    def __init__(self, app: ASGIApp, limit_by_path: Mapping[str, PostLimit]) -> None:
        self._app = app
        self._limit_by_path = limit_by_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request with a problem document, or else call the application."""
        limit = None
        if scope["type"] == "http" and scope["method"] == "POST":
            limit = self._limit_by_path.get(scope["path"])
        app = self._app if limit is None else self._choose_app(limit, scope)
        await app(scope, receive, send)

    def _choose_app(self, limit: PostLimit, scope: Scope) -> ASGIApp:
        if int(Headers(scope=scope).get("content-length", "0")) > limit.max_body_bytes:
            return build_problem_response(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"request body: expected at most {limit.max_body_bytes} bytes",
            )
        client = scope.get("client")
        client_address = "" if client is None else client[0]
        if limit.client_buckets.try_acquire(client_address) and limit.common_bucket.try_acquire():
            return self._app
        return build_problem_response(HTTPStatus.TOO_MANY_REQUESTS, limit.detail)
