"""A counter that is born at 1 has risen by nothing: alerts see a zero of each before the first."""

import pytest

from oracle.chain.endpoint import Endpoint
from oracle.chain.providers.roll import Roll
from oracle.chain.verifying.trust import Trait
from oracle.telemetry import outbox_metrics
from oracle.telemetry.endpoint_metrics import CHECKS
from oracle.telemetry.metrics import REGISTRY
from oracle.telemetry.outbox_metrics import OutboxFigures, Totals


@pytest.fixture(autouse=True)
def as_before():
    yield
    outbox_metrics.show(None)


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"oracle_{name}_total", labels)


def ended(outcome: str) -> float | None:
    return shown("publisher_transactions_final", kind="push", outcome=outcome)


@pytest.mark.parametrize("outcome", ["success", "reverted", "superseded", "foreign"])
def test_of_what_was_signed_every_end_is_shown_before_it_ends(outcome: str):
    outbox_metrics.show(OutboxFigures(Totals(), attempts={("push", "first"): 1}))
    assert ended(outcome) == 0


def test_of_what_has_ended_the_other_ends_are_shown_too():
    totals = Totals()
    totals.outcomes["push", "success"] = 3
    outbox_metrics.show(OutboxFigures(totals))
    assert (ended("success"), ended("foreign")) == (3, 0)


def test_an_endpoint_starts_with_zeros():
    (endpoint,) = Roll([Endpoint("http://a-new-one.example")], lambda: 0.0)
    for check in CHECKS:
        assert shown("endpoint_inconsistent", endpoint=endpoint.label, check=check) == 0
    assert shown("verify_missing_logs", endpoint=endpoint.name) == 0


@pytest.mark.parametrize("trait", Trait)
def test_a_trait_of_the_chain_starts_with_a_zero(trait: Trait):
    assert shown("chain_trust_lost", trait=trait) is not None
    assert trait in CHECKS
