"""Which relay figures fail the demo's check: a Q_long that the rows do not explain."""

import pytest

from devnet.relay.relay_show import RelayNodeComparison
from oracle.domain.ids import Address


def reading(relays: float, lowest: float, highest: float) -> RelayNodeComparison:
    return RelayNodeComparison(
        name="hopeless",
        node=Address("0x" + "11" * 20),
        status="available",
        long_term=highest,
        lowest=lowest,
        highest=highest,
        relays=relays,
        reliability=1.0,
        zeros=0,
        equal=True,
        audit="agrees",
    )


@pytest.mark.parametrize(
    ("relays", "is_within"),
    [(0.15, False), (0.16, True), (0.18, True), (0.2, True), (0.2 + 1e-12, True), (0.21, False)],
)
def test_relay_figure_outside_its_bounds_fails_the_check(relays: float, *, is_within: bool):
    assert reading(relays, 0.16, 0.2).is_within_bound is is_within


def test_relay_figure_that_differs_from_an_exact_figure_fails_the_check():
    """Before silent members were derived, the demo showed 0.2000 beside 0.1500 and passed."""
    assert not reading(0.15, 0.2, 0.2).is_within_bound
    assert reading(0.15, 0.15, 0.15).is_within_bound
