"""What a test of the endpoints looks at: who works, what is shown, and a loop that goes on."""

from collections.abc import Callable

from devnet.fakechain.provider import Provider
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.telemetry.metrics import REGISTRY
from tests.support.ingest.indexer import Indexer


def endpoints_of(indexer: Indexer) -> list[Endpoint]:
    """In the order of the settings."""
    return list(indexer.source.endpoints)


def labels(indexer: Indexer) -> list[str]:
    """What metrics call them."""
    return [endpoint.name for endpoint in endpoints_of(indexer)]


def worker(indexer: Indexer) -> int:
    """Which endpoint does the work now, counted from 0."""
    return endpoints_of(indexer).index(
        indexer.source.endpoints.run_with_endpoint(lambda endpoint: endpoint)
    )


def shown(name: str, **labels: str) -> float:
    """What a metric of ours says; 0 where it says nothing."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def asked_for(provider: Provider, work: Callable[[], object]) -> int:
    """How many questions the provider is asked while this is done."""
    before = len(provider.received_requests)
    work()
    return len(provider.received_requests) - before


def follow(indexer: Indexer, clock: VirtualClock, seconds: float = 1.0, turns: int = 300) -> float:
    """Turn as the daemon does, until there is nothing to do; how long that took.

    What fails is tried again `seconds` later.
    """
    began = clock()
    for _ in range(turns):
        try:
            if indexer.step() is None:
                return clock() - began
        except TransientError:
            clock.advance(seconds)
    raise AssertionError(f"nothing but failures in {turns} turns")
