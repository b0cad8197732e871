"""Every row of the table of dialects over HTTP, from the only or the last live endpoint."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from devnet.fakechain.fault import FaultLimits, InjectedFault
from devnet.fakechain.faults import message_faults, transport_faults
from devnet.fakechain.faults.message_faults import ErrorMessage
from devnet.fakechain.provider import Provider
from devnet.fakechain.requests import FakeRequest, HttpResponse
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.verification.calibration import Calibration
from oracle.errors import TransientError
from oracle.rpc.provider_dialects import DIALECTS, ProviderMessage, RefusedFeature
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import follow_until_idle, list_endpoints
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY, Indexer
from tests.support.ingest.proofs import Site
from tests.support.ingest.reading import list_log_ranges

# The endpoint's limits of blocks and of logs per request.
BLOCKS, LOGS = 3, 4


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def format_row_id(row: ProviderMessage) -> str:
    return f"{row.provider} {row.code} {row.example[:30]}"


def parametrize_rows(*refused: RefusedFeature) -> pytest.MarkDecorator:
    chosen = [row for row in DIALECTS if row.refused_feature in refused]
    return pytest.mark.parametrize("row", chosen, ids=format_row_id)


ALIVE = pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "last alive"])


def open_indexer_with_last_endpoint(
    chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock, *, is_alone: bool
) -> tuple[Indexer, Provider]:
    """Return an indexer, and its last endpoint; unless `is_alone`, a dead endpoint precedes it."""
    chain.mine_empty(FINALITY)
    urls = chain.urls[1:] if is_alone else chain.urls
    chain.providers[0].faults.append(transport_faults.build_http_status_fault(502))
    return open_indexer(*urls, clock=clock, reports=False), chain.providers[1]


def is_wide_range(request: FakeRequest) -> bool:
    return (
        request.block_range is not None
        and request.block_range[1] - request.block_range[0] >= BLOCKS
    )


def build_row_fault(row: ProviderMessage, limits: FaultLimits) -> InjectedFault:
    return message_faults.build_error_fault(ErrorMessage(row.code, row.example), **limits)


@ALIVE
@parametrize_rows(RefusedFeature.BLOCKS, RefusedFeature.TIME)
def test_refused_range_is_split_until_accepted(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    row: ProviderMessage,
    *,
    is_alone: bool,
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=is_alone
    )
    error_message = ErrorMessage(row.code, row.example)
    provider.faults.append(message_faults.build_range_limit_fault(BLOCKS, error_message))

    waited = follow_until_idle(indexer, clock)

    assert indexer.canonical_logs() == fake_chain.logs()
    assert list_log_ranges(provider)
    # No tick fails, so a run that stops at the first failure completes.
    assert waited == 0


@parametrize_rows(RefusedFeature.TIME)
def test_run_once_succeeds_even_if_an_endpoint_times_out_on_ranges(
    fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str], row: ProviderMessage
):
    fake_chain.mine_empty(FINALITY)
    site = Site(fake_chain, tmp_path, capsys)
    error_message = ErrorMessage(row.code, row.example)
    fake_chain.provider.faults.append(
        message_faults.build_range_limit_fault(BLOCKS, error_message)
    )

    assert site.once(0) == (0, "")
    assert site.cursor() == fake_chain.head.number


@pytest.mark.parametrize("status", [408, 504, 524])
def test_range_with_gateway_timeout_is_split_until_accepted(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock, status: int
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=True
    )
    provider.faults.append(
        transport_faults.build_http_status_fault(status, when=is_wide_range, methods="eth_getLogs")
    )

    waited = follow_until_idle(indexer, clock)

    assert indexer.canonical_logs() == fake_chain.logs()
    assert waited == 0


def test_range_without_a_response_is_retried_with_fewer_blocks(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=True
    )
    for endpoint in list_endpoints(indexer):
        endpoint.client._wire._timeout_seconds = 0.3
    gate = Event()
    provider.faults.append(
        transport_faults.build_held_response_fault(gate, methods="eth_getLogs", when=is_wide_range)
    )
    try:
        with pytest.raises(TransientError) as ended:
            indexer.index()
        follow_until_idle(indexer, clock)
    finally:
        gate.set()

    # `run --once` waits for it instead of giving up.
    assert ended.value.retry_after is not None
    assert indexer.canonical_logs() == fake_chain.logs()


@ALIVE
@parametrize_rows(RefusedFeature.RESULTS)
def test_range_refused_for_its_result_size_is_split_until_accepted(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    row: ProviderMessage,
    *,
    is_alone: bool,
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=is_alone
    )
    error_message = ErrorMessage(row.code, row.example)
    provider.faults.append(message_faults.build_result_limit_fault(LOGS, error_message))

    follow_until_idle(indexer, clock)

    assert indexer.canonical_logs() == fake_chain.logs()


@ALIVE
@parametrize_rows(RefusedFeature.RATE, RefusedFeature.HEAD)
def test_temporary_refusal_is_retried(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    row: ProviderMessage,
    *,
    is_alone: bool,
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=is_alone
    )
    fault = build_row_fault(row, {"methods": "eth_getLogs", "times": 3})
    provider.faults.append(fault)

    follow_until_idle(indexer, clock)

    assert fault.hit_count == 3
    assert indexer.canonical_logs() == fake_chain.logs()


@ALIVE
@parametrize_rows(RefusedFeature.HISTORY)
def test_pruned_history_is_never_read_as_empty(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    row: ProviderMessage,
    *,
    is_alone: bool,
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=is_alone
    )
    provider.faults.append(build_row_fault(row, {"methods": "eth_getLogs"}))

    for _ in range(5):
        with pytest.raises(TransientError):
            indexer.step()
        clock.advance(60)
    provider.faults.clear()
    follow_until_idle(indexer, clock)

    assert indexer.canonical_logs() == fake_chain.logs()


@ALIVE
@parametrize_rows(RefusedFeature.METHOD)
@pytest.mark.parametrize("is_proven", [True, False], ids=["proven", "unproven"])
def test_unsupported_method_is_replaced_by_its_fallback(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    row: ProviderMessage,
    *,
    is_alone: bool,
    is_proven: bool,
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=is_alone
    )
    if not is_proven:
        indexer.source.configure_verification(MINIMAL_POLICY, Calibration(clock))
    refused = build_row_fault(row, {"methods": "eth_getBlockReceipts"})
    by_hash = build_row_fault(
        row, {"when": lambda request: request.method == "eth_getLogs" and request.is_by_block_hash}
    )
    provider.faults += [refused, by_hash, message_faults.build_result_limit_fault(LOGS)]

    follow_until_idle(indexer, clock)

    assert indexer.canonical_logs() == fake_chain.logs()


def build_json_batch_rejection(row: ProviderMessage) -> InjectedFault:
    """Return a fault with one JSON-RPC error for the whole batch."""
    message = row.example.format(method="eth_getBlockByNumber", limit=1)

    def replace_batch(requests: object, answers: list[dict[str, object]]) -> object:
        error = {"code": row.code, "message": message}
        is_batch = len(answers) > 1
        return {"jsonrpc": "2.0", "id": None, "error": error} if is_batch else answers

    return InjectedFault("batch refused, JSON", change_batch=replace_batch)


def build_text_batch_rejection(status: int) -> Callable[[ProviderMessage], InjectedFault]:
    """Return a fault with plain text for the whole batch, under an HTTP status."""

    def fault(row: ProviderMessage) -> InjectedFault:
        message = row.example.format(method="eth_getBlockByNumber", limit=1)
        refusal = HttpResponse(status, message.encode(), {"Content-Type": "text/plain"})

        def replace_batch(requests: object, answers: list[dict[str, object]]) -> object:
            return refusal if len(answers) > 1 else answers

        return InjectedFault("batch refused, text", change_batch=replace_batch)

    return fault


@ALIVE
@parametrize_rows(RefusedFeature.BATCH)
@pytest.mark.parametrize(
    "refusal",
    [
        build_json_batch_rejection,
        build_text_batch_rejection(200),
        build_text_batch_rejection(400),
        build_text_batch_rejection(500),
    ],
    ids=["JSON", "text 200", "text 400", "text 500"],
)
def test_refused_batch_is_resent_as_single_requests(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    row: ProviderMessage,
    refusal: Callable[[ProviderMessage], InjectedFault],
    *,
    is_alone: bool,
):
    indexer, provider = open_indexer_with_last_endpoint(
        fake_chain, open_indexer, clock, is_alone=is_alone
    )
    fault = refusal(row)
    provider.faults.append(fault)

    follow_until_idle(indexer, clock)
    answers = list_endpoints(indexer)[-1].client.send_mixed_batch(
        [("eth_chainId", []), ("net_version", [])]
    )

    assert indexer.canonical_logs() == fake_chain.logs()
    assert len(answers) == 2
    assert list_endpoints(indexer)[-1].client.batch_limit == 1
    # The batch was halved a few times, not once per batch.
    assert 0 < fault.hit_count <= 10
