"""A local chain whose NodeStaking stand-in holds the stakes of nodes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from devnet.anvil import LocalChain
from devnet.relay.relay_nodes import RELAY_NODES, RelayNode
from oracle.bindings.codec import build_creation_code, encode_call
from oracle.domain.ids import Address

CONTRACT_NAME, _ARTIFACT = "NodeStaking", "testing/CrynuxStaking"
_FIXED_ACCOUNTS = 2
ACCOUNTS = _FIXED_ACCOUNTS + len(RELAY_NODES)
_GAS = hex(6_000_000)
# Local accounts hold 10,000 ether, but the minimum stake of the public network is 100,000. Stakes
# are therefore divided by this number.
_STAKE_DIVISOR = 250


@dataclass(slots=True)
class StakedChain:
    """A deployed staking contract and its accounts.

    Block times follow the wall clock. Two blocks are at least one second apart. `address_by_name`
    maps the name of a demo node to its account.
    """

    chain: LocalChain
    staking_address: Address
    address_by_name: Mapping[str, Address]
    relay_nodes: Sequence[RelayNode]
    block_time: int

    def mine_block(self, transactions: Sequence[dict[str, str]] = ()) -> None:
        """Mine a block.

        None is mined if there are no transactions and this second already has a block.
        """
        now = int(time.clock_gettime(time.CLOCK_REALTIME))
        if now > self.block_time or transactions:
            self.block_time = max(now, self.block_time + 1)
            self.chain.mine_and_check_receipts(self.block_time, transactions)

    def stake_all_nodes(self) -> None:
        """Let every node deposit its stake."""
        self.mine_block([self._build_stake_transaction(node) for node in self.relay_nodes])

    def _build_stake_transaction(self, node: RelayNode) -> dict[str, str]:
        calldata = encode_call(_ARTIFACT, "stake", node.stake)
        sender = self.address_by_name[node.name]
        return {
            "from": sender,
            "to": self.staking_address,
            "data": calldata,
            "value": hex(node.stake),
            "gas": _GAS,
        }


def deploy_staked_chain(chain: LocalChain, start_time: int) -> StakedChain:
    """Deploy the stand-in contract on a new chain, where its nodes stake."""
    accounts = [Address(account.lower()) for account in chain.make_request("eth_accounts")]
    owner, receiver, *nodes = accounts
    code = build_creation_code(_ARTIFACT, receiver)
    (receipt,) = chain.mine_and_check_receipts(
        start_time + 1, [{"from": owner, "data": code, "gas": _GAS}]
    )
    staked_chain = StakedChain(
        chain=chain,
        staking_address=Address(str(receipt["contractAddress"]).lower()),
        address_by_name=dict(zip((node.name for node in RELAY_NODES), nodes, strict=True)),
        relay_nodes=[replace(node, stake=node.stake // _STAKE_DIVISOR) for node in RELAY_NODES],
        block_time=start_time + 1,
    )
    staked_chain.stake_all_nodes()
    return staked_chain
