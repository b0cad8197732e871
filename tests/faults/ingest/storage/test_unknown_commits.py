"""A COMMIT whose response is lost may or may not be done; the database shows which.

Real PostgreSQL, behind a proxy that breaks the connection before, at or after the COMMIT.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.daemon.lease_keeper import acquire_lease
from oracle.errors import TransientError
from oracle.store.database import Store
from oracle.store.db_errors import UnknownCommitError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import follow_until_idle
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import limit_ranges
from tests.support.lossy_postgresql import CommitLoss, LossyProxy, run_lossy_proxy

LOSS = pytest.mark.parametrize(
    "loss", list(CommitLoss), ids=lambda connection: connection.name.lower()
)


@pytest.fixture
def lossy_proxy_and_url(postgresql_url: str) -> Iterator[tuple[LossyProxy, str]]:
    with run_lossy_proxy(postgresql_url) as opened:
        yield opened


@pytest.mark.parametrize(
    "losses",
    [*product(CommitLoss, repeat=1), *product(CommitLoss, repeat=2)],
    ids=lambda losses: " then ".join(connection.name.lower() for connection in losses),
)
def test_index_is_correct_after_any_lost_commit_response(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    lossy_proxy_and_url: tuple[LossyProxy, str],
    losses: tuple[CommitLoss, ...],
):
    proxy, url = lossy_proxy_and_url
    undisturbed = open_indexer(*fake_chain.urls)
    undisturbed.index()
    indexer = limit_ranges(open_indexer(*fake_chain.urls, url=url, clock=VirtualClock()), 5)
    first = indexer.step()
    assert first is not None

    proxy.lose(*losses)
    follow_until_idle(indexer, VirtualClock())

    assert proxy.hits == len(losses)
    assert indexer.cursor == undisturbed.cursor
    assert indexer.canonical_logs() == undisturbed.canonical_logs()
    assert indexer.gaps() == []
    assert indexer.digest() == undisturbed.digest()


@LOSS
def test_lost_commit_response_is_reported_and_resolved(
    lossy_proxy_and_url: tuple[LossyProxy, str], loss: CommitLoss
):
    proxy, url = lossy_proxy_and_url
    with Store.open(url) as store:
        with store.transaction() as uow:
            uow.bookmarks.set("colour", "red")
        proxy.lose(loss)

        with pytest.raises(UnknownCommitError), store.transaction() as uow:
            uow.bookmarks.set("colour", "blue")

        with store.read_transaction() as uow:
            stored_colour = uow.bookmarks.get("colour")
        assert stored_colour == ("red" if loss is CommitLoss.REQUEST else "blue")


@LOSS
def test_error_before_a_commit_is_not_reported_as_an_unknown_commit(
    lossy_proxy_and_url: tuple[LossyProxy, str], loss: CommitLoss
):
    proxy, url = lossy_proxy_and_url
    with Store.open(url) as store:
        with pytest.raises(TransientError) as raised, store.transaction():
            raise TransientError("no endpoint answers")
        proxy.lose(loss)
        assert not isinstance(raised.value, UnknownCommitError)
        assert proxy.hits == 0


@LOSS
def test_lease_is_held_although_the_acquire_response_is_lost(
    lossy_proxy_and_url: tuple[LossyProxy, str], loss: CommitLoss
):
    proxy, url = lossy_proxy_and_url
    with Store.open(url) as store:
        proxy.lose(loss)

        def taken() -> int:
            try:
                return acquire_lease(store, "run")
            except TransientError:
                return acquire_lease(store, "run")

        epoch = taken()
        store.set_fencing_epoch(epoch)

        with store.transaction() as uow:
            uow.lease.lock_held_lease(epoch)
            assert uow.lease.get_state().epoch == epoch == 1
        assert proxy.hits == 1
