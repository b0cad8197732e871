"""What `status` says of endpoints that refuse, hang or stand still, to somebody who was woken."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oracle.daemon.app import App
from oracle.daemon.config.loader import load
from oracle.daemon.endpoints.capability_cache import CapabilityCache
from oracle.devnet.fakechain.faults import transport_faults
from oracle.devnet.fakechain.virtual_clock import VirtualClock
from oracle.queries.contract_view import READY_WITHIN_BLOCKS, ChainView, ask_chain
from oracle.queries.endpoint_view import look
from oracle.queries.text.status_text import standstill
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.cli.local_network import write
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.daemons import settings
from tests.support.ingest.endpoints import follow


@contextmanager
def asking(chain: AChain, folder: Path) -> Iterator[App]:
    """A command over all endpoints; there is no oracle contract."""
    told = settings(chain, folder)
    del told["oracle"]
    with App(load(write(told, folder / "config.toml"))) as app:
        yield app


def asked(app: App, folded: int) -> ChainView:
    return ask_chain(app.config.chain.endpoints, app.config.chain.id, None, folded)


def stand_still(chain: AChain, nth: int) -> None:
    chain.following.remove(chain.providers[nth])


def test_an_endpoint_that_stands_still_does_not_say_where_the_chain_is(
    a_chain: AChain, tmp_path: Path
):
    stand_still(a_chain, 0)
    a_chain.quiet(3)
    with asking(a_chain, tmp_path) as app:
        seen = ask_chain(
            app.config.chain.endpoints, app.config.chain.id, None, a_chain.head.number
        )

    assert seen.head is not None
    assert seen.head.number == a_chain.head.number


def test_where_none_has_come_near_what_we_have_how_far_the_chain_is_is_unknown(
    a_chain: AChain, tmp_path: Path
):
    number = a_chain.head.number
    with asking(a_chain, tmp_path) as app:
        near = ask_chain(
            app.config.chain.endpoints, app.config.chain.id, None, number + READY_WITHIN_BLOCKS
        )
        far = ask_chain(
            app.config.chain.endpoints, app.config.chain.id, None, number + READY_WITHIN_BLOCKS + 1
        )

    assert near.head is not None
    assert (far.head, far.unknown) == (None, f"who answers is itself at block {number} only")


def test_why_none_answers_is_what_they_said_and_not_that_we_left_them_alone(
    a_chain: AChain, tmp_path: Path
):
    for provider in a_chain.providers:
        provider.faults.append(transport_faults.throttled(3_600))
    with asking(a_chain, tmp_path) as app:
        seen = ask_chain(
            app.config.chain.endpoints, app.config.chain.id, None, a_chain.head.number
        )

    assert seen.head is None
    assert seen.unknown is not None
    assert seen.unknown.endswith(": throttled: HTTP 429: slow down")


@pytest.mark.parametrize("endpoints", [1, 2])
def test_where_no_endpoint_shows_a_new_block_it_says_so_and_for_how_long(
    a_chain: AChain, open_indexer: OpenIndexer, endpoints: int
):
    clock, nowhere = VirtualClock(), CapabilityCache(lambda: None, lambda: 0.0)
    indexer = open_indexer(*a_chain.urls[:endpoints], clock=clock)
    follow(indexer, clock)
    assert list(standstill(look(indexer.source, nowhere))) == []

    for _ in range(60):
        clock.pass_by(15)
        indexer.source.heads()

    (line,) = standstill(look(indexer.source, nowhere))
    assert line[0] == "STALLED"
    assert f"{a_chain.urls[0]} stands still: no new block for 900 s; if the chain" in line[1]

    a_chain.quiet(1)
    indexer.source.heads()
    assert list(standstill(look(indexer.source, nowhere))) == []
