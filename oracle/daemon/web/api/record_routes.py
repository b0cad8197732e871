"""Single records and current state: tasks, rounds, kickouts, draws, rules, health."""

import hashlib
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator

from oracle.chain.hex_names import HASH_DIGITS, parse_address, parse_hash
from oracle.daemon.web.api.answering import ApiAnswers
from oracle.daemon.web.api.input_types import HashPath
from oracle.daemon.web.api.problems import problem, problem_of
from oracle.daemon.web.api.wanted_task import WantedTask
from oracle.domain.events.jsonl import parse_wanted_task
from oracle.domain.ids import GroupKey, Hash, TaskKey
from oracle.errors import OracleError
from oracle.queries.answers import LARGEST_INTEGER
from oracle.queries.api.records.draw_view import DrawPage, TaskDraws, draws, draws_of
from oracle.queries.api.records.drawn_again import DrawnAgain, drawn_again
from oracle.queries.api.records.kickout_view import KickoutPage, evidence_file, kickouts
from oracle.queries.api.records.round_view import RoundAnswer, RoundPage, round_view, rounds
from oracle.queries.api.records.task_view import GroupAnswer, TaskAnswer, group_view, task_view
from oracle.queries.api.rule_view import RulesAnswer, rules_view
from oracle.queries.api.selection_view import SelectionAnswer, selection_view
from oracle.queries.api.source import looking
from oracle.queries.api.status_view import status_view
from oracle.queries.status_models import PublicStatus

_UNPROCESSABLE = 422
_FOR_EVER = "public, max-age=31536000, immutable"

Rows = Annotated[int, Query(ge=1, le=200)]


def _parse_address_or_hash(text: str) -> str:
    """Return the text in lower case. Raises HexNameError: invalid, or a wrong checksum."""
    is_hash = len(text) == len("0x") + HASH_DIGITS
    return parse_hash(text) if is_hash else parse_address(text)


def record_routes(answering: ApiAnswers) -> APIRouter:
    """Return the router of single records."""
    web = APIRouter(prefix="/v1", tags=["records"])

    @web.get("/tasks/{task}", operation_id="task", response_model=TaskAnswer)
    def _task(request: Request, task: HashPath) -> Response:
        """The history of a task, and its score."""
        return answering.look(request, lambda look: task_view(look, TaskKey(task)))

    @web.get("/groups/{group}", operation_id="group", response_model=GroupAnswer)
    def _group(request: Request, group: HashPath) -> Response:
        """Members, ranks, times and scores of a group."""
        return answering.look(request, lambda look: group_view(look, GroupKey(group)))

    @web.get("/rounds", operation_id="rounds", response_model=RoundPage)
    def _rounds(
        request: Request,
        before: Annotated[int | None, Query(ge=0, le=LARGEST_INTEGER)] = None,
        limit: Rows = 50,
    ) -> Response:
        """Rounds that the oracle contract accepted, newest first."""
        return answering.look(request, lambda look: rounds(look, before, limit))

    @web.get("/rounds/{number}", operation_id="round", response_model=RoundAnswer)
    def _round(
        request: Request, number: Annotated[int, Path(ge=0, le=LARGEST_INTEGER)]
    ) -> Response:
        """One round, lane by lane, as the contract hashed it."""
        return answering.look(request, lambda look: round_view(look, number))

    @web.get("/kickouts", operation_id="kickouts", response_model=KickoutPage)
    def _kickouts(request: Request) -> Response:
        """Kickouts that are due, and those that were proposed on chain."""
        return answering.look(request, kickouts)

    return web


def draw_routes(answering: ApiAnswers) -> APIRouter:
    """Return the router of draws."""
    web = APIRouter(prefix="/v1", tags=["records"])

    @web.get("/draws", operation_id="draws", response_model=DrawPage)
    def _draws(request: Request, limit: Rows = 50) -> Response:
        """Active draws, and the newest inactive ones."""
        return answering.look(request, lambda look: draws(look, limit))

    @web.get("/draws/{task}", operation_id="task_draws", response_model=TaskDraws)
    def _draws_of(request: Request, task: HashPath) -> Response:
        """All draws of one task."""
        return answering.look(request, lambda look: draws_of(look, TaskKey(task)))

    @web.get("/draws/{task}/again", operation_id="draw_again", response_model=DrawnAgain)
    def _draw_again(
        request: Request,
        task: HashPath,
        seed_block: Annotated[
            int | None, Query(ge=0, le=LARGEST_INTEGER, description="Of which.")
        ] = None,
    ) -> Response:
        """All inputs of a draw, so that anyone can repeat it.

        Candidates and weights are folded again, one request at a time: 503 while another runs.
        """
        source = answering.source
        return answering.make(
            request, lambda: drawn_again(source, TaskKey(task), seed_block), is_slow=True
        )

    return web


def rule_routes(answering: ApiAnswers) -> APIRouter:
    """Return the router of the rules and of the oracle's status."""
    web = APIRouter(prefix="/v1", tags=["state"])

    @web.get("/rules", operation_id="rules", response_model=RulesAnswer)
    def _rules(request: Request) -> Response:
        """Every parameter of the scoring rules, with its meaning and source."""
        return answering.look(request, rules_view)

    @web.get("/status", operation_id="status", response_model=PublicStatus)
    def _status(request: Request) -> Response:
        """The health status and its reasons."""
        return answering.look(request, status_view)

    @web.post("/select", operation_id="select", response_model=SelectionAnswer)
    def _select(request: Request, task: WantedTask) -> Response:
        """The candidates for a task, with their weights and probabilities; no node is drawn."""
        try:
            said = parse_wanted_task(task.model_dump_json(exclude_none=True))
        except ValueError as error:
            return problem(_UNPROCESSABLE, str(error))
        return answering.make(request, lambda: selection_view(answering.source, said))

    return web


def evidence_routes(answering: ApiAnswers, read: Callable[[Hash], str | None]) -> APIRouter:
    """Return the router of evidence; `read_evidence` returns the text of a file by its name."""
    web = APIRouter(prefix="/v1", tags=["records"])

    @web.get(
        "/kickouts/{name}/evidence",
        operation_id="evidence",
        responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    def _evidence(
        name: Annotated[
            str,
            Path(pattern="^0[xX]([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"),
            AfterValidator(_parse_address_or_hash),
        ],
    ) -> Response:
        """The evidence of a kickout, byte for byte as it was hashed.

        Addressed by the node's address, or by the hash of the evidence; `x-sha256` is the hash of
        the bytes.
        """
        try:
            with looking(answering.source) as look:
                named, text = evidence_file(look, name, read)
        except OracleError as error:
            return problem_of(error)
        content = text.encode()
        headers = {
            "content-disposition": f'attachment; filename="{named}.json"',
            "x-sha256": hashlib.sha256(content).hexdigest(),
            "cache-control": _FOR_EVER if name == named else "no-cache",
        }
        return Response(content, headers=headers, media_type="application/json")

    return web
