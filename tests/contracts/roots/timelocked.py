"""An oracle whose admin is OpenZeppelin's timelock;
the oracle is the timelock's only canceller.
"""

from dataclasses import dataclass, replace
from typing import Any

from web3 import Web3
from web3.contract import Contract

from tests.contracts.roots.roots_driver import ZERO, RootsOracle, deploy_roots
from tests.support.evm.chain import Chain, Receipt, encode_calldata

DAY = 86_400
DELAY = 2 * DAY
NO_PREDECESSOR = bytes(32)
SALT = b"\x05" * 32
CANCELLER = bytes(Web3.keccak(text="CANCELLER_ROLE"))


@dataclass(frozen=True)
class LockedRoots:
    """An oracle whose admin is a timelock, of which the oracle is the only canceller."""

    oracle: RootsOracle
    timelock: Contract
    proposer: str
    new_vetoer: str

    def copy(self) -> "LockedRoots":
        """Return this oracle for a test that changes its signers or its last round."""
        return replace(self, oracle=replace(self.oracle))

    def schedule(self, *calls: Any, delay: int = DELAY, sender: str = "") -> Receipt:
        call = self.timelock.functions.scheduleBatch(*self.batch(*calls), delay)
        return self.oracle.send(call, sender=sender or self.proposer)

    def carry_out(self, *calls: Any) -> Receipt:
        return self.oracle.send(self.timelock.functions.executeBatch(*self.batch(*calls)))

    def batch(self, *calls: Any) -> tuple[Any, ...]:
        inputs = [encode_calldata(call) for call in calls]
        addresses = [call.address for call in calls]
        return addresses, [0] * len(calls), inputs, NO_PREDECESSOR, SALT

    def operation(self, *calls: Any) -> bytes:
        return bytes(self.timelock.functions.hashOperationBatch(*self.batch(*calls)).call())

    def cancel(self, *calls: Any, sender: str = "") -> Receipt:
        """Let the vetoer cancel a scheduled batch through the oracle."""
        vetoer = sender or self.oracle.vetoer
        return self.oracle.do("cancelOperation", self.operation(*calls), sender=vetoer)

    def offer(self, to: str = "") -> Receipt:
        return self.oracle.do("offerVetoer", to or self.new_vetoer, sender=self.proposer)


def deploy_locked(chain: Chain, **changes: Any) -> LockedRoots:
    """Deploy a timelock, and an oracle with it as admin;
    `changes` are those of the oracle's setup.
    """
    deployer, proposer, new_vetoer = chain.accounts[5:8]
    timelock = chain.deploy("TimelockController", DELAY, [proposer], [ZERO], deployer)
    oracle = deploy_roots(chain, admin=timelock.address, **changes)
    does = timelock.functions
    for call in (
        does.grantRole(CANCELLER, oracle.contract.address),
        does.revokeRole(CANCELLER, proposer),
        does.renounceRole(bytes(32), deployer),
    ):
        chain.send(call, sender=deployer)
    oracle = replace(oracle, admin=timelock.address)
    return LockedRoots(oracle, timelock, proposer, new_vetoer)
