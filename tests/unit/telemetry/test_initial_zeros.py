"""Counters start at an exported 0: alerts on an increase would miss a series that starts at 1."""

import pytest

from oracle.chain.verification.calibration import HeaderFeature
from oracle.telemetry.metrics import REGISTRY
from oracle.telemetry.rpc_metrics import CHECKS
from oracle.txmgr.client.send_raw import SendOutcome, init_broadcast_metrics
from tests.pools import pool_of


def get_sample(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"oracle_{name}_total", labels)


def test_endpoint_counters_start_at_zero():
    (endpoint,) = pool_of("http://a-new-one.example")
    for check in CHECKS:
        assert get_sample("endpoint_inconsistent", endpoint=endpoint.name, check=check) == 0
    assert get_sample("verify_missing_logs", endpoint=endpoint.name) == 0


def test_broadcast_counter_starts_at_zero_for_unknown_result():
    init_broadcast_metrics(pool_of("http://a-new-pool.example"))
    name = "http://a-new-pool.example"
    assert get_sample("txmgr_broadcasts", endpoint=name, result=SendOutcome.UNKNOWN) == 0


@pytest.mark.parametrize("feature", HeaderFeature)
def test_feature_counters_start_at_zero(feature: HeaderFeature):
    assert get_sample("verification_downgrades", feature=feature) is not None
    assert feature in CHECKS
