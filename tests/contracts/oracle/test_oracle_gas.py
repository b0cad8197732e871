"""What the oracle's transactions cost is what is written down in gas.json."""

import json

import pytest

from tests.contracts.gas import KEPT, measured
from tests.support.evm.chain import Chain

pytestmark = [pytest.mark.evm, pytest.mark.slow]

# A compiler or a guard that costs more than this is to be seen; zero bytes in hashes are not.
TOLERANCE = 0.01


def test_every_transaction_costs_what_is_written_down(chain: Chain):
    """`.venv/bin/python tests/contracts/gas.py` writes it down anew."""
    kept: dict[str, int] = json.loads(KEPT.read_text("utf-8"))
    found = measured(chain)
    assert found.keys() == kept.keys()
    off = {name: (gas, kept[name]) for name, gas in found.items() if _is_off(gas, kept[name])}
    assert off == {}


def _is_off(found: int, kept: int) -> bool:
    return abs(found - kept) > TOLERANCE * kept
