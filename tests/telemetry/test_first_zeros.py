"""A counter that is born at 1 has risen by nothing: alerts see a zero of each before the first."""

import pytest

from oracle.chain.endpoint import Endpoint
from oracle.chain.providers.roll import Roll
from oracle.chain.verifying.trust import Trait
from oracle.publisher.answers import Answer
from oracle.publisher.line import Line, Lines
from oracle.publisher.sender import show_zeros
from oracle.telemetry.endpoint_metrics import CHECKS
from oracle.telemetry.metrics import REGISTRY


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"oracle_{name}_total", labels)


def test_an_endpoint_starts_with_zeros():
    (endpoint,) = Roll([Endpoint("http://a-new-one.example")], lambda: 0.0)
    for check in CHECKS:
        assert shown("endpoint_inconsistent", endpoint=endpoint.label, check=check) == 0
    assert shown("verify_missing_logs", endpoint=endpoint.name) == 0


def test_what_is_sent_to_starts_with_a_zero_of_words_that_nobody_knows():
    show_zeros(Lines([Line("http://a-new-pool.example")]))
    told = shown("publisher_broadcasts", endpoint="a-new-pool.example", result=Answer.UNKNOWN)
    assert told == 0


@pytest.mark.parametrize("trait", Trait)
def test_a_trait_of_the_chain_starts_with_a_zero(trait: Trait):
    assert shown("chain_trust_lost", trait=trait) is not None
    assert trait in CHECKS
