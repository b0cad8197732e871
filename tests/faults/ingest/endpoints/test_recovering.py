"""A fault that an endpoint had for a moment must not delay the indexer forever."""

import pytest
from structlog.testing import capture_logs

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import transport_faults as faults
from devnet.fakechain.requests import HttpResponse
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.rpc.client import MAX_BATCH_SIZE, JsonRpcClient
from oracle.rpc.endpoints.health import INITIAL_BREAKER_WAIT_SECONDS
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.safe_text import redact_secrets
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import follow_until_idle, list_endpoints
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def single_endpoint_indexer(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
) -> Indexer:
    """Return an indexer with only the first endpoint; it has read the chain up to block 30."""
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    indexer.index()
    return indexer


@pytest.mark.parametrize(
    ("depth", "new_blocks"),
    [(2, 0), (2, 3), (20, 5)],
    ids=["above the final block", "original chain grows", "below the final block"],
)
def test_fork_watch_ends_when_the_endpoint_reverts_its_fork(
    fake_chain: FakeChain,
    single_endpoint_indexer: Indexer,
    clock: VirtualClock,
    depth: int,
    new_blocks: int,
):
    original_head = fake_chain.head
    clock.advance(40)
    fake_chain.mine_empty(depth + 2, on=fake_chain.back(depth))
    assert single_endpoint_indexer.step() is None
    assert single_endpoint_indexer.ingest.fork_watch.is_pending()

    fake_chain.show(
        fake_chain.mine_empty(new_blocks, on=original_head) if new_blocks else original_head
    )
    for _ in range(3):
        clock.advance(40)
        single_endpoint_indexer.index()

    assert not single_endpoint_indexer.ingest.fork_watch.is_pending()
    assert single_endpoint_indexer.cursor == (30 + new_blocks, fake_chain.provider.head.hash)


@pytest.mark.parametrize("dies", [False, True], ids=["endpoint reverts it", "endpoint is down"])
def test_fabricated_final_block_is_discarded_after_one_minute(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock, *, dies: bool
):
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    honest_head, liar = fake_chain.head, fake_chain.provider
    liar.head = fake_chain.tree.mine_empty_blocks(300, fake_chain.back(3), 12)
    assert indexer.source.fetch_heads().final.number > honest_head.number

    fake_chain.show(fake_chain.mine_empty(5, on=honest_head))
    if dies:
        liar.faults.append(faults.build_http_status_fault(503))
    with pytest.raises(TransientError, match="below the final block"):
        indexer.step()

    assert follow_until_idle(indexer, clock, seconds=10) <= 90
    assert indexer.cursor[0] == honest_head.number + 5
    assert indexer.source.fetch_heads().final.number <= honest_head.number


@pytest.mark.parametrize(
    "fault",
    [
        faults.build_http_status_fault(504, times=2),
        faults.build_html_fault(times=1),
        faults.build_truncated_body_fault(times=1),
        faults.build_reset_connection_fault(times=1),
    ],
    ids=["504", "HTML", "truncated", "reset"],
)
def test_temporary_failure_does_not_disable_batches(
    fake_chain: FakeChain,
    single_endpoint_indexer: Indexer,
    clock: VirtualClock,
    fault: InjectedFault,
):
    fake_chain.provider.faults.append(fault)
    for _ in range(4):
        fake_chain.live(1)
        follow_until_idle(single_endpoint_indexer, clock, seconds=INITIAL_BREAKER_WAIT_SECONDS)

    assert fault.hit_count
    assert list_endpoints(single_endpoint_indexer)[0].client.batch_limit == MAX_BATCH_SIZE


def test_small_batch_is_not_split_after_a_gateway_timeout(
    fake_chain: FakeChain, single_endpoint_indexer: Indexer
):
    fake_chain.provider.faults.append(faults.build_http_status_fault(504))

    with pytest.raises(RpcError, match=ErrorKind.SLOW):
        single_endpoint_indexer.source.fetch_heads()
    # Three requests in one batch; none is repeated individually.
    assert fake_chain.provider.faults[0].hit_count == 3


HOSTILE = {
    "too deep": b'{"id":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"result":"0x1"}',
    "invalid UTF-8": b'{"id":1,"result":"\xff"}',
    "a limit of many digits": b'{"id":1,"error":{"message":"limited to ' + b"9" * 6_000 + b'"}}',
    "a range of many digits": b'{"id":1,"error":{"message":"range [1-' + b"9" * 6_000 + b']"}}',
    "a range with zeros": b'{"id":1,"error":{"message":"retry with the range 007-010"}}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_malicious_response_body_raises_rpc_error(fake_chain: FakeChain, body: bytes):
    fake_chain.provider.faults.append(
        faults.build_http_response_fault("hostile", HttpResponse(body=body))
    )

    with pytest.raises(RpcError):
        JsonRpcClient(fake_chain.urls[0]).call("eth_chainId", [], str)


@pytest.mark.parametrize(
    ("written", "seconds"), [("²", None), ("9" * 400, 3600), ("86400", 3600), ("60", 60)]
)
def test_retry_after_is_capped_at_one_hour(
    fake_chain: FakeChain, written: str, seconds: float | None
):
    fake_chain.provider.faults.append(faults.build_429_fault(written))

    with pytest.raises(RpcError) as failure:
        JsonRpcClient(fake_chain.urls[0]).call("eth_chainId", [], str)
    assert failure.value.retry_after == seconds


def test_non_secret_url_parameters_are_not_redacted(fake_chain: FakeChain):
    JsonRpcClient(f"{fake_chain.urls[0]}?network=1&tier=free")

    assert redact_secrets("block 11 is free") == "block 11 is free"


def test_unavailable_endpoint_is_retried_if_the_other_rejects_its_key(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    late, refused = fake_chain.providers
    late.faults.append(faults.build_http_status_fault(503))
    refused.faults.append(faults.build_http_status_fault(403))
    indexer.restart()

    with pytest.raises(TransientError, match="503"):
        indexer.source.check_endpoints()


def test_endpoint_failover_is_logged_once_with_its_reason(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    fake_chain.provider.faults.append(faults.build_http_status_fault(503))
    with capture_logs() as log_lines:
        for _ in range(3):
            fake_chain.live(1)
            follow_until_idle(indexer, clock)
            clock.advance(3)
        fake_chain.provider.faults.clear()
        clock.advance(10)
        fake_chain.live(1)
        follow_until_idle(indexer, clock)

    first, second = list_endpoints(indexer)
    replaced, again = [line for line in log_lines if line["event"].startswith("endpoint_")]
    assert (replaced["endpoint"], replaced["by"]) == (first.name, second.name)
    assert replaced["reason"] == f"{first.name}: unreachable: HTTP 503"
    assert (again["event"], again["endpoint"]) == ("endpoint_recovered", first.name)
