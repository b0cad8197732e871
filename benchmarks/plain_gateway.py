"""A simple service that selects nodes for a gateway; the baseline of gateway.py.

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

# The time in milliseconds, and the latency in seconds or None for a failure.
Outcome = tuple[int, float | None]


class PlainSelector:
    """Selects nodes for one chain."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[Outcome]] = {}

    def take(self, node: str, t: int, seconds: float | None) -> None:
        every = self.outcomes.setdefault(node, [])
        every.append((t, seconds))
        # As upstream, the statistics are computed at the end of each relay.
        self.statistics(node, t)

    def statistics(self, node: str, now: int) -> tuple[float, float, float]:
        """Return the success rate, the median latency and the weighted latency in seconds."""
        every = [
            outcome for outcome in self.outcomes.get(node, ()) if outcome[0] > now - WINDOW_MS
        ]
        self.outcomes[node] = every
        latencies = sorted(seconds for _, seconds in every if seconds is not None)
        if not latencies:
            return (0.0 if every else 1.0), 0.0, 0.0
        median = weighted = statistics.median(latencies)
        if len(every) > 20:
            place = (len(latencies) - 1) * 0.9
            below = int(place)
            above = latencies[min(below + 1, len(latencies) - 1)]
            weighted += 0.3 * (latencies[below] + (place - below) * (above - latencies[below]))
        return len(latencies) / len(every), round(median, 5), round(weighted, 5)

    def tickets(self, candidates: list[str], now: int) -> dict[str, int]:
        """Return the tickets by node.

        Nodes are not excluded after failures; the omission only makes this baseline faster.
        """
        statistics = [(node, *self.statistics(node, now)) for node in candidates]
        weight, previous, tickets = 10, 0.0, {}
        for node, rate, median, weighted in sorted(statistics, key=lambda row: row[3]):
            if previous > 0 and median > 0.15:
                lost = int((weighted - max(previous, 0.15)) * 35 + 0.5)
                weight = max(1, weight - lost)
            tickets[node] = weight if rate > 0.95 else 1
            previous = weighted
        return tickets

    def select(self, candidates: list[str], now: int) -> str:
        array = [
            node for node, tickets in self.tickets(candidates, now).items() for _ in range(tickets)
        ]
        return random.choice(array)  # noqa: S311 - as it is done


class Row(BaseModel):
    node: str
    chain: str
    session: str
    t_ms: int
    latency_ms: float | None = None
    ok: bool
    kind: str


class Batch(BaseModel):
    outcomes: list[Row]


class Asked(BaseModel):
    chain: str
    session: str
    candidates: list[str]


def application(now: list[int]) -> FastAPI:
    web, selector = FastAPI(), PlainSelector()

    @web.get("/healthz")
    async def healthz() -> dict[str, Any]:
        return {}

    @web.post("/v1/outcomes")
    async def outcomes(batch: Batch) -> dict[str, Any]:
        for row in batch.outcomes:
            seconds = row.latency_ms / 1000 if row.ok and row.latency_ms is not None else None
            selector.take(row.node, row.t_ms, seconds)
            now[0] = max(now[0], row.t_ms)
        return {"taken": len(batch.outcomes)}

    @web.post("/v1/select")
    async def select(request: Asked) -> dict[str, Any]:
        return {"nodes": [selector.select(request.candidates, now[0])]}

    return web


if __name__ == "__main__":
    uvicorn.run(application([0]), port=int(sys.argv[1]), log_level="error", access_log=False)
