"""The routes of the read API that return the leaves of rounds and reports as binary files."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from oracle.daemon.web.answer_cache import CACHE_FOREVER
from oracle.daemon.web.api.answering import ApiAnswers, build_problem_from_error
from oracle.errors import OracleError
from oracle.queries.answers import LARGEST_INTEGER
from oracle.queries.api.records.leaf_view import (
    FindLeaves,
    build_leaf_pieces,
    get_period_leaves,
    get_round_leaves,
    load_leaf_piece,
)
from oracle.queries.api.source import open_snapshot
from oracle.queries.leaf_models import LeavesAnswer

_NOT_MODIFIED = 304
_BINARY = "application/octet-stream"
_PIECE_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The encoded leaves, 128 bytes each, in the order of their seats.",
        "content": {_BINARY: {"schema": {"type": "string", "format": "binary"}}},
        "headers": {
            "x-ipfs-roots": {
                "description": "CIDv1 of the bytes: raw, SHA-256, base32.",
                "schema": {"type": "string"},
            }
        },
    }
}

_Number = Annotated[int, Path(ge=0, le=LARGEST_INTEGER)]


def build_leaf_routes(api_answers: ApiAnswers) -> APIRouter:
    """Return the router for the leaves of rounds and reports."""
    router = APIRouter(prefix="/v1", tags=["leaves"])

    @router.get(
        "/rounds/{number}/leaves", operation_id="round_leaves", response_model=LeavesAnswer
    )
    def _list_round_pieces(request: Request, number: _Number) -> Response:
        """Return the hashes that lead from the pieces of an accepted round to its root.

        404 if the round is not one of the last 256, or was accepted before the indexing reached
        the head of the chain.
        """
        return api_answers.answer_from_snapshot(
            request,
            lambda snapshot: build_leaf_pieces(snapshot, get_round_leaves(snapshot, number)),
        )

    @router.get(
        "/rounds/{number}/leaves/{piece}",
        operation_id="round_piece",
        responses=_PIECE_RESPONSE,
        response_class=Response,
    )
    def _get_round_piece(request: Request, number: _Number, piece: _Number) -> Response:
        """Return 8,192 leaves of an accepted round, byte for byte as they are hashed."""
        return _answer_piece(api_answers, request, get_round_leaves, number, piece)

    @router.get(
        "/reports/{period}/leaves", operation_id="report_leaves", response_model=LeavesAnswer
    )
    def _list_report_pieces(request: Request, period: _Number) -> Response:
        """Return the hashes of the pieces of a report that this reporter cut.

        The report may never be accepted, so its leaves prove nothing; `report diff` compares them
        with another reporter's. 404 if the report can no longer be accepted.
        """
        return api_answers.answer_from_snapshot(
            request,
            lambda snapshot: build_leaf_pieces(snapshot, get_period_leaves(snapshot, period)),
        )

    @router.get(
        "/reports/{period}/leaves/{piece}",
        operation_id="report_piece",
        responses=_PIECE_RESPONSE,
        response_class=Response,
    )
    def _get_report_piece(request: Request, period: _Number, piece: _Number) -> Response:
        """Return 8,192 leaves of a report that this reporter cut."""
        return _answer_piece(api_answers, request, get_period_leaves, period, piece)

    return router


def _answer_piece(
    api_answers: ApiAnswers, request: Request, find_leaves: FindLeaves, number: int, piece: int
) -> Response:
    try:
        with open_snapshot(api_answers.source) as snapshot:
            content = load_leaf_piece(snapshot, find_leaves, number, piece)
    except OracleError as error:
        return build_problem_from_error(error)
    tag = f'"{content.cid}"'
    headers = {
        "etag": tag,
        "x-ipfs-roots": content.cid,
        # The response must not be cached forever if a reorg may still replace the round.
        "cache-control": CACHE_FOREVER if content.is_final else "no-cache",
    }
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    return Response(content.leaves, headers=headers, media_type=_BINARY)
