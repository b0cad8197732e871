"""Deploys a kickout adapter on a third-party network, and reads how a kickout ended."""

from dataclasses import dataclass

from devnet.crynux.crynux_network import CrynuxNetwork
from devnet.demo.stage import ChainClock
from oracle.bindings.kick_targets import (
    build_adapter_creation_code,
    build_role_change,
    find_default_kick_target,
)
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address
from oracle.errors import FatalError

_GAS = hex(3_000_000)
_KICKED_OUT_EVENT = "NodeKickedOut"


@dataclass(frozen=True, slots=True)
class NetworkKickoutResult:
    """The transactions of a node's kickout, and the stake that is still held.

    The stake is in wei.
    """

    transactions: tuple[str, ...]
    stake: int

    def list_faults(self, name: str) -> list[str]:
        """List the missing parts of the kickout, one per line."""
        faults = []
        if not self.transactions:
            faults.append(f"the network emitted no {_KICKED_OUT_EVENT} event for {name}")
        if self.stake:
            faults.append(f"the network still holds {self.stake} wei of the stake of {name}")
        return faults


def deploy_adapter(network: CrynuxNetwork, clock: ChainClock, oracle: Address) -> Address:
    """Deploy the profile's adapter for an oracle contract, and grant it a role in the network.

    Raises:
        FatalError: the profile has no adapter.
    """
    target = find_default_kick_target(network.profile)
    if target is None or target.artifact is None:
        raise FatalError(f"{network.profile}: there is no kickout adapter for this profile")
    contracts, owner = network.contracts, network.owner
    code = build_adapter_creation_code(target, oracle, owner, contracts)
    (receipt,) = network.chain.mine_and_check_receipts(
        clock.advance(), [{"from": owner, "data": code, "gas": _GAS}]
    )
    adapter_address = Address(str(receipt["contractAddress"]).lower())
    role_change = build_role_change(target, adapter_address, contracts)
    network.mine_transactions(
        clock, [{"from": owner, "to": role_change.to, "data": role_change.calldata, "gas": _GAS}]
    )
    return adapter_address


def fetch_kickout_result(network: CrynuxNetwork, node: Address) -> NetworkKickoutResult:
    """Fetch the kickout of a node that the network's contracts have recorded."""
    log_filter = {
        "address": network.contracts["Node"],
        "fromBlock": "0x0",
        "toBlock": "latest",
        "topics": [load_abi(network.artifacts["Node"]).get_event(_KICKED_OUT_EVENT).digest],
    }
    logs = network.chain.make_request("eth_getLogs", log_filter)
    transaction_hashes = tuple(
        log["transactionHash"] for log in logs if log["data"].endswith(node[2:])
    )
    stake_call = network.build_transaction(network.owner, "Node", "getStakedAmount", node)
    return NetworkKickoutResult(
        transaction_hashes, int(network.chain.make_request("eth_call", stake_call, "latest"), 16)
    )
