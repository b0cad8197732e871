"""The routes `/v1/network` and `/v1/nodes`, for the state of the network and its nodes."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from oracle.chain.hex_names import parse_address
from oracle.daemon.web.api.answering import ApiAnswers
from oracle.daemon.web.api.input_types import AddressPrefixInput, NodePath
from oracle.domain.scoring.node_figures import NodeState
from oracle.queries.advice.advice_record import load_advice_record
from oracle.queries.advice.node_advice import NodeAdvice, build_node_advice
from oracle.queries.answers import LARGEST_INTEGER
from oracle.queries.api.network_view import NetworkAnswer, build_network_overview
from oracle.queries.api.node_history import HistoryQuery, NodeHistory, build_node_history
from oracle.queries.api.node_list import MAX_ROWS, NodeListQuery, find_node_by_prefix, list_nodes
from oracle.queries.api.node_order import NodeSort
from oracle.queries.api.node_proof import (
    BundleAnswer,
    ProofAnswer,
    build_bundle_answer,
    build_proof_answer,
    is_refold_required,
)
from oracle.queries.api.node_view import (
    ExplanationAnswer,
    NodeView,
    build_node_explanation,
    build_node_view,
)
from oracle.queries.api.records.node_past import NodePast, build_node_past
from oracle.queries.api.rules_preview_view import NodePreviews, build_node_previews
from oracle.queries.api.source import open_snapshot
from oracle.queries.node_models import NodePage

RoundQuery = Annotated[
    int | None,
    Query(
        ge=1,
        le=LARGEST_INTEGER,
        alias="round",
        description="Default: the newest accepted round.",
    ),
]
_MAX_ADDRESSES = 200
_ADDRESS_LENGTH = 42


def _parse_addresses(text: str) -> str:
    """Parse comma-separated addresses to lower case; raise HexNameError if one is invalid."""
    return ",".join(parse_address(address) for address in text.split(","))


class NodeListParameters(BaseModel):
    """The query parameters of the node list."""

    model_config = ConfigDict(extra="forbid")

    sort: NodeSort = Field(
        "qos", description="Sort order, best first; a leading minus reverses it."
    )
    state: NodeState | None = Field(None, description="Only nodes in this state.")
    prefix: AddressPrefixInput | None = Field(
        None, description="Only nodes whose address starts with these digits."
    )
    gpu: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="Only nodes whose GPU name contains this text, in any letter case.",
    )
    of: Annotated[str, AfterValidator(_parse_addresses)] | None = Field(
        None,
        pattern=r"^0[xX][0-9a-fA-F]{40}(,0[xX][0-9a-fA-F]{40})*$",
        max_length=_MAX_ADDRESSES * (_ADDRESS_LENGTH + 1),
        description="Only these nodes: up to 200 comma-separated addresses.",
    )
    cursor: str | None = Field(
        None,
        pattern="^[A-Za-z0-9_-]{1,400}$",
        description="The value of `next` in the previous page.",
    )
    limit: int = Field(100, ge=1, le=MAX_ROWS)


def build_node_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router for the read-only node paths."""
    router = APIRouter(prefix="/v1", tags=["nodes"])

    @router.get("/network", operation_id="network", response_model=NetworkAnswer)
    def _get_network(
        request: Request, span: Annotated[Literal["1h", "24h", "7d"], Query()] = "24h"
    ) -> Response:
        """Return the network's totals, score distribution, activity and open operator actions."""
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: build_network_overview(snapshot, span)
        )

    @router.get("/nodes", operation_id="nodes", response_model=NodePage)
    def _list_nodes(
        request: Request, parameters: Annotated[NodeListParameters, Query()]
    ) -> Response:
        """Return all nodes in pages, in the requested order.

        As of one block, the pages repeat no node and omit none; `moved` means that the block has
        changed since the previous page.
        """
        addresses = frozenset() if parameters.of is None else frozenset(parameters.of.split(","))
        query = NodeListQuery(**parameters.model_dump(exclude={"of"}), of=addresses)
        return api_answers.answer_from_snapshot(
            request, lambda snapshot: list_nodes(snapshot, query)
        )

    @router.get("/nodes/{node}", operation_id="node", response_model=NodeView)
    def _get_node(request: Request, node: NodePath) -> Response:
        """Return one node: its scores, rank, and margins to exclusion and kickout."""
        return api_answers.answer_from_snapshot(
            request,
            lambda snapshot: build_node_view(snapshot, find_node_by_prefix(snapshot, node)),
        )

    @router.get("/nodes/{node}/advice", operation_id="node_advice", response_model=NodeAdvice)
    def _get_advice(request: Request, node: NodePath) -> Response:
        """Return what to expect for a node, and what would change it."""
        return api_answers.answer_from_snapshot(
            request,
            lambda snapshot: build_node_advice(
                snapshot, load_advice_record(snapshot, find_node_by_prefix(snapshot, node))
            ),
        )

    @router.get("/nodes/{node}/rules", operation_id="node_rules", response_model=NodePreviews)
    def _get_node_previews(request: Request, node: NodePath) -> Response:
        """Return a node's standing under the rules in force, announced rules and shadow rules."""
        return api_answers.answer_from_snapshot(
            request,
            lambda snapshot: build_node_previews(
                snapshot, find_node_by_prefix(snapshot, node).address
            ),
        )

    @router.get("/nodes/{node}/history", operation_id="node_history", response_model=NodeHistory)
    def _get_history(
        request: Request, node: NodePath, query: Annotated[HistoryQuery, Query()]
    ) -> Response:
        """Return QoS, long-term score and reliability over time, with at most 2,000 points."""
        return api_answers.answer_from_snapshot(
            request,
            lambda snapshot: build_node_history(
                snapshot, find_node_by_prefix(snapshot, node).address, query
            ),
        )

    @router.get("/nodes/{node}/past", operation_id="node_past", response_model=NodePast)
    def _get_past(request: Request, node: NodePath) -> Response:
        """Return a node's membership events, on-chain updates and draws."""
        return api_answers.answer_from_snapshot(
            request,
            lambda snapshot: build_node_past(
                snapshot, find_node_by_prefix(snapshot, node).address
            ),
        )

    return router


def build_explanation_routes(api_answers: ApiAnswers) -> APIRouter:
    """Build the router for the paths that explain or prove a node's score."""
    router = APIRouter(prefix="/v1", tags=["nodes"])

    @router.get("/nodes/{node}/proof", operation_id="node_proof", response_model=ProofAnswer)
    def _prove_node(
        request: Request,
        node: NodePath,
        round_number: RoundQuery = None,
    ) -> Response:
        """Return the Merkle proof of a node's score in an accepted round.

        For a full address without a node, return the proof that it has no score. A round that is
        not one of the last 256 is folded again, for one request at a time; other requests for such
        rounds get 503 meanwhile.
        """
        source = api_answers.source
        return api_answers.answer_request(
            request,
            lambda: build_proof_answer(source, node, round_number),
            is_slow=lambda: is_refold_required(source, round_number),
        )

    @router.get("/nodes/{node}/bundle", operation_id="node_bundle", response_model=BundleAnswer)
    def _get_bundle(request: Request, node: NodePath, round_number: RoundQuery = None) -> Response:
        """Return all data for checking a node's scores in a round elsewhere.

        The page `/verify` reads it. One bundle is made at a time; other requests get 503
        meanwhile.
        """
        source = api_answers.source
        return api_answers.answer_request(
            request, lambda: build_bundle_answer(source, node, round_number), is_slow=True
        )

    @router.get("/nodes/{node}/explain", operation_id="explain", response_model=ExplanationAnswer)
    def _explain_node(
        request: Request,
        node: NodePath,
        at: Annotated[
            int | None, Query(ge=0, le=LARGEST_INTEGER, description="Block number.")
        ] = None,
    ) -> Response:
        """Return every number behind a score, each with its log and transaction.

        The score of an earlier block is folded again, for one request at a time; other requests
        get 503 meanwhile.
        """

        def make_explanation() -> ExplanationAnswer:
            with open_snapshot(api_answers.source) as snapshot:
                address = find_node_by_prefix(snapshot, node).address
            return build_node_explanation(api_answers.source, address, at)

        return api_answers.answer_request(request, make_explanation, is_slow=at is not None)

    return router
