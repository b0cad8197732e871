"""Turns requests of the read API into responses, and errors into problem documents."""

from collections.abc import Callable
from http import HTTPStatus
from inspect import isclass
from typing import TypeVar

import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel

from oracle.daemon.web.answer_cache import AnswerCache, AnswerFlights, CachedResponse
from oracle.daemon.web.api.problems import build_problem, build_problem_from_error
from oracle.errors import OracleError
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSnapshot, ApiSource, open_snapshot
from oracle.telemetry.logging_setup import is_power_of_two

# Answers made at the same time: fewer than the database's read connections.
_MAX_CONCURRENT_ANSWERS = 6
# A fold from raw logs takes seconds of processor time.
_MAX_CONCURRENT_SLOW_ANSWERS = 1
_CACHE_BYTES = 64 * 2**20

T = TypeVar("T", bound=Answer)


class ApiAnswers:
    """The cached answers of the read API; thread-safe."""

    def __init__(self, source: ApiSource) -> None:
        self.source = source
        self._cache = AnswerCache(source, _CACHE_BYTES)
        self.get_fresh = self._cache.get_fresh
        self._flights, self._slow_flights = (
            AnswerFlights(_MAX_CONCURRENT_ANSWERS),
            AnswerFlights(_MAX_CONCURRENT_SLOW_ANSWERS),
        )
        self._faults = 0

    def answer_from_snapshot(self, request: Request, make: Callable[[ApiSnapshot], T]) -> Response:
        """Respond with an answer made from one snapshot of the database."""

        def make_answer() -> T:
            with open_snapshot(self.source) as snapshot:
                return make(snapshot)

        return self.answer_request(request, make_answer)

    def answer_request(
        self, request: Request, make: Callable[[], Answer], *, is_slow: bool = False
    ) -> Response:
        """Respond with the result of `make`; with `is_slow`, one request at a time.

        Errors are returned with status 300, 400, 404 or 503; see `build_problem_from_error`.
        """
        answer = self._cache.answer if request.method == "GET" else self._cache.answer_uncached
        flights = self._slow_flights if is_slow else self._flights
        try:
            response = answer(request, lambda: _build_cached_response(make()), flights)
        except OracleError as error:
            self._log_hidden_error(error)
            return build_problem_from_error(error)
        too_many = "too many concurrent requests; retry later"
        return response or build_problem(HTTPStatus.SERVICE_UNAVAILABLE, too_many)

    def _log_hidden_error(self, error: OracleError) -> None:
        """Log the 1st, 2nd, 4th … error whose text the response does not show."""
        if build_problem_from_error(error).status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            return
        self._faults += 1
        if is_power_of_two(self._faults):
            structlog.get_logger().warning(
                "read_api_unavailable", reason=str(error), in_all=self._faults
            )


def refuse_unknown_parameters(request: Request) -> None:
    """Reject unknown query parameters, because a misspelled filter would filter nothing.

    Raises:
        RequestValidationError: some parameters are unknown; the error names them.
    """
    parameter_names: set[str] = set()
    for field in request.scope["route"].dependant.query_params:
        annotation = field.field_info.annotation
        is_model = isclass(annotation) and issubclass(annotation, BaseModel)
        parameter_names |= set(annotation.model_fields) if is_model else {field.alias}
    unknown = sorted(request.query_params.keys() - parameter_names)
    if unknown:
        raise RequestValidationError(
            [{"loc": ("query", name), "msg": "unknown query parameter"} for name in unknown]
        )


def _build_cached_response(answer: Answer) -> CachedResponse:
    body = answer.model_dump_json().encode()
    return CachedResponse(Response(body, media_type="application/json"), answer.as_of)
