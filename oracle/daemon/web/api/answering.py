"""Makes answers once a block, whoever asks: bytes kept by question, a repeated one is a 304."""

import gzip
import threading
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from inspect import isclass
from itertools import count
from typing import NamedTuple, TypeVar

import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel

from oracle.daemon.web.api.problems import problem, problem_of
from oracle.daemon.web.single_flight import SingleFlight
from oracle.errors import OracleError
from oracle.queries.api.answers import Answer
from oracle.queries.api.source import ApiLook, ApiSource, looking
from oracle.telemetry.logging_setup import is_power_of_two

# Answers made at the same time: fewer than the reading connections there are; and how long one
# that another makes is waited for.
_SEATS, _PATIENCE_SECONDS = 6, 5.0
# A fold from raw logs takes seconds of a processor.
_SLOW_SEATS = 1
_CACHE_BYTES = 64 * 2**20
_LEAST_COMPRESSED = 1_000
_GZIP_LEVEL = 5
# The index may stand still: the lag that an answer tells is never older than this.
_LAG_STEP_SECONDS = 30

T = TypeVar("T", bound=Answer)


class _Made(NamedTuple):
    tag: str
    plain: bytes
    packed: bytes | None


class ApiAnswers:
    """Turns questions into responses; any thread may ask."""

    def __init__(self, source: ApiSource) -> None:
        self.source = source
        self._flights = SingleFlight[_Made](_SEATS, _PATIENCE_SECONDS)
        self._slow_flights = SingleFlight[_Made](_SLOW_SEATS, _PATIENCE_SECONDS)
        self._posts = count()
        self._kept: OrderedDict[str, _Made] = OrderedDict()
        self._kept_bytes = 0
        self._lock = threading.Lock()
        self._faults = 0

    def look(self, request: Request, make: Callable[[ApiLook], T]) -> Response:
        """Answer from one snapshot of the database."""

        def made() -> T:
            with looking(self.source) as look:
                return make(look)

        return self.make(request, made)

    def make(
        self, request: Request, make: Callable[[], Answer], *, is_slow: bool = False
    ) -> Response:
        """Answer with what `make` returns; `is_slow`: one at a time.

        300, 400, 404, 503: as `problem_of` says.
        """
        flights = self._slow_flights if is_slow else self._flights
        try:
            return self._answered(request, make, flights)
        except OracleError as error:
            self._note(error)
            return problem_of(error)

    def _answered(
        self, request: Request, make: Callable[[], Answer], flights: SingleFlight[_Made]
    ) -> Response:
        with looking(self.source) as look:
            tag = _tag(look.as_of.epoch, look.as_of.lag_seconds)
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=_headers(tag))
        question = f"{request.method} {request.url.path}?{request.url.query}"
        if request.method == "GET":
            made = self._known(question, tag) or flights.fly(
                question, lambda: self._kept_anew(question, make)
            )
        else:
            # What is asked stands in its body: nobody else asks the same.
            made = flights.fly(f"{question} {next(self._posts)}", lambda: _written(make()))
        if made is None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many are answered right now")
        headers = _headers(made.tag)
        if made.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(made.packed, headers=headers, media_type="application/json")
        return Response(made.plain, headers=headers, media_type="application/json")

    def _kept_anew(self, question: str, make: Callable[[], Answer]) -> _Made:
        made = _written(make())
        self._keep(question, made)
        return made

    def _known(self, question: str, tag: str) -> _Made | None:
        with self._lock:
            made = self._kept.get(question)
            if made is None or made.tag != tag:
                return None
            self._kept.move_to_end(question)
            return made

    def _keep(self, question: str, made: _Made) -> None:
        with self._lock:
            self._forget(question)
            self._kept[question] = made
            self._kept_bytes += _size(question, made)
            while self._kept_bytes > _CACHE_BYTES:
                self._forget(next(iter(self._kept)))

    def _forget(self, question: str) -> None:
        gone = self._kept.pop(question, None)
        if gone is not None:
            self._kept_bytes -= _size(question, gone)

    def _note(self, error: OracleError) -> None:
        """Tell the 1st, 2nd, 4th … time what the answer keeps to itself."""
        if problem_of(error).status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            return
        self._faults += 1
        if is_power_of_two(self._faults):
            structlog.get_logger().warning(
                "read_api_unanswered", reason=str(error), in_all=self._faults
            )


def refuse_unknown_names(request: Request) -> None:
    """Refuse a query that the path does not know: a misspelled filter would filter nothing.

    Raises:
        RequestValidationError: which ones.
    """
    known: set[str] = set()
    for field in request.scope["route"].dependant.query_params:
        kind = field.field_info.annotation
        is_model = isclass(kind) and issubclass(kind, BaseModel)
        known |= set(kind.model_fields) if is_model else {field.alias}
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        raise RequestValidationError(
            [{"loc": ("query", name), "msg": "is not a parameter here"} for name in unknown]
        )


def _tag(epoch: int, lag_seconds: int) -> str:
    """Return the weak entity tag of everything that is said at a cursor."""
    return f'W/"{epoch}-{lag_seconds // _LAG_STEP_SECONDS}"'


def _headers(tag: str) -> dict[str, str]:
    return {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}


def _written(answer: Answer) -> _Made:
    plain = answer.model_dump_json().encode()
    packed = None
    if len(plain) >= _LEAST_COMPRESSED:
        packed = gzip.compress(plain, _GZIP_LEVEL, mtime=0)
    return _Made(_tag(answer.as_of.epoch, answer.as_of.lag_seconds), plain, packed)


def _size(question: str, made: _Made) -> int:
    return len(question) + len(made.plain) + len(made.packed or b"")
