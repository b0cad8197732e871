"""A simple selection service for a gateway; the baseline of benchmarks/gateway.py.

A list holds all outcomes of a node. For each relay everything is computed again, as in the
article: the array of tickets is built, and a node is picked at random. HTTP uses FastAPI and
uvicorn with default settings. The service stores nothing and does not check nodes.
"""

import random
import statistics
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

WINDOW_MS = 300_000

# (Time in milliseconds, latency in seconds or None for a failure).
Outcome = tuple[int, float | None]


class PlainSelector:
    """Selects nodes for one chain."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[Outcome]] = {}

    def add_outcome(self, node: str, time_ms: int, seconds: float | None) -> None:
        node_outcomes = self.outcomes.setdefault(node, [])
        node_outcomes.append((time_ms, seconds))
        # Like Pocket's gateway, compute the statistics at the end of each relay.
        self.compute_statistics(node, time_ms)

    def compute_statistics(self, node: str, now: int) -> tuple[float, float, float]:
        """Return the success rate, the median latency and the weighted latency in seconds."""
        node_outcomes = [
            outcome for outcome in self.outcomes.get(node, ()) if outcome[0] > now - WINDOW_MS
        ]
        self.outcomes[node] = node_outcomes
        sorted_latencies = sorted(seconds for _, seconds in node_outcomes if seconds is not None)
        if not sorted_latencies:
            return (0.0 if node_outcomes else 1.0), 0.0, 0.0
        median_latency = weighted_latency = statistics.median(sorted_latencies)
        if len(node_outcomes) > 20:
            quantile_index = (len(sorted_latencies) - 1) * 0.9
            lower_index = int(quantile_index)
            upper_latency = sorted_latencies[min(lower_index + 1, len(sorted_latencies) - 1)]
            weighted_latency += 0.3 * (
                sorted_latencies[lower_index]
                + (quantile_index - lower_index) * (upper_latency - sorted_latencies[lower_index])
            )
        return (
            len(sorted_latencies) / len(node_outcomes),
            round(median_latency, 5),
            round(weighted_latency, 5),
        )

    def compute_tickets(self, candidates: list[str], now: int) -> dict[str, int]:
        """Return the tickets by node.

        Nodes are not excluded after failures; the omission only makes this baseline faster.
        """
        statistics = [(node, *self.compute_statistics(node, now)) for node in candidates]
        current_tickets, previous_latency, tickets = 10, 0.0, {}
        for node, success_rate, median_latency, weighted_latency in sorted(
            statistics, key=lambda row: row[3]
        ):
            if previous_latency > 0 and median_latency > 0.15:
                lost_tickets = int((weighted_latency - max(previous_latency, 0.15)) * 35 + 0.5)
                current_tickets = max(1, current_tickets - lost_tickets)
            tickets[node] = current_tickets if success_rate > 0.95 else 1
            previous_latency = weighted_latency
        return tickets

    def select_node(self, candidates: list[str], now: int) -> str:
        ticket_holders = [
            node
            for node, tickets in self.compute_tickets(candidates, now).items()
            for _ in range(tickets)
        ]
        return random.choice(ticket_holders)  # noqa: S311 - no secret


class OutcomeBody(BaseModel):
    node: str
    chain: str
    session: str
    t_ms: int
    latency_ms: float | None = None
    ok: bool
    kind: str


class OutcomesBody(BaseModel):
    outcomes: list[OutcomeBody]


class SelectBody(BaseModel):
    chain: str
    session: str
    candidates: list[str]


def create_app(newest_ms: list[int]) -> FastAPI:
    app = FastAPI()
    selector = PlainSelector()

    @app.get("/healthz")
    async def healthz() -> dict[str, Any]:
        return {}

    @app.post("/v1/outcomes")
    async def outcomes(batch: OutcomesBody) -> dict[str, Any]:
        for row in batch.outcomes:
            latency_seconds = (
                row.latency_ms / 1000 if row.ok and row.latency_ms is not None else None
            )
            selector.add_outcome(row.node, row.t_ms, latency_seconds)
            newest_ms[0] = max(newest_ms[0], row.t_ms)
        return {"taken": len(batch.outcomes)}

    @app.post("/v1/select")
    async def select_node(request: SelectBody) -> dict[str, Any]:
        return {"nodes": [selector.select_node(request.candidates, newest_ms[0])]}

    return app


if __name__ == "__main__":
    uvicorn.run(create_app([0]), port=int(sys.argv[1]), log_level="error", access_log=False)
