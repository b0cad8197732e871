"""Deployed stand-ins of two generations of Crynux's contracts, with the cast as their nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devnet.anvil import LocalChain
from devnet.crynux.dev_keys import public_key
from devnet.demo.cast import CAST
from devnet.demo.stage import MODEL, STAKE, VERSION, Clock
from oracle.bindings.codec import build_creation_code, encode_call
from oracle.domain.ids import Address
from oracle.errors import InputError

VSS, COMMIT = "crynux-vss", "crynux-commit"
# The owner, the first creator and the relay; then one account per node, then more creators. With a
# single creator, kickouts would be held for a manual decision.
_CROWD, _MORE_CREATORS = 3, 2
ACCOUNTS = _CROWD + len(CAST) + _MORE_CREATORS
CREATOR_PLACES = (1, *range(ACCOUNTS - _MORE_CREATORS, ACCOUNTS))
_GAS = hex(6_000_000)
_GAS_TO_CREATE = hex(12_000_000)
# The maximum number of queued tasks in the commit/disclose network.
_QUEUE_LIMIT = 50
# The score of a missing task, and the sum of three at which a node is kicked out.
_VSS_QOS, _COMMIT_QOS = (10, 10), (20, 20)


@dataclass(frozen=True, slots=True)
class CrynuxNetwork:
    """The deployed network and its accounts.

    `contracts` and `artifacts` are keyed by the profile's contract names, plus `QOS`. `nodes` maps
    the name of a cast member to its account. `creators` order tasks; their accounts are at the
    indices CREATOR_PLACES.
    """

    chain: LocalChain
    profile: str
    contracts: Mapping[str, Address]
    artifacts: Mapping[str, str]
    owner: Address
    creators: tuple[Address, ...]
    relay: Address
    nodes: Mapping[str, Address]

    @property
    def watched(self) -> dict[str, Address]:
        """The contracts that the profile reads."""
        return {name: at for name, at in self.contracts.items() if name != "QOS"}

    def name_of(self, node: Address) -> str:
        """Return the name of a cast member, or the address if it is none of the cast."""
        return next((name for name, at in self.nodes.items() if at == node), node)

    def call(
        self, sender: str, contract: str, function: str, *arguments: object, value: int = 0
    ) -> dict[str, str]:
        """Return the transaction in which `sender` calls a contract function."""
        written = encode_call(self.artifacts[contract], function, *arguments)
        to = self.contracts[contract]
        return {"from": sender, "to": to, "data": written, "value": hex(value), "gas": _GAS}

    def mine(self, clock: Clock, transactions: Sequence[dict[str, str]]) -> None:
        """Mine a block with transactions that must succeed."""
        self.chain.mined(clock.next_block(), transactions)


def crynux_network(chain: LocalChain, clock: Clock, profile: str) -> CrynuxNetwork:
    """Deploy the stand-in contracts of a profile, and let the cast join.

    Raises:
        InputError: the profile has no stand-in contracts.
    """
    accounts = [Address(account.lower()) for account in chain.ask("eth_accounts")]
    if profile == VSS:
        network = _vss(chain, clock, accounts)
    elif profile == COMMIT:
        network = _commit(chain, clock, accounts)
    else:
        raise InputError(f"no stand-ins for {profile}; there are: {VSS}, {COMMIT}, crynux-relay")
    network.mine(clock, [_join(network, place) for place in range(len(CAST))])
    return network


def _vss(chain: LocalChain, clock: Clock, accounts: Sequence[Address]) -> CrynuxNetwork:
    artifacts = {"Node": "testing/VssNode", "VSSTask": "testing/VssTask"}
    network = _deployed(chain, clock, accounts, (VSS, artifacts, _VSS_QOS, ()))
    network.mine(clock, [network.call(network.owner, "VSSTask", "setRelayAddress", network.relay)])
    return network


def _commit(chain: LocalChain, clock: Clock, accounts: Sequence[Address]) -> CrynuxNetwork:
    artifacts = {"Node": "testing/CommitNode", "Task": "testing/CommitTask"}
    return _deployed(chain, clock, accounts, (COMMIT, artifacts, _COMMIT_QOS, (_QUEUE_LIMIT,)))


def _deployed(
    chain: LocalChain,
    clock: Clock,
    accounts: Sequence[Address],
    generation: tuple[str, dict[str, str], tuple[int, int], tuple[int, ...]],
) -> CrynuxNetwork:
    """Deploy the QOS, node and task contracts, in this order, and link them."""
    profile, artifacts, qos_numbers, task_numbers = generation
    owner, _, relay = accounts[:_CROWD]
    (node_name, node), (task_name, task) = artifacts.items()

    def created(artifact: str, *arguments: object) -> Address:
        code = build_creation_code(artifact, *arguments)
        sent = {"from": owner, "data": code, "gas": _GAS_TO_CREATE}
        (receipt,) = chain.mined(clock.next_block(), [sent])
        return Address(str(receipt["contractAddress"]).lower())

    qos_at = created("testing/CrynuxQos", *qos_numbers)
    node_at = created(node, qos_at)
    task_at = created(task, node_at, qos_at, *task_numbers)
    names = [one.name for one in CAST]
    network = CrynuxNetwork(
        chain=chain,
        profile=profile,
        contracts={node_name: node_at, task_name: task_at, "QOS": qos_at},
        artifacts={**artifacts, "QOS": "testing/CrynuxQos"},
        owner=owner,
        creators=tuple(accounts[place] for place in CREATOR_PLACES),
        relay=relay,
        nodes=dict(zip(names, accounts[_CROWD:-_MORE_CREATORS], strict=True)),
    )
    network.mine(
        clock,
        [
            network.call(owner, "QOS", "updateNodeContractAddress", node_at),
            network.call(owner, "QOS", "updateTaskContractAddress", task_at),
            network.call(owner, node_name, "updateTaskContractAddress", task_at),
        ],
    )
    return network


def _join(network: CrynuxNetwork, place: int) -> dict[str, str]:
    one = CAST[place]
    hardware: tuple[object, ...] = (one.gpu_name, one.gpu_vram)
    if network.profile == VSS:
        hardware = (*hardware, VERSION, public_key(_CROWD + place), [MODEL])
    return network.call(network.nodes[one.name], "Node", "join", *hardware, value=STAKE)
