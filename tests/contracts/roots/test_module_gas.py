"""The gas of reads and transactions of the roots' modules equals module_gas.json."""

import json

import pytest

from tests.contracts.roots.module_gas import KEPT, measure
from tests.support.evm.chain import Chain

# A signature and a hash have a different number of zero bytes each time, which cost less.
TOLERANCE = 0.01


@pytest.mark.nightly
def test_gas_of_reads_and_modules_matches_recorded_values(chain: Chain) -> None:
    """`.venv/bin/python tests/contracts/roots/module_gas.py` records all values,
    including large rounds.
    """
    recorded: dict[str, int] = json.loads(KEPT.read_text("utf-8"))
    gas_by_name = measure(chain, sizes=(1_000,), read_sizes=(10, 100, 1_000))
    assert gas_by_name.keys() <= recorded.keys()
    assert {
        name: (gas, recorded[name])
        for name, gas in gas_by_name.items()
        if abs(gas - recorded[name]) > TOLERANCE * recorded[name]
    } == {}
