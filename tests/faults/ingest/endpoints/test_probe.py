"""The findings of a probe about endpoints of every kind, and how they are stored."""

import pytest

from devnet.fakechain.faults import block_faults, transport_faults as faults
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.log_filter import LogFilter
from oracle.chain.probe_schedule import EndpointProber
from oracle.rpc.endpoints.probe import Capabilities, CapabilityStore
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.endpoints import count_requests, list_endpoints
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

LOG_FILTER = LogFilter(frozenset({NETWORK, ORACLE}), frozenset({"0x" + "1" * 64}))


class Notes:
    """Keeps what is stored in it forever."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}

    def load_facts(self, endpoint: str) -> dict[str, str]:
        return self.kept.get(endpoint, {})

    def save_fact(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        assert seconds is None or seconds > 0
        self.kept.setdefault(endpoint, {})[key] = value


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def indexer(fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock) -> Indexer:
    return open_indexer(fake_chain.urls[0], clock=clock)


def run_probe(
    indexer: Indexer, keeper: CapabilityStore | None = None, first: int = 0
) -> Capabilities:
    EndpointProber(indexer.source.endpoints, LOG_FILTER, first, keeper).run_due_probe()
    facts = list_endpoints(indexer)[0].capabilities
    assert facts is not None
    return facts


def test_probe_reports_all_capabilities_of_an_endpoint(fake_chain: FakeChain, indexer: Indexer):
    facts = run_probe(indexer)

    assert facts.head is not None
    assert facts.head.hash == fake_chain.head.hash
    assert (facts.chain_id, facts.client, facts.tags) == (
        31337,
        "FakeChain/1.0",
        ("safe", "finalized"),
    )
    assert (facts.has_logs_by_hash, facts.has_block_receipts) == (True, True)
    assert (facts.max_batch_size, facts.oldest_log_block, facts.fault) == (100, 0, None)


def test_probe_reports_missing_capabilities(fake_chain: FakeChain, indexer: Indexer):
    fake_chain.provider.tag_targets = {"safe": 2, "finalized": None}
    fake_chain.provider.unsupported = {"eth_getBlockReceipts", "web3_clientVersion"}
    fake_chain.provider.faults.append(faults.build_batch_limit_fault(max_calls=20))
    fake_chain.provider.pruned_below = 17

    facts = run_probe(indexer)

    assert (facts.client, facts.tags, facts.has_block_receipts) == (None, ("safe",), False)
    assert (facts.max_batch_size, facts.oldest_log_block) == (20, 17)


def test_probe_detects_empty_logs_for_an_unknown_block_hash(
    fake_chain: FakeChain, indexer: Indexer
):
    """Ganache returns an empty list for an unknown block."""
    invented = block_faults.build_fixed_result_fault(
        [], methods="eth_getLogs", when=lambda request: "1234abcd" in str(request.params)
    )
    fake_chain.provider.faults.append(invented)

    assert not run_probe(indexer).has_logs_by_hash


def test_probe_quarantines_endpoint_of_another_chain(fake_chain: FakeChain, indexer: Indexer):
    indexer.source.endpoints.run_with_endpoint(lambda endpoint: endpoint)
    fake_chain.provider.faults.append(block_faults.build_wrong_chain_id_fault(5))

    assert run_probe(indexer).fault == "is on chain 5, but [chain] id is 31337"
    assert list(indexer.source.endpoints.get_quarantine_reasons()) == [
        list_endpoints(indexer)[0].name
    ]


def test_endpoint_is_probed_hourly_and_thoroughly_once_a_day(
    fake_chain: FakeChain, indexer: Indexer, clock: VirtualClock
):
    prober = EndpointProber(indexer.source.endpoints, LOG_FILTER, 0)
    full_request_count = count_requests(fake_chain.provider, prober.run_due_probe)
    again = count_requests(fake_chain.provider, prober.run_due_probe)
    clock.advance(3_600)
    hourly = count_requests(fake_chain.provider, prober.run_due_probe)
    clock.advance(24 * 3_600)

    assert (full_request_count > 100, again, 0 < hourly < 15) == (True, 0, True)
    assert count_requests(fake_chain.provider, prober.run_due_probe) == full_request_count


def test_probe_results_survive_restart(
    fake_chain: FakeChain, indexer: Indexer, clock: VirtualClock
):
    notes = Notes()
    fake_chain.provider.tag_targets = {}
    fake_chain.provider.faults.append(faults.build_batch_limit_fault(max_calls=20))
    run_probe(indexer, notes)

    indexer.restart()
    EndpointProber(indexer.source.endpoints, LOG_FILTER, 0, notes)

    (endpoint,) = list_endpoints(indexer)
    assert (endpoint.client.batch_limit, endpoint.tags) == (20, ())
    assert endpoint.capabilities is not None
    assert endpoint.capabilities.has_block_receipts


def test_malformed_stored_probe_results_are_ignored(indexer: Indexer):
    notes = Notes()
    label = list_endpoints(indexer)[0].name
    for key in ("tags", "batch", "oldest_logs", "logs_by_hash"):
        notes.save_fact(label, key, "what?", 1)

    EndpointProber(indexer.source.endpoints, LOG_FILTER, 0, notes)

    assert list_endpoints(indexer)[0].client.batch_limit == 100
    assert list_endpoints(indexer)[0].capabilities is None
