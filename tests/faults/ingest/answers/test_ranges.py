"""Cases 30 to 32 and 34 to 36: ranges that are rejected, truncated, or misunderstood."""

from collections import Counter
from typing import Any

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import log_faults, message_faults
from devnet.fakechain.faults.message_faults import RANGE_MESSAGES, UNKNOWN_MESSAGE, ErrorMessage
from devnet.fakechain.requests import FakeRpcError
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.verification.calibration import Calibration
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import follow_until_idle, read_metric
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY, Indexer
from tests.support.ingest.reading import build_logs, fetch_all_logs, list_log_ranges


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def fresh_indexer(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
) -> Indexer:
    """Return an indexer that has read nothing; its chain is final except for the end."""
    fake_chain.mine_empty(FINALITY)
    return open_indexer(fake_chain.urls[0], clock=clock, reports=False)


# --- too much ---


def test_case_30_silent_log_cap_at_a_round_number_is_detected(
    fresh_indexer: Indexer, fake_chain: FakeChain
):
    for _ in range(16):
        fake_chain.emit(*build_logs(10))
    fake_chain.mine_empty(FINALITY)
    cap = log_faults.build_capped_logs_fault(100)
    fake_chain.provider.faults.append(cap)

    fresh_indexer.index()

    assert fresh_indexer.canonical_logs() == fake_chain.logs()
    assert read_metric("oracle_window_splits_total", reason="may be cut off") > 0


def test_case_30_repeated_silent_log_cap_of_any_size_is_detected(
    fresh_indexer: Indexer, fake_chain: FakeChain, clock: VirtualClock
):
    """There are no receipts that could prove anything."""
    fresh_indexer.source.configure_verification(MINIMAL_POLICY, Calibration(clock))
    for _ in range(16):
        fake_chain.emit(*build_logs(10))
    fake_chain.mine_empty(FINALITY)
    first = fresh_indexer.source.fetch_window(BlockRange(0, 30), with_headers=False)
    fake_chain.provider.faults.append(log_faults.build_capped_logs_fault(len(first.logs)))
    last = fake_chain.head.number

    later_logs = fetch_all_logs(fresh_indexer.source, 31, last)

    assert [(log.block_hash, log.index) for log in [*first.logs, *later_logs]] == fake_chain.logs()


@pytest.mark.parametrize("limit", [5, 7, 30])
def test_case_31_range_with_too_many_results_is_split(
    fresh_indexer: Indexer, fake_chain: FakeChain, limit: int
):
    fake_chain.provider.faults.append(message_faults.build_result_limit_fault(limit))

    fresh_indexer.index()

    assert fresh_indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize("receipts", ["of a block", "of a transaction"])
@pytest.mark.parametrize("final", [True, False], ids=["history", "head"])
def test_case_32_oversized_block_is_read_from_its_receipts(
    fresh_indexer: Indexer, fake_chain: FakeChain, receipts: str, *, final: bool
):
    fake_chain.emit(*build_logs(12))
    fake_chain.mine_empty(FINALITY if final else 0)
    fake_chain.provider.faults.append(message_faults.build_result_limit_fault(10))
    if receipts == "of a transaction":
        fake_chain.provider.unsupported.add("eth_getBlockReceipts")

    fresh_indexer.index()

    assert fresh_indexer.canonical_logs() == fake_chain.logs()


def test_case_32_oversized_block_without_receipts_is_reported_and_retried(
    fresh_indexer: Indexer, fake_chain: FakeChain
):
    block = fake_chain.emit(*build_logs(12))
    fake_chain.mine_empty(FINALITY)
    fake_chain.provider.faults.append(message_faults.build_result_limit_fault(10))
    fake_chain.provider.unsupported |= {"eth_getBlockReceipts", "eth_getTransactionReceipt"}

    with pytest.raises(TransientError, match="its receipts are not available"):
        fetch_all_logs(fresh_indexer.source, 0, fake_chain.head.number)
    before = Counter(list_log_ranges(fake_chain.provider))
    with pytest.raises(TransientError, match="its receipts are not available"):
        fetch_all_logs(fresh_indexer.source, block.number, block.number)

    assert set(Counter(list_log_ranges(fake_chain.provider)) - before) == {
        (block.number, block.number)
    }


@pytest.mark.parametrize(
    "suggestion", ["{first}-{last}", "{last}-{first}", "1-2", "{half}-{last}"]
)
def test_case_34_range_is_halved_after_an_invalid_suggestion(
    fresh_indexer: Indexer, fake_chain: FakeChain, suggestion: str
):
    error_message = ErrorMessage(
        -32602, "query exceeds max results 9, retry with the range " + suggestion
    )
    fake_chain.provider.faults.append(build_log_limit_fault(9, error_message))

    fresh_indexer.index()

    assert fresh_indexer.canonical_logs() == fake_chain.logs()
    assert max(Counter(list_log_ranges(fake_chain.provider)).values()) == 1


def test_case_34_valid_range_suggestion_is_used(fresh_indexer: Indexer, fake_chain: FakeChain):
    error_message = ErrorMessage(-32602, "query exceeds max results 9, retry with the range 0-4")
    fake_chain.provider.faults.append(
        message_faults.build_result_limit_fault(9, error_message, times=1)
    )

    fresh_indexer.index()

    assert list_log_ranges(fake_chain.provider)[1] == (0, 4)
    assert fresh_indexer.canonical_logs() == fake_chain.logs()


def build_log_limit_fault(max_logs: int, error_message: ErrorMessage) -> InjectedFault:
    """Return a fault that rejects more than `max_logs` logs.

    The message may name the last block.
    """

    def reject_large_response(request: Any, answer: Any) -> object:
        if not isinstance(answer, list) or len(answer) <= max_logs:
            return answer
        first, last = request.block_range
        text = error_message.message.format(first=first, last=last, half=(first + last) // 2)
        return FakeRpcError(error_message.code, text)

    return InjectedFault(
        "too many", reject_large_response, limits={"methods": frozenset({"eth_getLogs"})}
    )


# --- unknown error texts ---


def test_case_35_unknown_range_error_falls_back_to_other_endpoint(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    fake_chain.mine_empty(FINALITY)
    indexer = open_indexer(*fake_chain.urls, clock=clock, reports=False)
    fake_chain.provider.faults.append(message_faults.build_range_limit_fault(3, UNKNOWN_MESSAGE))

    indexer.index()

    assert (
        list_log_ranges(fake_chain.providers[0])[0] == list_log_ranges(fake_chain.providers[1])[0]
    )
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_35_range_is_split_if_every_endpoint_rejects_it(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    fake_chain.mine_empty(FINALITY)
    indexer = open_indexer(*fake_chain.urls, clock=clock, reports=False)
    for provider in fake_chain.providers:
        provider.faults.append(message_faults.build_range_limit_fault(3, UNKNOWN_MESSAGE))

    follow_until_idle(indexer, clock)

    assert indexer.canonical_logs() == fake_chain.logs()
    for provider in fake_chain.providers:
        assert max(Counter(list_log_ranges(provider)).values(), default=0) <= 2


def test_case_36_range_is_halved_after_an_unknown_limit_error(
    fresh_indexer: Indexer, fake_chain: FakeChain, clock: VirtualClock
):
    range_limit = message_faults.build_range_limit_fault(10, RANGE_MESSAGES[2])
    fake_chain.provider.faults.append(range_limit)
    follow_until_idle(fresh_indexer, clock)
    fake_chain.provider.faults[:] = [
        message_faults.build_range_limit_fault(
            6, ErrorMessage(-32000, "Es werden zu viele Bloecke verlangt")
        )
    ]
    fake_chain.live(30)
    fake_chain.mine_empty(FINALITY)
    fresh_indexer.restart()

    follow_until_idle(fresh_indexer, clock)

    assert range_limit.hit_count == 1
    assert fresh_indexer.canonical_logs() == fake_chain.logs()
