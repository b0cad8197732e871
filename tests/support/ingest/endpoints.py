"""Reads the state of endpoints in tests, and runs an indexer's loop."""

from collections.abc import Callable

from devnet.fakechain.provider import Provider
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.telemetry.metrics import REGISTRY
from tests.support.ingest.indexer import Indexer


def list_endpoints(indexer: Indexer) -> list[Endpoint]:
    """Return the endpoints in the order of the settings."""
    return list(indexer.source.endpoints)


def list_labels(indexer: Indexer) -> list[str]:
    """Return the endpoints' labels in metrics."""
    return [endpoint.name for endpoint in list_endpoints(indexer)]


def get_serving_index(indexer: Indexer) -> int:
    """Return the index of the endpoint that currently serves windows, counted from 0."""
    return list_endpoints(indexer).index(
        indexer.source.endpoints.run_with_endpoint(lambda endpoint: endpoint)
    )


def read_metric(name: str, **labels: str) -> float:
    """Return the value of a metric, or 0 if the metric has no such series."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def count_requests(provider: Provider, work: Callable[[], object]) -> int:
    """Return the number of requests to a provider during `work`."""
    before = len(provider.received_requests)
    work()
    return len(provider.received_requests) - before


def follow_until_idle(
    indexer: Indexer, clock: VirtualClock, seconds: float = 1.0, turns: int = 300
) -> float:
    """Run the loop as the daemon does until nothing is left; return the seconds it took.

    A step that fails is repeated `seconds` later.
    """
    began = clock()
    for _ in range(turns):
        try:
            if indexer.step() is None:
                return clock() - began
        except TransientError:
            clock.advance(seconds)
    raise AssertionError(f"nothing but failures in {turns} turns")
