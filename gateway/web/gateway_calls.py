"""The response of each path of the service, as values that become JSON.

Times in milliseconds since 1970, latencies in milliseconds, rates from 0 to 1.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from gateway.selection_service import SelectionService
from gateway.session_selector import NodeSelection, SelectionRequest
from gateway.web.request_bodies import SelectBody, outcomes_in, ranking_in, selection_in
from oracle import __version__
from oracle.systems.pocket.explain_row import explain_line
from oracle.systems.pocket.node_stats import NodeStats
from oracle.systems.pocket.ranking import RankedNode
from oracle.telemetry import gateway_metrics


class Unready(NamedTuple):
    """The response of a service that does only a part of its work."""

    told: dict[str, object]


class AcceptedBatch(NamedTuple):
    """A batch that already counts in memory; `stored` resolves when it is written."""

    told: dict[str, int]
    stored: "Future[bool]"


class GatewayCalls:
    """Handlers that take a body and return what becomes JSON; `GatewayApp` handles their errors."""

    def __init__(self, service: SelectionService, clock: Callable[[], int]) -> None:
        self._service = service
        self._clock = clock

    def outcomes(self, body: bytes) -> AcceptedBatch:
        """Count a batch of outcomes: all of them, or none in case of an error."""
        service = self._service
        counts = service.take(outcomes_in(body, self._clock(), service.rules.ahead_ms))
        for became, many in zip(counts._fields, counts, strict=True):
            gateway_metrics.OUTCOMES.labels(became).inc(many)
        return AcceptedBatch(counts._asdict(), service.stored())

    def select(self, body: bytes) -> dict[str, object]:
        """Draw nodes for a relay of a session."""
        asked = selection_in(body)
        request = SelectionRequest(
            asked.chain, asked.session, tuple(asked.candidates), asked.n, tuple(asked.exclude)
        )
        done = self._service.select(request)
        gateway_metrics.SELECTIONS.labels(_became(done)).inc()
        return _selected(done, asked)

    def rankings(self, body: bytes) -> dict[str, object]:
        """Return tickets and a seed, with which a client draws by itself for a while."""
        asked = ranking_in(body)
        request = SelectionRequest(asked.chain, asked.session, tuple(asked.candidates))
        made, seed = self._service.ranking(request)
        return {
            "chances": made.chances,
            "degraded": made.degraded,
            "left_out": made.ranking.left_out,
            "as_of_ms": made.as_of,
            "ranking_id": made.id,
            "seed": seed.hex(),
            "valid_ms": max(500, self._service.rules.ranking_ms),
        }

    def checks(self, _body: bytes) -> dict[str, object]:
        """Return the check results of each node, by chain."""
        now = self._clock()
        return {
            chain: {
                node: {
                    "passed": checks.why_out(node, now) is None,
                    "reason": checks.why_out(node, now),
                    "staked": checks.stake_state(node),
                    "chain_id": state.chain_id,
                    "height": state.height,
                    "best": state.best,
                    "behind": state.behind,
                    "at_ms": state.at or None,
                }
                for node, state in nodes.items()
            }
            for chain, (checks, nodes) in self._service.checks().items()
        }

    def run_checks(self, _body: bytes) -> dict[str, object]:
        """Start the next round of each chain now, without waiting for it."""
        self._service.check_soon()
        return {"begun": True}

    def node(self, name: bytes) -> dict[str, object]:
        """Return the statistics of the node of that name, on each chain where it has a record."""
        found = self._service.node(name.decode("utf-8", "replace"))
        return {chain: _figures(stats) for chain, stats in found}

    def epochs(self, _body: bytes) -> dict[str, object]:
        """Return the seeds of ended epochs, and the commitments of all epochs."""
        past, others = self._service.epochs()
        told = [(one, {"seed": one.seed.hex()}) for one in past]
        told += [(one, {}) for one in others]
        return {
            "epochs": [
                {
                    "start_ms": one.start,
                    "end_ms": one.end,
                    "commitment": one.commitment,
                    **seed,
                }
                for one, seed in told
            ]
        }

    def health(self, _body: bytes) -> object:
        """Return whether the service is ready: outcomes are written."""
        failure = self._service.failure
        told: dict[str, object] = {"version": __version__, "ready": failure is None}
        return told if failure is None else Unready({**told, "reason": failure})

    def metrics(self, _body: bytes) -> bytes:
        """Return all metrics for Prometheus, from memory."""
        return gateway_metrics.text()


def _became(done: NodeSelection) -> str:
    if not done.nodes:
        return "nobody"
    return "degraded" if done.ranking.degraded else "drawn"


def _selected(done: NodeSelection, asked: SelectBody) -> dict[str, object]:
    ranking = done.ranking
    told: dict[str, object] = {
        "nodes": done.nodes,
        "tickets": dict(ranking.chances),
        "degraded": ranking.degraded,
        "as_of_ms": ranking.as_of,
    }
    if asked.explain:
        told["rows"] = [_explained(row) for row in ranking.ranking.rows]
        told["left_out"] = ranking.ranking.left_out
    if asked.prove:
        told["proof"] = _proof(done, asked.session)
    return told


def _proof(done: NodeSelection, session: str) -> dict[str, object]:
    """Return everything that repeats a draw (docs/explanation/gateway.md#repeating-a-draw)."""
    return {
        "values": [value.hex() for value in done.values],
        "chances": done.ranking.chances,
        "ranking_id": done.ranking.id,
        "session": session,
        "counter": done.counter,
        "epoch_start_ms": done.epoch.start,
        "commitment": done.epoch.commitment,
    }


def _explained(row: RankedNode) -> dict[str, object]:
    return {
        "node": row.node,
        "tickets": row.tickets,
        "reason": row.reason.value,
        "why": explain_line(row),
        **_figures(row.stats),
    }


def _figures(stats: NodeStats) -> dict[str, object]:
    return {
        "attempts": stats.attempts,
        "success_rate": stats.success_rate,
        "median_ms": _ms(stats.median),
        "p90_ms": None if stats.p90 is None else _ms(stats.p90),
        "weighted_ms": _ms(stats.weighted),
        "out_until_ms": stats.out_until_ms,
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
