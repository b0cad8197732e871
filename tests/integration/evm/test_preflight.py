"""A call is simulated on every endpoint before it is sent; no single one decides."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.qos_roots import RootsContract, encode_clear_accusation_call
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, preflight
from oracle.txmgr.client.receipts import SimulatedCall, fetch_receipts
from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import RootsOracle, deploy_roots
from tests.pools import caller_of, view_of
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.faulty_endpoint import Fault, FaultyEndpoint, run_faulty_endpoint

__all__ = ["chain", "fresh_chain"]

ME = Address("0x" + 40 * "1")
# The contract refuses it, because the node is not accused.
REFUSED_CALL = encode_clear_accusation_call(replace(make_leaves(1)[0], node=ME), [])


@pytest.fixture(scope="module")
def oracle(fresh_chain: Chain) -> RootsOracle:
    return deploy_roots(fresh_chain)


@pytest.fixture
def endpoint(fresh_chain: Chain) -> Iterator[FaultyEndpoint]:
    with run_faulty_endpoint(fresh_chain.url) as standing:
        yield standing


@pytest.fixture
def pool_view(fresh_chain: Chain, endpoint: FaultyEndpoint) -> PoolView:
    """Return a healthy endpoint, and one that fails on request."""
    return view_of(fresh_chain.url, endpoint.url)


def address_of(oracle: RootsOracle) -> Address:
    return Address(oracle.contract.address.lower())


def simulate_call(pool_view: PoolView, oracle: RootsOracle, calldata: str) -> PreflightResult:
    return preflight(pool_view, SimulatedCall(ME, address_of(oracle), calldata), decode_refusal)


def test_successful_preflight_returns_a_gas_estimate(oracle: RootsOracle, pool_view: PoolView):
    reading = oracle.contract.functions.head()._encode_transaction_data()
    verdict = simulate_call(pool_view, oracle, reading)
    assert (verdict.outcome, verdict.gas > 21_000) == (PreflightOutcome.OK, True)


def test_reverted_preflight_returns_the_contract_error(oracle: RootsOracle, pool_view: PoolView):
    verdict = simulate_call(pool_view, oracle, REFUSED_CALL)
    assert (verdict.outcome, verdict.reason) == (PreflightOutcome.REFUSED, f"NoKick({ME})")


def test_unresponsive_endpoint_is_skipped(
    oracle: RootsOracle, pool_view: PoolView, endpoint: FaultyEndpoint
):
    endpoint.faults["eth_call"] = Fault.SWALLOW
    reading = oracle.contract.functions.head()._encode_transaction_data()
    assert simulate_call(pool_view, oracle, reading).outcome is PreflightOutcome.OK
    # A revert may end the call, so a second provider has to confirm it.
    assert simulate_call(pool_view, oracle, REFUSED_CALL).outcome is PreflightOutcome.UNKNOWN


def test_rate_limit_is_not_treated_as_revert(
    oracle: RootsOracle, fresh_chain: Chain, endpoint: FaultyEndpoint
):
    endpoint.faults["eth_call"] = "rate limit exceeded"
    verdict = simulate_call(view_of(endpoint.url), oracle, REFUSED_CALL)
    assert verdict.outcome is PreflightOutcome.UNKNOWN


def test_preflight_is_unknown_if_endpoints_disagree(
    oracle: RootsOracle, pool_view: PoolView, endpoint: FaultyEndpoint
):
    endpoint.faults["eth_call"] = "execution reverted"
    reading = oracle.contract.functions.head()._encode_transaction_data()
    verdict = simulate_call(pool_view, oracle, reading)
    assert verdict.outcome is PreflightOutcome.UNKNOWN
    assert "disagree" in verdict.reason


def test_view_reverted_by_one_endpoint_is_read_from_the_next(
    oracle: RootsOracle, fresh_chain: Chain, endpoint: FaultyEndpoint
):
    endpoint.faults["eth_call"] = "execution reverted"
    data = oracle.contract.functions.head()._encode_transaction_data()
    view = {"to": oracle.contract.address, "data": data}
    view_of_both = view_of(endpoint.url, fresh_chain.url)
    assert view_of_both.request("eth_call", view, "latest") not in {None, "0x"}


def test_receipt_is_found_while_another_endpoint_is_silent(
    fresh_chain: Chain, pool_view: PoolView, endpoint: FaultyEndpoint
):
    sent = fresh_chain.transact(to=fresh_chain.accounts[1], data="0x").raw["transactionHash"]
    endpoint.faults["eth_getTransactionReceipt"] = Fault.SWALLOW
    (receipt,) = fetch_receipts(pool_view, [sent]).values()
    assert (receipt.hash, receipt.succeeded, receipt.gas_used) == (sent, True, 21_000)


def test_transient_error_is_raised_if_no_endpoint_responds(endpoint: FaultyEndpoint):
    endpoint.faults["eth_getTransactionReceipt"] = Fault.SWALLOW
    with pytest.raises(TransientError, match="unreachable: "):
        fetch_receipts(view_of(endpoint.url), [Hash("0x" + 64 * "7")])


def test_contract_status_is_read_at_a_single_block(oracle: RootsOracle, pool_view: PoolView):
    standing = RootsContract(pool_view, address_of(oracle)).fetch_status()
    assert (standing.head.round, standing.head.quorum, standing.head.config_count) == (0, 2, 1)
    assert standing.limits.anchor_window == 8_000
    assert standing.block.number == oracle.chain.block


def test_address_without_oracle_contract_is_reported(pool_view: PoolView):
    with pytest.raises(TransientError, match="no QoSRoots contract at 0x1111"):
        RootsContract(pool_view, ME).fetch_status()


def test_revert_error_contains_the_return_data(oracle: RootsOracle, fresh_chain: Chain):
    line = caller_of(fresh_chain.url)
    with pytest.raises(CallRefusedError) as refused:
        line.request(
            "eth_call",
            {"to": oracle.contract.address, "data": REFUSED_CALL},
            "latest",
        )
    assert (refused.value.data or "").endswith(ME[2:])
    line.endpoint.close()
