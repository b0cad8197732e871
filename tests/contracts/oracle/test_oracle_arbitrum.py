"""The daemon on an Arbitrum chain: it reads that chain's blocks, and ArbSys tells the contract.

Anvil is none; a stand-in at ArbSys' address tells of Anvil's own blocks.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from oracle.bindings.deployment import OracleSetup
from oracle.store.database import Store
from oracle.store.schema import migrate
from tests.contracts.oracle.test_oracle_as_of import ARB_SYS
from tests.contracts.oracle_driver import ZERO
from tests.support import office as offices
from tests.support.evm.chain import Chain
from tests.support.office import LIMITS, Office, Premises
from tests.support.txmgr.office_fixtures import fresh_chain

__all__ = ["fresh_chain"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]


@pytest.fixture
def arbitrum(chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    """A daemon whose contract was deployed for Arbitrum; nothing stands at ArbSys' address."""
    monkeypatch.setattr(offices, "OracleSetup", partial(OracleSetup, arbitrum=True))
    premises = Premises.built(chain, tmp_path)
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    migrate(url)
    with Store.open(url) as store:
        opened = Office(premises, store, tmp_path / "evidence")
        yield opened
        opened.close()


def stand_in(chain: Chain) -> None:
    here = chain.deploy("testing/ArbSysHere")
    chain.rpc("anvil_setCode", ARB_SYS, chain.rpc("eth_getCode", here.address, "latest"))


def test_daemon_pushes_to_contract_on_arbitrum(arbitrum: Office):
    chain, does = arbitrum.premises.chain, arbitrum.premises.oracle.functions
    assert does.ON_ARBITRUM().call()
    stand_in(chain)
    for _ in range(2):
        arbitrum.pushed()
    as_of = does.head().call()[1]
    assert 0 < chain.block - as_of <= LIMITS.anchor_window <= 256


def test_missing_arb_sys_prevents_sending(arbitrum: Office):
    """The contract cannot tell a block's hash: the look before sending says so."""
    arbitrum.period()
    arbitrum.tick()
    arbitrum.mine()
    arbitrum.tick()
    premises = arbitrum.premises
    assert (premises.round, premises.oracle.functions.pauser().call()) == (0, ZERO)
    assert premises.chain.rpc("eth_getCode", ARB_SYS, "latest") == "0x"
    assert "sent" not in arbitrum.journal()
