"""The money of the reference network: floors, tolls, gas; each constant by name."""

import pytest

from lab.closed_loop.economics import GWEI_PER_COIN, Economics, GasAction


def test_min_fee_and_min_timeout_grow_with_size():
    economics = Economics(base_fee=10, unit_fee=3, base_seconds=60, unit_seconds=5)
    assert [economics.compute_min_fee(size) for size in (0, 1, 10)] == [10, 13, 40]
    assert [economics.compute_min_timeout(size) for size in (0, 1, 10)] == [60, 65, 110]


def test_min_fee_covers_gpu_time_of_min_timeout():
    economics = Economics()
    for size in (0, 1, 50, 1000):
        assert (
            economics.compute_min_fee(size)
            >= economics.compute_min_timeout(size) * economics.gpu_second
        )


def test_timeout_toll_is_the_minimum_fee_but_never_more_than_the_fee():
    economics = Economics(base_fee=10, unit_fee=0)
    assert economics.compute_toll(1, 500) == 10
    assert economics.compute_toll(1, 4) == 4
    assert economics.with_changes({"tolls": "false"}).compute_toll(1, 500) == 0


def test_gas_cost_is_gas_times_gas_price():
    economics = Economics(gas_price=2 * 10**9)
    assert economics.compute_gas_cost(GasAction.JOIN) == 2 * 107_180


def test_hosting_cost_is_proportional_to_time():
    assert Economics(node_hour=GWEI_PER_COIN).compute_hosting_cost(1800) == GWEI_PER_COIN // 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tol": "1"}, "tol: no such parameter"),
        ({"tolls": "maybe"}, "tolls: must be true or false"),
        ({"base_fee": "-1"}, "base_fee: must be a whole number"),
        ({"base_fee": "1.5"}, "base_fee: must be a whole number"),
    ],
)
def test_invalid_network_setting_is_named_in_the_error(changes, message):
    with pytest.raises(ValueError, match=message):
        Economics().with_changes(changes)
