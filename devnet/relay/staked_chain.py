"""A local chain with a stand-in of NodeStaking and the cast's stakes, as in today's Crynux."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from devnet.anvil import LocalChain
from devnet.relay.relay_cast import CAST, RelayNode
from oracle.bindings.codec import build_creation_code, encode_call
from oracle.domain.ids import Address

CONTRACT, _ARTIFACT = "NodeStaking", "testing/CrynuxStaking"
_OWNER_AND_RECEIVER = 2
ACCOUNTS = _OWNER_AND_RECEIVER + len(CAST)
_GAS = hex(6_000_000)
# The accounts of a local chain hold 10,000 ether, but the public network's minimum stake is
# 100,000.
_SMALLER = 250


@dataclass(slots=True)
class StakedChain:
    """The deployed contract and its accounts; block times follow the wall clock.

    Two blocks are at least one second apart. `address_by_name` maps the name of a cast member to
    its account.
    """

    chain: LocalChain
    staking: Address
    nodes: Mapping[str, Address]
    cast: Sequence[RelayNode]
    block_time: int

    def mine(self, sent: Sequence[dict[str, str]] = ()) -> None:
        """Mine a block, unless the current second already has one."""
        now = int(time.clock_gettime(time.CLOCK_REALTIME))
        if now > self.block_time or sent:
            self.block_time = max(now, self.block_time + 1)
            self.chain.mined(self.block_time, sent)

    def stake_all(self) -> None:
        """Let every node deposit its stake."""
        self.mine([self._stake(one) for one in self.cast])

    def _stake(self, one: RelayNode) -> dict[str, str]:
        written = encode_call(_ARTIFACT, "stake", one.stake)
        sender = self.nodes[one.name]
        return {
            "from": sender,
            "to": self.staking,
            "data": written,
            "value": hex(one.stake),
            "gas": _GAS,
        }


def staked_chain(chain: LocalChain, start_time: int) -> StakedChain:
    """Deploy the stand-in on a new chain, and let the cast stake."""
    accounts = [Address(account.lower()) for account in chain.ask("eth_accounts")]
    owner, receiver, *nodes = accounts
    code = build_creation_code(_ARTIFACT, receiver)
    (receipt,) = chain.mined(start_time + 1, [{"from": owner, "data": code, "gas": _GAS}])
    made = StakedChain(
        chain=chain,
        staking=Address(str(receipt["contractAddress"]).lower()),
        nodes=dict(zip((one.name for one in CAST), nodes, strict=True)),
        cast=[replace(one, stake=one.stake // _SMALLER) for one in CAST],
        block_time=start_time + 1,
    )
    made.stake_all()
    return made
