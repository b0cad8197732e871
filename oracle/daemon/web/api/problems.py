"""Error responses of the read API: `application/problem+json` (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import OracleError
from oracle.indexer.folded_state import NoNearbySnapshotError
from oracle.queries.api.source import AmbiguousPrefixError, NotFoundError, RequestError

_MEDIA_TYPE = "application/problem+json"
_RETRY_SECONDS = 2


class Problem(BaseModel):
    """A problem document, with the reason why a request has no answer."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no address of a node starts with 0xabc"])
    at: int = Field(description="Unix seconds, by the server's clock.")
    found: list[str] | None = Field(None, description="The nodes that match an ambiguous prefix.")


def _describe_problem(status: HTTPStatus, description: str) -> dict[str, Any]:
    content = {_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": f"{status.phrase}: {description}", "content": content, "model": Problem}


# The error responses of every path.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    300: _describe_problem(
        HTTPStatus.MULTIPLE_CHOICES, "several nodes match the prefix; see `found`."
    ),
    304: {"description": "The response named by `If-None-Match` is still current."},
    400: _describe_problem(HTTPStatus.BAD_REQUEST, "the request is invalid; see `detail`."),
    404: _describe_problem(HTTPStatus.NOT_FOUND, "no indexed event refers to it."),
    422: _describe_problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, "a parameter does not match the schema."
    ),
    429: {"description": "Too many requests from one address; retry later."},
    503: _describe_problem(
        HTTPStatus.SERVICE_UNAVAILABLE, "nothing is indexed yet, or the database is unavailable."
    ),
}


def build_problem(
    status: int,
    detail: str,
    candidates: list[str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem document as a response; `headers` are added to the response's own."""
    body = Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        at=int(unix_seconds()),
        found=candidates,
    )
    response_headers = {"cache-control": "no-store", **(headers or {})}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response_headers["retry-after"] = str(_RETRY_SECONDS)
    return JSONResponse(body.model_dump(exclude_none=True), status, response_headers, _MEDIA_TYPE)


def build_problem_from_error(error: OracleError) -> Response:
    """Return the problem document of an error; only texts written for clients are shown.

    Other texts may name a host or a file, and are logged only.
    """
    if isinstance(error, AmbiguousPrefixError):
        return build_problem(HTTPStatus.MULTIPLE_CHOICES, str(error), error.candidates)
    if isinstance(error, NotFoundError):
        return build_problem(HTTPStatus.NOT_FOUND, str(error))
    if isinstance(error, RequestError):
        return build_problem(HTTPStatus.BAD_REQUEST, str(error))
    if isinstance(error, NoNearbySnapshotError):
        return build_problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    return build_problem(
        HTTPStatus.SERVICE_UNAVAILABLE, "nothing is indexed yet, or the database cannot be read"
    )


def register_problem_handlers(app: FastAPI) -> None:
    """Make the framework return its own errors as problem documents."""

    @app.exception_handler(RequestValidationError)
    def _handle_invalid_request(_request: Request, error: RequestValidationError) -> Response:
        fault_text = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        return build_problem(HTTPStatus.UNPROCESSABLE_ENTITY, fault_text)

    @app.exception_handler(HTTPException)
    def _handle_http_error(_request: Request, error: HTTPException) -> Response:
        return build_problem(error.status_code, str(error.detail), headers=error.headers)
