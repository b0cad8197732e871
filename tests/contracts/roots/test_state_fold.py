"""The state folded from the oracle's events equals the contract's,
after any calls and any undo.
"""

import pytest

from oracle.chain.decode.oracle_logs import LIMITS_EVENTS, ORACLE_EVENTS
from oracle.store.database import Store
from tests.contracts.roots.state_walk import StateWalk
from tests.support.contract_histories import ContractView
from tests.support.evm.chain import Chain

pytestmark = [pytest.mark.evm, pytest.mark.slow]

STEPS = 120


@pytest.mark.parametrize("seed", range(3))
def test_folded_state_equals_contract_state_after_every_call(
    chain: Chain, sqlite_url: str, seed: int
):
    with Store.open(sqlite_url) as store:
        walk = StateWalk(chain, store, seed)
        walk.play(STEPS)

        for block in sorted(walk.views, reverse=True):
            walk.undo_to(block)
            assert ContractView.of(walk.load_state()) == walk.views[block], block
    missing = {event.__name__ for event in (*ORACLE_EVENTS, *LIMITS_EVENTS)} - walk.events.keys()
    assert not missing, walk.call_counts
