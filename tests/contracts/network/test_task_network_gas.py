"""What the reference network's transactions cost is what is written down in network_gas.json."""

import json

import pytest

from tests.contracts.network_gas import KEPT, measured
from tests.support.evm.chain import Chain

pytestmark = [pytest.mark.evm, pytest.mark.slow]

TOLERANCE = 0.01


def test_gas_of_every_transaction_matches_recorded_values(chain: Chain):
    """`.venv/bin/python tests/contracts/network_gas.py` writes it down anew."""
    kept: dict[str, int] = json.loads(KEPT.read_text("utf-8"))
    found = measured(chain)
    assert found.keys() == kept.keys()
    off = {
        name: (gas, kept[name])
        for name, gas in found.items()
        if abs(gas - kept[name]) > TOLERANCE * kept[name]
    }
    assert off == {}
