"""Endpoints at given addresses, as a pool or as the sending side uses them;
nothing is requested.
"""

import time
from collections.abc import Callable, Mapping

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.pool import EndpointPool

# Anvil's chain id, which all local chains here have.
CHAIN_ID = 31337
# A limit for a slow machine, not for a hanging request.
SECONDS = 60.0


def pool_of(
    *urls: str,
    clock: Callable[[], float] = time.monotonic,
    providers: Mapping[str, str] | None = None,
) -> EndpointPool:
    """Return a pool of these endpoints, the first one preferred;
    `providers` as in the settings.
    """
    return EndpointPool.from_urls(urls, CHAIN_ID, clock, providers=providers)


def view_of(*urls: str, clock: Callable[[], float] = time.monotonic) -> PoolView:
    """Return the view of these endpoints that the sending side uses."""
    return pool_of(*urls, clock=clock).create_view(SECONDS)


def caller_of(
    url: str, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
) -> EndpointCaller:
    """Return a single endpoint with this timeout in seconds."""
    (caller,) = pool_of(url, clock=clock).create_view(seconds).callers
    return caller


def source_on(
    reader: EventReader,
    *urls: str,
    depth: int = 4,
    providers: Mapping[str, str] | None = None,
) -> ChainSource:
    """Return the chain source of these endpoints, with this finality depth."""
    return ChainSource(pool_of(*urls, providers=providers), reader, depth)
