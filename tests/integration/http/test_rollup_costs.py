"""A rollup's fees beside gas, from endpoints that may be wrong."""

from collections.abc import Iterator

import pytest

from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.txmgr.client.l1_fees import L1Fee, fetch_l1_fee, fetch_operator_fee
from tests.pools import view_of
from tests.support.sending.faults import Fault, drop_response, respond_with, return_error
from tests.support.sending.proxy import Proxy, run_proxy

CALL = "eth_call"
THOUSAND = 1_000


@pytest.fixture
def three() -> Iterator[tuple[Proxy, ...]]:
    """Yield three endpoints without a chain, whose responses the test sets."""
    with (
        run_proxy("http://127.0.0.1:9") as first_endpoint,
        run_proxy("http://127.0.0.1:9") as second_endpoint,
        run_proxy("http://127.0.0.1:9") as third_endpoint,
    ):
        yield first_endpoint, second_endpoint, third_endpoint


def create_pool_view(*proxies: Proxy) -> PoolView:
    return view_of(*(endpoint.url for endpoint in proxies))


def word(number: int) -> Fault:
    return respond_with(f"0x{number:064x}")


def test_single_endpoint_cannot_change_the_l1_fee(
    three: tuple[Proxy, ...],
):
    honest, second_honest, liar = three
    for endpoint in (honest, second_honest):
        endpoint.rule(CALL, word(THOUSAND))
    for lie in (10**27, 0):
        liar.heal()
        liar.rule(CALL, word(lie))
        # The fee for the data, and the operator's fee.
        assert (
            fetch_l1_fee(create_pool_view(liar, honest, second_honest), L1Fee.OPTIMISM, "0x", 1)
            == 2 * THOUSAND
        )
    liar.heal()
    liar.rule(CALL, word(10**27))
    assert fetch_l1_fee(create_pool_view(liar, honest), L1Fee.OPTIMISM, "0x", 1) == 2 * THOUSAND
    assert fetch_operator_fee(create_pool_view(liar, honest), L1Fee.OPTIMISM, 1) == THOUSAND


@pytest.mark.parametrize(
    "silence",
    [drop_response(), return_error("rate limit exceeded"), word(2**255), respond_with("0x")],
)
def test_endpoint_that_returns_no_l1_fee_is_skipped(three: tuple[Proxy, ...], silence: Fault):
    honest, silent, _ = three
    honest.rule(CALL, word(THOUSAND))
    silent.rule(CALL, silence)
    assert fetch_l1_fee(create_pool_view(silent, honest), L1Fee.OPTIMISM, "0x", 1) == 2 * THOUSAND
    with pytest.raises(TransientError):
        fetch_l1_fee(create_pool_view(silent), L1Fee.OPTIMISM, "0x", 1)


def test_operator_fee_is_zero_on_a_chain_without_it(three: tuple[Proxy, ...]):
    old = three[0]
    old.rule(CALL, return_error("execution reverted", 3))
    assert fetch_operator_fee(create_pool_view(old), L1Fee.OPTIMISM, 21_000) == 0
    assert fetch_operator_fee(create_pool_view(old), L1Fee.NONE, 21_000) == 0
    assert fetch_operator_fee(create_pool_view(old), L1Fee.ARBITRUM, 21_000) == 0
