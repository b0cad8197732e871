"""Gas prices from endpoints that may be wrong."""

from collections.abc import Iterator

import pytest

from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.signing.signer import Fees
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.client.fee_quote import (
    FeeMarket,
    SendLimits,
    combine_fee_markets,
    fetch_fee_market,
    parse_required_fees,
)
from tests.pools import pool_of
from tests.support.sending.faults import Fault, respond_with, return_error
from tests.support.sending.proxy import Proxy, run_proxy

GWEI = 10**9
CAPS = SendLimits(fee_per_gas=100 * GWEI, cost_per_transaction=1, cost_per_day=1, min_tip=7)
HISTORY, BLOCK = "eth_feeHistory", "eth_getBlockByNumber"


@pytest.fixture
def two() -> Iterator[tuple[Proxy, Proxy, PoolView]]:
    """Yield two endpoints without a chain, whose responses the test sets."""
    with (
        run_proxy("http://127.0.0.1:9") as first_endpoint,
        run_proxy("http://127.0.0.1:9") as second_endpoint,
    ):
        pool = pool_of(first_endpoint.url, second_endpoint.url)
        yield first_endpoint, second_endpoint, pool.create_view()
        pool.close()


def history(base_fee: int, *tips: int) -> Fault:
    return respond_with(
        {"baseFeePerGas": ["0x1", hex(base_fee)], "reward": [[hex(tip)] for tip in tips]}
    )


@pytest.mark.parametrize(
    "nonsense",
    [
        history(10**30),
        history(-1),
        history(GWEI, 10**30),
        respond_with({}),
        respond_with(None),
        respond_with("no"),
        respond_with({"baseFeePerGas": []}),
        respond_with({"baseFeePerGas": ["x"]}),
        respond_with({"baseFeePerGas": ["0x1"], "reward": [5]}),
    ],
)
def test_endpoint_with_an_invalid_fee_history_is_skipped(
    two: tuple[Proxy, Proxy, PoolView], nonsense: Fault
):
    first_endpoint, second_endpoint, lines = two
    first_endpoint.rule(HISTORY, nonsense)
    second_endpoint.rule(HISTORY, history(3 * GWEI, 5, 9, 11))
    assert fetch_fee_market(lines, CAPS) == FeeMarket(3 * GWEI, 9)

    second_endpoint.heal()
    second_endpoint.rule(HISTORY, nonsense)
    with pytest.raises(TransientError):
        fetch_fee_market(lines, CAPS)


def test_latest_market_fees_and_fee_cap_are_exported_as_metrics(
    two: tuple[Proxy, Proxy, PoolView],
):
    first_endpoint, second_endpoint, lines = two
    first_endpoint.rule(HISTORY, history(3 * GWEI, 9))
    second_endpoint.rule(HISTORY, history(2 * GWEI, 9))
    fetch_fee_market(lines, CAPS)

    gauges = {
        name: REGISTRY.get_sample_value(f"oracle_txmgr_{name}_wei")
        for name in ("base_fee", "tip", "fee_cap")
    }
    assert gauges == {"base_fee": 3 * GWEI, "tip": 9, "fee_cap": 100 * GWEI}


def test_fees_come_from_the_newest_block_without_fee_history(
    two: tuple[Proxy, Proxy, PoolView],
):
    for endpoint in two[:2]:
        endpoint.rule(HISTORY, return_error("the method eth_feeHistory does not exist", -32601))
        endpoint.rule(BLOCK, respond_with({"baseFeePerGas": hex(2 * GWEI)}))
    assert fetch_fee_market(two[2], CAPS) == FeeMarket(2 * GWEI, CAPS.min_tip)


def test_chain_without_base_fee_raises_transient_error(two: tuple[Proxy, Proxy, PoolView]):
    for endpoint in two[:2]:
        endpoint.rule(HISTORY, return_error("the method eth_feeHistory does not exist", -32601))
        endpoint.rule(BLOCK, respond_with({"number": "0x1"}))
    with pytest.raises(TransientError):
        fetch_fee_market(two[2], CAPS)


def test_single_endpoint_cannot_distort_market_fees():
    markets = [FeeMarket(10, 50), FeeMarket(10**6, 3), FeeMarket(0, 9)]
    assert combine_fee_markets(markets, 1000) == FeeMarket(10, 3)
    assert combine_fee_markets([FeeMarket(5000, 1), FeeMarket(4000, 2)], 1000) == FeeMarket(
        4000, 1
    )
    assert combine_fee_markets([], 1000) is None


@pytest.mark.parametrize(
    ("text", "required_fees"),
    [
        ("transaction underpriced: gas tip cap 1, minimum needed 3000", Fees(0, 3000)),
        ("max fee per gas less than block base fee: maxFeePerGas: 1, baseFee: 7", Fees(7, 0)),
        ("FeeTooLow, EffectivePriorityFeePerGas too low 1 < 1000, BaseFee: 9", Fees(9, 1000)),
        ("replacement transaction underpriced", Fees(0, 0)),
        ("", Fees(0, 0)),
    ],
)
def test_fee_required_by_the_mempool_is_parsed_from_the_error(text: str, required_fees: Fees):
    assert parse_required_fees(text) == required_fees
