"""A counter that is born at 1 has risen by nothing: alerts see a zero of each before the first."""

import pytest

from oracle.chain.verification.calibration import HeaderFeature
from oracle.rpc.client import Endpoint
from oracle.rpc.endpoints.endpoint import EndpointRoll
from oracle.rpc.views.fanout import JsonRpcClient, PoolView
from oracle.telemetry.metrics import REGISTRY
from oracle.telemetry.rpc_metrics import CHECKS
from oracle.txmgr.client.send_errors import SendOutcome
from oracle.txmgr.client.send_raw import show_zeros


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"oracle_{name}_total", labels)


def test_an_endpoint_starts_with_zeros():
    (endpoint,) = EndpointRoll([Endpoint("http://a-new-one.example")], lambda: 0.0)
    for check in CHECKS:
        assert shown("endpoint_inconsistent", endpoint=endpoint.label, check=check) == 0
    assert shown("verify_missing_logs", endpoint=endpoint.name) == 0


def test_what_is_sent_to_starts_with_a_zero_of_words_that_nobody_knows():
    show_zeros(PoolView([JsonRpcClient("http://a-new-pool.example")]))
    told = shown("publisher_broadcasts", endpoint="a-new-pool.example", result=SendOutcome.UNKNOWN)
    assert told == 0


@pytest.mark.parametrize("trait", HeaderFeature)
def test_a_trait_of_the_chain_starts_with_a_zero(trait: HeaderFeature):
    assert shown("chain_trust_lost", trait=trait) is not None
    assert trait in CHECKS
