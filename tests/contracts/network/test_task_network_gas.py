"""The gas of the reference network's transactions equals network_gas.json."""

import json

import pytest

from tests.contracts.network_gas import KEPT, measure_gas
from tests.support.evm.chain import Chain

pytestmark = [pytest.mark.evm, pytest.mark.slow]

TOLERANCE = 0.01


def test_gas_of_every_transaction_matches_recorded_values(chain: Chain):
    """`.venv/bin/python tests/contracts/network_gas.py` records the values."""
    recorded_gas: dict[str, int] = json.loads(KEPT.read_text("utf-8"))
    gas_by_name = measure_gas(chain)
    assert gas_by_name.keys() == recorded_gas.keys()
    off = {
        name: (gas, recorded_gas[name])
        for name, gas in gas_by_name.items()
        if abs(gas - recorded_gas[name]) > TOLERANCE * recorded_gas[name]
    }
    assert off == {}
