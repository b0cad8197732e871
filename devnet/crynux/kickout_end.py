"""The end of a kickout on a third-party network: through an adapter, with the stake returned."""

from dataclasses import dataclass

from devnet.crynux.crynux_network import CrynuxNetwork
from devnet.demo.stage import Clock
from oracle.bindings.kick_targets import build_adapter_code, build_role_change, default_kick_target
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address
from oracle.errors import FatalError

_GAS = hex(3_000_000)
_KICKED_OUT = "NodeKickedOut"


@dataclass(frozen=True, slots=True)
class KickoutOnNetwork:
    """Kickout transactions of a node, and the wei that the network still holds of its stake."""

    transactions: tuple[str, ...]
    stake: int

    def faults(self, name: str) -> list[str]:
        """Return one line per missing part of the kickout."""
        missing = []
        if not self.transactions:
            missing.append(f"the network has not said {_KICKED_OUT} of {name}")
        if self.stake:
            missing.append(f"the network still holds {self.stake} wei of {name}")
        return missing


def adapter_for(network: CrynuxNetwork, clock: Clock, oracle: Address) -> Address:
    """Deploy the profile's adapter for an oracle contract, and grant it the network's role.

    Raises:
        FatalError: the profile has no adapter.
    """
    target = default_kick_target(network.profile)
    if target is None or target.artifact is None:
        raise FatalError(f"{network.profile} has no adapter")
    given, owner = network.contracts, network.owner
    code = build_adapter_code(target, oracle, owner, given)
    (receipt,) = network.chain.mined(
        clock.next_block(), [{"from": owner, "data": code, "gas": _GAS}]
    )
    adapter = Address(str(receipt["contractAddress"]).lower())
    change = build_role_change(target, adapter, given)
    network.mine(clock, [{"from": owner, "to": change.to, "data": change.calldata, "gas": _GAS}])
    return adapter


def kickout_on(network: CrynuxNetwork, node: Address) -> KickoutOnNetwork:
    """Return how the network's contracts recorded the kickout of a node."""
    asked = {
        "address": network.contracts["Node"],
        "fromBlock": "0x0",
        "toBlock": "latest",
        "topics": [load_abi(network.artifacts["Node"]).get_event(_KICKED_OUT).digest],
    }
    logs = network.chain.ask("eth_getLogs", asked)
    told = tuple(one["transactionHash"] for one in logs if one["data"].endswith(node[2:]))
    asked_stake = network.call(network.owner, "Node", "getStakedAmount", node)
    return KickoutOnNetwork(told, int(network.chain.ask("eth_call", asked_stake, "latest"), 16))
