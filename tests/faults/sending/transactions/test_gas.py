"""The gas limit of a call: estimates that fail or are too low, and blocks that are too small."""

import pytest

from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.budget import compute_gas_limit
from oracle.txmgr.client.fee_quote import compute_floor_gas
from tests.faults.sending.conftest import OpenProxy
from tests.support.harness import Harness
from tests.support.sending.faults import Answer, Fault, Question, respond_with, return_error
from tests.support.sending.in_flight import get_only_intent, list_attempts, list_slots
from tests.support.sending.proxy import SEND, Proxy

_ESTIMATE = "eth_estimateGas"


def test_case_f23_push_stays_planned_after_a_failed_gas_estimate(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    for proxy in proxies:
        proxy.rule(_ESTIMATE, return_error("internal error", -32603))
    harness.period()
    harness.tick()
    assert (get_only_intent(harness).state.value, get_only_intent(harness).error_class) == (
        "planned",
        "unknown",
    )
    assert (get_only_intent(harness).gas_limit, proxies[0].sent + proxies[1].sent) == (None, [])

    proxies[1].heal()
    harness.mine()
    harness.tick()
    assert get_only_intent(harness).state.value == "live"
    assert (get_only_intent(harness).gas_limit or 0) > 50_000


def test_case_f24_push_that_ran_out_of_gas_is_reestimated(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    for proxy in proxies:
        proxy.rule(_ESTIMATE, respond_with(hex(30_000)))
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    for proxy in proxies:
        proxy.heal()
    harness.until_final()

    failed, again = harness.intents()
    assert (failed.state.value, failed.error_class) == ("reverted", "out_of_gas")
    assert (again.state.value, again.request.calldata) == ("live", failed.request.calldata)
    assert (again.gas_limit or 0) > (failed.gas_limit or 0)

    harness.mine()
    harness.until_final()
    assert (harness.testbed.round, harness.states()) == (1, ["reverted", "final"])
    assert ("landed", None) in harness.reports()
    assert len(list_slots(harness)) == 2


def test_case_f28_push_above_the_block_gas_limit_waits(
    sqlite_harness: Harness,
):
    harness, chain = sqlite_harness, sqlite_harness.testbed.chain
    chain.rpc("evm_setBlockGasLimit", hex(60_000))
    harness.period()
    harness.tick()
    assert (get_only_intent(harness).state.value, get_only_intent(harness).error_class) == (
        "planned",
        "over_block_gas",
    )
    assert "60000" in (get_only_intent(harness).error_text or "")
    assert (
        REGISTRY.get_sample_value("oracle_txmgr_over_block_gas", {"account": "transmitter"}) == 1
    )
    assert list_slots(harness) == []

    chain.rpc("evm_setBlockGasLimit", hex(30_000_000))
    harness.mine()
    harness.tick()
    harness.mine()
    assert harness.testbed.round == 1


def test_case_f28_intrinsic_gas_error_is_retried_with_more_gas(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    for proxy in proxies:
        # The estimates of both endpoints are too low for their own pools.
        proxy.rule(
            SEND, return_error("intrinsic gas too low: gas 400000, minimum needed 410000"), times=1
        )
        proxy.rule(_ESTIMATE, respond_with(hex(400_000)))
    harness.period()
    harness.tick()
    assert list_attempts(harness)[0].last_error_class == "intrinsic"

    harness.mine()
    harness.tick()
    first, second = list_attempts(harness)
    assert second.signed.gas_limit == first.signed.gas_limit * 5 // 4
    harness.mine()
    assert harness.testbed.round == 1


def test_gas_limit_is_never_below_the_calldata_floor():
    calldata = "0x" + 1000 * "11" + 100 * "00"
    assert compute_floor_gas(calldata) == 21_000 + 10 * (4 * 1000 + 100)
    assert compute_gas_limit(22_000, calldata, 30_000_000) == compute_floor_gas(calldata)
    assert compute_gas_limit(1_000_000, calldata, 30_000_000) == 1_210_000
    assert compute_gas_limit(1_000_000, calldata, 1_100_000) == 1_100_000
    assert compute_gas_limit(1_000_000, calldata, 900_000) is None


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("absurd", [10**9, 25_000])
def test_absurd_gas_estimate_of_one_endpoint_does_not_delay_push(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int, absurd: int
):
    harness = proxied_harness
    proxies[place].rule(_ESTIMATE, respond_with(hex(absurd)))
    harness.pushed()
    # With less gas it would have failed, with more it would still be waiting.
    assert 50_000 < (get_only_intent(harness).gas_limit or 0) < 10**6
    assert list_slots(harness)[0].succeeded


def test_absurd_gas_estimate_that_one_of_three_endpoints_insists_on_does_not_delay_push(
    sqlite_harness: Harness, open_proxy: OpenProxy
):
    harness = sqlite_harness
    proxies = [open_proxy() for _ in range(3)]
    harness.restart(urls=[endpoint_proxy.url for endpoint_proxy in proxies])
    proxies[2].rule(_ESTIMATE, respond_with(hex(10**9)))
    proxies[2].rule(
        "eth_call", return_error("out of gas"), when=lambda call: "gas" in call["params"][0]
    )
    harness.pushed()
    assert (get_only_intent(harness).gas_limit or 0) < 10**6


@pytest.mark.parametrize("place", [0, 1])
def test_tiny_block_gas_limit_of_one_endpoint_does_not_delay_push(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int
):
    harness = proxied_harness
    harness.period()
    harness.index()

    def tiny(_request: Question, response: Answer) -> Answer:
        block = response.get("result")
        return {**response, "result": block and {**block, "gasLimit": "0x5208"}}

    proxies[place].rule("eth_getBlockByNumber", Fault(answer=tiny))
    harness.tick()
    assert harness.states() == ["live"]
