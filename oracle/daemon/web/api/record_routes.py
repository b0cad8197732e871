"""The routes of the read API for tasks, rounds, leaves, kickouts, draws, rules and status.

Leaves are returned as binary files.
"""

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from oracle.daemon.web.answer_cache import CACHE_FOREVER
from oracle.daemon.web.api.answering import (
    ApiAnswers,
    build_problem_from_error,
    build_problem_response,
)
from oracle.daemon.web.api.input_types import HashPath, NodePath, WantedTask
from oracle.domain.events.jsonl import parse_task_request
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.errors import OracleError
from oracle.queries.answers import LARGEST_INTEGER
from oracle.queries.api.network_view import build_public_status
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.records.draw_view import (
    DrawnAgain,
    DrawPage,
    SelectionAnswer,
    TaskDraws,
    build_selection_answer,
    list_draws,
    list_task_draws,
    recompute_task_draw,
)
from oracle.queries.api.records.kickout_view import (
    KickoutPage,
    get_accusation_evidence,
    list_kickouts,
)
from oracle.queries.api.records.leaf_view import (
    FindLeaves,
    build_leaf_pieces,
    compute_content_id,
    get_period_leaves,
    get_round_leaves,
    load_leaf_piece,
)
from oracle.queries.api.records.objection_view import (
    NodeObjections,
    ObjectionPage,
    list_node_objections,
    list_objections,
)
from oracle.queries.api.records.round_view import (
    RoundAnswer,
    RoundPage,
    SignersAnswer,
    build_round_answer,
    list_rounds,
    list_signers,
)
from oracle.queries.api.records.task_view import (
    GroupAnswer,
    TaskAnswer,
    build_group_answer,
    build_task_answer,
)
from oracle.queries.api.rules_history import (
    AnnouncedRules,
    RulesAnswer,
    RulesHistory,
    build_announced_rules,
    build_rules_answer,
    build_rules_history,
)
from oracle.queries.api.rules_preview_view import RulesPreviews, build_rules_previews
from oracle.queries.api.source import open_snapshot
from oracle.queries.incident_models import IncidentPage, list_incidents
from oracle.queries.leaf_models import LeavesAnswer
from oracle.queries.status_models import PublicStatus

_UNPROCESSABLE = 422

RowLimit = Annotated[int, Query(ge=1, le=200)]
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


def build_record_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router for single records."""
    router = APIRouter(prefix="/v1", tags=["records"])

    @router.get("/tasks/{task}", operation_id="task", response_model=TaskAnswer)
    def _get_task(request: Request, task: HashPath) -> Response:
        """Return the history and the score of a task."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: build_task_answer(snapshot, TaskKey(task))
        )

    @router.get("/groups/{group}", operation_id="group", response_model=GroupAnswer)
    def _get_group(request: Request, group: HashPath) -> Response:
        """Return the members, ranks, times and scores of a group."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: build_group_answer(snapshot, GroupKey(group))
        )

    @router.get("/rounds", operation_id="rounds", response_model=RoundPage)
    def _list_rounds(
        request: Request,
        before: Annotated[int | None, Query(ge=0, le=LARGEST_INTEGER)] = None,
        limit: RowLimit = 50,
    ) -> Response:
        """List the rounds that the oracle contract accepted, newest first."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: list_rounds(snapshot, before, limit)
        )

    @router.get("/rounds/{number}", operation_id="round", response_model=RoundAnswer)
    def _get_round(
        request: Request, number: Annotated[int, Path(ge=0, le=LARGEST_INTEGER)]
    ) -> Response:
        """Return one round with its root and signers; its leaves have a separate route."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: build_round_answer(snapshot, number)
        )

    @router.get("/signers", operation_id="signers", response_model=SignersAnswer)
    def _list_signers(request: Request) -> Response:
        """List the signers of the oracle contract, and which of the newest rounds they signed."""
        return api_answers.answer_from_snapshot(request, list_signers)

    @router.get("/incidents", operation_id="incidents", response_model=IncidentPage)
    def _list_incidents(
        request: Request,
        before: Annotated[int | None, Query(ge=0, le=LARGEST_INTEGER)] = None,
        limit: RowLimit = 50,
    ) -> Response:
        """List suspected application bursts and network outages, newest first."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: list_incidents(snapshot.uow, snapshot.as_of, before, limit)
        )

    return router


def build_kickout_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router for kickouts and objections."""
    router = APIRouter(prefix="/v1", tags=["records"])

    @router.get("/kickouts", operation_id="kickouts", response_model=KickoutPage)
    def _list_kickouts(request: Request) -> Response:
        """List the due kickouts, and the newest kickouts in the contract."""
        return api_answers.answer_from_snapshot(request, list_kickouts)

    @router.get("/objections", operation_id="objections", response_model=ObjectionPage)
    def _list_objections(request: Request, limit: RowLimit = 50) -> Response:
        """List the newest objections of nodes to their kickouts, with checks and answers."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: list_objections(snapshot, limit)
        )

    @router.get(
        "/objections/{node}", operation_id="node_objections", response_model=NodeObjections
    )
    def _list_node_objections(request: Request, node: NodePath) -> Response:
        """List up to fifty objections of a node, newest first."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: list_node_objections(snapshot, node)
        )

    return router


def build_draw_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router for draws."""
    router = APIRouter(prefix="/v1", tags=["records"])

    @router.get("/draws", operation_id="draws", response_model=DrawPage)
    def _list_draws(request: Request, limit: RowLimit = 50) -> Response:
        """List the active draws, and the newest inactive draws."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: list_draws(snapshot, limit)
        )

    @router.get("/draws/{task}", operation_id="task_draws", response_model=TaskDraws)
    def _list_draws_of_task(request: Request, task: HashPath) -> Response:
        """List all draws of one task."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: list_task_draws(snapshot, TaskKey(task))
        )

    @router.get("/draws/{task}/again", operation_id="draw_again", response_model=DrawnAgain)
    def _draw_again(
        request: Request,
        task: HashPath,
        seed_block: Annotated[
            int | None,
            Query(
                ge=0,
                le=LARGEST_INTEGER,
                description="Seed block of the draw; the default is the newest draw.",
            ),
        ] = None,
    ) -> Response:
        """Return all inputs of a draw, so that anyone can repeat it.

        Candidates and weights are folded again, for one request at a time; other requests get 503
        meanwhile.
        """
        source = api_answers.source
        return api_answers.answer_request(
            request, lambda: recompute_task_draw(source, TaskKey(task), seed_block), is_slow=True
        )

    return router


def build_rule_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router for the rules and the oracle's status."""
    router = APIRouter(prefix="/v1", tags=["state"])

    @router.get("/rules", operation_id="rules", response_model=RulesAnswer)
    def _get_rules(request: Request) -> Response:
        """Return every parameter of the scoring rules, with its meaning and source."""
        return api_answers.answer_from_snapshot(request, build_rules_answer)

    @router.get("/rules/history", operation_id="rules_history", response_model=RulesHistory)
    def _get_rules_history(request: Request) -> Response:
        """List announced, cancelled and executed changes of the contract's rules, newest first."""
        return api_answers.answer_from_snapshot(request, build_rules_history)

    @router.get("/rules/previews", operation_id="rules_previews", response_model=RulesPreviews)
    def _get_rules_previews(request: Request) -> Response:
        """Return how announced and shadow rules would change the network."""
        return api_answers.answer_from_snapshot(request, build_rules_previews)

    @router.get("/rules/{hash}", operation_id="announced_rules", response_model=AnnouncedRules)
    def _get_announced_rules(
        request: Request, rules_hash: Annotated[HashPath, Path(alias="hash")]
    ) -> Response:
        """Return the rules with this hash, if this host has them."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: build_announced_rules(snapshot, Hash(rules_hash))
        )

    @router.get("/status", operation_id="status", response_model=PublicStatus)
    def _get_status(request: Request) -> Response:
        """Return the health status and its reasons."""
        return api_answers.answer_from_snapshot(request, build_public_status)

    @router.post("/select", operation_id="select", response_model=SelectionAnswer)
    def _select_nodes(request: Request, task: WantedTask) -> Response:
        """Return the candidates for a task, with weights and probabilities; no node is drawn."""
        try:
            task_request = parse_task_request(task.model_dump_json(exclude_none=True))
        except ValueError as error:
            return build_problem_response(_UNPROCESSABLE, str(error))
        return api_answers.answer_request(
            request, lambda: build_selection_answer(api_answers.source, task_request)
        )

    return router


def build_evidence_routes(
    api_answers: ApiAnswers, read_evidence: Callable[[Address, int], str | None]
) -> APIRouter:
    """Build the router for the evidence endpoint.

    `read_evidence` returns the evidence file for a node and the start of an interval.
    """
    router = APIRouter(prefix="/v1", tags=["records"])

    @router.get(
        "/kickouts/{node}/evidence",
        operation_id="evidence",
        responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    def _get_evidence(node: NodePath) -> Response:
        """Return the evidence behind a node's newest accusation.

        The header `x-sha256` is the hash of the bytes.
        """
        try:
            with open_snapshot(api_answers.source) as snapshot:
                address = find_node_by_prefix(snapshot, node).address
                due_since, evidence_json = get_accusation_evidence(
                    snapshot, address, read_evidence
                )
        except OracleError as error:
            return build_problem_from_error(error)
        evidence_bytes = evidence_json.encode()
        headers = {
            "content-disposition": f'attachment; filename="{address}-{due_since}.json"',
            "x-sha256": hashlib.sha256(evidence_bytes).hexdigest(),
            "cache-control": "no-cache",
        }
        return Response(evidence_bytes, headers=headers, media_type="application/json")

    return router


def build_leaf_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router for the leaves of rounds and reports."""
    router = APIRouter(prefix="/v1", tags=["leaves"])

    @router.get(
        "/rounds/{number}/leaves", operation_id="round_leaves", response_model=LeavesAnswer
    )
    def _list_round_pieces(request: Request, number: _Number) -> Response:
        """Return the hashes that lead from an accepted round's pieces to its root.

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
        """Return 8,192 leaves of an accepted round, exactly as they are hashed."""
        return _answer_piece(api_answers, request, get_round_leaves, number, piece)

    @router.get(
        "/reports/{period}/leaves", operation_id="report_leaves", response_model=LeavesAnswer
    )
    def _list_report_pieces(request: Request, period: _Number) -> Response:
        """Return the hashes of the pieces of a report built by this reporter.

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
        """Return 8,192 leaves of a report built by this reporter."""
        return _answer_piece(api_answers, request, get_period_leaves, period, piece)

    return router


def _answer_piece(
    api_answers: ApiAnswers, request: Request, find_leaves: FindLeaves, number: int, piece: int
) -> Response:
    try:
        with open_snapshot(api_answers.source) as snapshot:
            leaves, is_final = load_leaf_piece(snapshot, find_leaves, number, piece)
    except OracleError as error:
        return build_problem_from_error(error)
    content_id = compute_content_id(leaves)
    etag = f'"{content_id}"'
    headers = {
        "etag": etag,
        "x-ipfs-roots": content_id,
        # A round is not cached forever while a reorg may still replace it.
        "cache-control": CACHE_FOREVER if is_final else "no-cache",
    }
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    return Response(leaves, headers=headers, media_type=_BINARY)
