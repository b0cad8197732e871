"""What is learned of endpoints is written down once, and never lost because that failed."""

import pytest

from oracle.daemon.endpoints.capability_cache import CapabilityCache
from oracle.errors import FatalError
from oracle.rpc.endpoints.capabilities import OF_CHAIN
from oracle.store.database import Store


@pytest.fixture
def epoch(store: Store) -> int:
    with store.transaction() as uow:
        taken = uow.lease.take("one", 30)
    assert taken is not None
    return taken


def written(store: Store, endpoint: str) -> dict[str, str]:
    with store.reading() as uow:
        return uow.facts.of(endpoint, 0)


def test_what_could_not_be_written_is_written_the_next_time(store: Store, epoch: int):
    cache = CapabilityCache(store, lambda: 1_000.0)
    cache.keep("e", "range", "500", 60)
    with pytest.raises(FatalError):
        cache.flush(epoch + 1)
    assert cache.recall("e") == {"range": "500"}

    assert cache.flush(epoch) == 1

    assert written(store, "e") == {"range": "500"}
    assert cache.flush(epoch) == 0


def test_what_was_learned_while_writing_failed_wins_over_it(store: Store, epoch: int):
    fails: list[bool] = []

    def now() -> float:
        if fails:
            fails.clear()
            cache.keep("e", "range", "100", 60)
            raise OSError("the disk is full")
        return 1_000.0

    cache = CapabilityCache(store, now)
    cache.keep("e", "range", "500", 60)
    fails.append(True)
    with pytest.raises(OSError, match="the disk is full"):
        cache.flush(epoch)

    cache.flush(epoch)

    assert written(store, "e") == {"range": "100"}


def test_only_what_was_learned_of_the_chain_is_written_at_once(store: Store, epoch: int):
    cache = CapabilityCache(store, lambda: 1_000.0)
    cache.keep("e", "range", "500", 60)
    assert cache.flush_trust(epoch) == 0
    cache.keep(OF_CHAIN, "headers", "roots", 60)

    assert cache.flush_trust(epoch) == 2

    assert written(store, OF_CHAIN) == {"headers": "roots"}
