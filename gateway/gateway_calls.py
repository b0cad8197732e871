"""Handlers for the service's HTTP paths.

Their return values are encoded as JSON. Times are in milliseconds since 1970, latencies in
milliseconds, and rates from 0 to 1.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from gateway import gateway_metrics
from gateway.request_bodies import (
    SelectBody,
    parse_outcomes,
    parse_ranking_body,
    parse_select_body,
)
from gateway.selection_service import SelectionService
from gateway.session_selector import NodeSelection, SelectionRequest
from oracle import __version__
from oracle.systems.pocket.ranking import NodeStats, RankedNode, format_ticket_explanation


class NotReadyResponse(NamedTuple):
    """The health response of a service that cannot write its records."""

    payload: dict[str, object]


class AcceptedBatch(NamedTuple):
    """A batch that already counts in memory.

    `stored` resolves when the batch is written.
    """

    payload: dict[str, int]
    stored: "Future[bool]"


class GatewayCalls:
    """The handlers for all paths.

    `GatewayApp` turns results and errors into responses.
    """

    def __init__(self, service: SelectionService, clock: Callable[[], int]) -> None:
        self._service = service
        self._clock = clock

    def record_outcomes(self, body: bytes) -> AcceptedBatch:
        """Add a batch of outcomes to the statistics.

        If an outcome is invalid, none is added.
        """
        service = self._service
        outcome_counts = service.record_outcomes(
            parse_outcomes(body, self._clock(), service.rules.max_ahead_ms)
        )
        for label, count in zip(outcome_counts._fields, outcome_counts, strict=True):
            gateway_metrics.OUTCOMES.labels(label).inc(count)
        return AcceptedBatch(outcome_counts._asdict(), service.create_stored_future())

    def select_nodes(self, body: bytes) -> dict[str, object]:
        """Draw nodes for a relay of a session."""
        select_body = parse_select_body(body)
        request = SelectionRequest(
            select_body.chain,
            select_body.session,
            tuple(select_body.candidates),
            select_body.n,
            tuple(select_body.exclude),
        )
        selection = self._service.select_nodes(request)
        gateway_metrics.SELECTIONS.labels(_get_selection_label(selection)).inc()
        return _build_selection_payload(selection, select_body)

    def get_ranking(self, body: bytes) -> dict[str, object]:
        """Return tickets and a seed, so that a client can draw nodes itself for a while."""
        ranking_body = parse_ranking_body(body)
        request = SelectionRequest(
            ranking_body.chain, ranking_body.session, tuple(ranking_body.candidates)
        )
        session_ranking, seed = self._service.get_ranking_and_seed(request)
        return {
            "chances": session_ranking.chances,
            "degraded": session_ranking.degraded,
            "left_out": session_ranking.ranking.left_out,
            "as_of_ms": session_ranking.as_of,
            "ranking_id": session_ranking.id,
            "seed": seed.hex(),
            "valid_ms": max(500, self._service.rules.ranking_ms),
        }

    def list_checks(self, _body: bytes) -> dict[str, object]:
        """Return the check results of each node, grouped by chain."""
        now = self._clock()
        return {
            chain: {
                node: {
                    "passed": checks.find_exclusion_reason(node, now) is None,
                    "reason": checks.find_exclusion_reason(node, now),
                    "staked": checks.get_stake_state(node),
                    "chain_id": state.chain_id,
                    "height": state.height,
                    "best": state.best,
                    "behind": state.blocks_behind,
                    "at_ms": state.at or None,
                }
                for node, state in nodes.items()
            }
            for chain, (checks, nodes) in self._service.list_checks().items()
        }

    def request_checks(self, _body: bytes) -> dict[str, object]:
        """Request the next round of checks for each chain, without waiting for results."""
        self._service.request_checks()
        return {"begun": True}

    def get_node_stats(self, name: bytes) -> dict[str, object]:
        """Return the statistics of one node, for each chain on which it has outcomes."""
        stats_by_chain = self._service.get_node_stats(name.decode("utf-8", "replace"))
        return {chain: _build_stats_payload(stats) for chain, stats in stats_by_chain}

    def list_epochs(self, _body: bytes) -> dict[str, object]:
        """Return the seeds of ended epochs, and the commitments of all epochs."""
        ended_epochs, open_epochs = self._service.list_ended_and_open_epochs()
        epochs_with_seeds = [
            (ended_epoch, {"seed": ended_epoch.seed.hex()}) for ended_epoch in ended_epochs
        ]
        epochs_with_seeds += [(open_epoch, {}) for open_epoch in open_epochs]
        return {
            "epochs": [
                {
                    "start_ms": epoch.start,
                    "end_ms": epoch.end,
                    "commitment": epoch.commitment,
                    **seed,
                }
                for epoch, seed in epochs_with_seeds
            ]
        }

    def get_health(self, _body: bytes) -> object:
        """Return 200 if the service can write outcomes to its database, otherwise 503."""
        failure = self._service.write_failure
        payload: dict[str, object] = {"version": __version__, "ready": failure is None}
        return payload if failure is None else NotReadyResponse({**payload, "reason": failure})

    def get_metrics(self, _body: bytes) -> bytes:
        """Return all metrics for Prometheus, from memory."""
        return gateway_metrics.render_metrics()


def _get_selection_label(selection: NodeSelection) -> str:
    if not selection.nodes:
        return "nobody"
    return "degraded" if selection.ranking.degraded else "drawn"


def _build_selection_payload(
    selection: NodeSelection, select_body: SelectBody
) -> dict[str, object]:
    ranking = selection.ranking
    payload: dict[str, object] = {
        "nodes": selection.nodes,
        "tickets": dict(ranking.chances),
        "degraded": ranking.degraded,
        "as_of_ms": ranking.as_of,
    }
    if select_body.explain:
        payload["rows"] = [_build_row_payload(row) for row in ranking.ranking.rows]
        payload["left_out"] = ranking.ranking.left_out
    if select_body.prove:
        payload["proof"] = _build_proof_payload(selection, select_body.session)
    return payload


def _build_proof_payload(selection: NodeSelection, session: str) -> dict[str, object]:
    """Build the inputs with which anyone can repeat a draw.

    See `gateway.draw_seeds`.
    """
    return {
        "values": [value.hex() for value in selection.values],
        "chances": selection.ranking.chances,
        "ranking_id": selection.ranking.id,
        "session": session,
        "counter": selection.counter,
        "epoch_start_ms": selection.epoch.start,
        "commitment": selection.epoch.commitment,
    }


def _build_row_payload(row: RankedNode) -> dict[str, object]:
    return {
        "node": row.node,
        "tickets": row.tickets,
        "reason": row.reason.value,
        "why": format_ticket_explanation(row),
        **_build_stats_payload(row.stats),
    }


def _build_stats_payload(stats: NodeStats) -> dict[str, object]:
    return {
        "attempts": stats.attempts,
        "success_rate": stats.success_rate,
        "median_ms": _convert_to_ms(stats.median),
        "p90_ms": None if stats.p90 is None else _convert_to_ms(stats.p90),
        "weighted_ms": _convert_to_ms(stats.weighted),
        "out_until_ms": stats.out_until_ms,
    }


def _convert_to_ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
