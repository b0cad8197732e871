"""Capabilities of endpoints are stored once, and kept in memory if storing fails."""

import pytest

from oracle.daemon.chain_endpoints import CapabilityCache
from oracle.errors import FatalError
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from oracle.store.database import Store


@pytest.fixture
def epoch(store: Store) -> int:
    with store.transaction() as uow:
        lease_epoch = uow.lease.acquire("one", 30)
    assert lease_epoch is not None
    return lease_epoch


def load_stored_facts(store: Store, endpoint: str) -> dict[str, str]:
    with store.read_transaction() as uow:
        return uow.facts.get_all(endpoint, 0)


def test_capabilities_are_written_by_the_retry_after_a_failed_flush(store: Store, epoch: int):
    cache = CapabilityCache(store, lambda: 1_000.0)
    cache.save_fact("e", "range", "500", 60)
    with pytest.raises(FatalError):
        cache.store_endpoint_facts(epoch + 1)
    assert cache.load_facts("e") == {"range": "500"}

    assert cache.store_endpoint_facts(epoch) == 1

    assert load_stored_facts(store, "e") == {"range": "500"}
    assert cache.store_endpoint_facts(epoch) == 0


def test_capability_learned_during_a_failed_flush_is_kept(store: Store, epoch: int):
    fails: list[bool] = []

    def now() -> float:
        if fails:
            fails.clear()
            cache.save_fact("e", "range", "100", 60)
            raise OSError("the disk is full")
        return 1_000.0

    cache = CapabilityCache(store, now)
    cache.save_fact("e", "range", "500", 60)
    fails.append(True)
    with pytest.raises(OSError, match="the disk is full"):
        cache.store_endpoint_facts(epoch)

    cache.store_endpoint_facts(epoch)

    assert load_stored_facts(store, "e") == {"range": "100"}


def test_endpoint_facts_alone_do_not_cause_a_write_of_chain_facts(store: Store, epoch: int):
    cache = CapabilityCache(store, lambda: 1_000.0)
    cache.save_fact("e", "range", "500", 60)
    assert cache.store_chain_facts(epoch) == 0
    cache.save_fact(CHAIN_FACTS_KEY, "headers", "roots", 60)

    assert cache.store_chain_facts(epoch) == 2

    assert load_stored_facts(store, CHAIN_FACTS_KEY) == {"headers": "roots"}
