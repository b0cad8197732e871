"""Gas of the oracle of roots, compared with the recorded figures."""

import json

import pytest

from tests.contracts.roots.roots_gas import KEPT_GAS, SIGNERS, measure_roots
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil
from tests.support.evm.chain import Chain

pytestmark = pytest.mark.evm


@pytest.mark.slow
@pytest.mark.nightly
def test_gas_of_roots_is_within_1_percent_of_recorded_values():
    recorded = json.loads(KEPT_GAS.read_text("utf-8"))
    with run_anvil(*FREE_BY_HAND) as url:
        chain = Chain(url)
        gas_by_name = measure_roots(chain, SIGNERS)
        chain.close()
    assert gas_by_name.keys() == recorded.keys()
    for name, gas in gas_by_name.items():
        assert abs(gas - recorded[name]) <= recorded[name] // 100, name


def test_recorded_push_gas_does_not_depend_on_node_count():
    recorded = json.loads(KEPT_GAS.read_text("utf-8"))
    for quorum in (1, 3, 5):
        figures = [
            gas for name, gas in recorded.items() if name.endswith(f"nodes, quorum {quorum}")
        ]
        assert max(figures) - min(figures) < 100
