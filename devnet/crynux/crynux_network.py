"""Deploys stand-ins for two generations of Crynux's contracts, and lets nodes join.

The nodes are those of the demo. A node that joins a VSSTask network must prove that it owns the
key of its account, so keys are derived from the mnemonic of Anvil's accounts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from eth_keys.datatypes import PrivateKey

from devnet.anvil import LocalChain
from devnet.demo.demo_nodes import DEMO_NODES
from devnet.demo.stage import MODEL, STAKE, VERSION, ChainClock
from oracle.bindings.codec import build_creation_code, encode_call
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.signing.keystore import import_eth_account

# The mnemonic of every development chain. It is publicly known, so it protects nothing of value.
_MNEMONIC = "test test test test test test test test test test test junk"
_DERIVATION_PATH = "m/44'/60'/0'/0/{}"


@cache
def derive_public_key(account_index: int) -> bytes:
    """Derive the 64-byte public key of the account with this index, counted from 0."""
    # Call this before importing eth_account, because it handles the side effects of that import.
    import_eth_account()
    from eth_account.hdaccount import (  # noqa: PLC0415  it takes half a second
        key_from_seed,
        seed_from_mnemonic,
    )

    key = key_from_seed(seed_from_mnemonic(_MNEMONIC, ""), _DERIVATION_PATH.format(account_index))
    return PrivateKey(key).public_key.to_bytes()


VSS, COMMIT = "crynux-vss", "crynux-commit"
# The accounts are the owner, the first creator, the relay, one per node, and more creators. With a
# single creator, kickouts would be held for a manual decision.
_FIXED_ACCOUNTS, _EXTRA_CREATORS = 3, 2
ACCOUNTS = _FIXED_ACCOUNTS + len(DEMO_NODES) + _EXTRA_CREATORS
CREATOR_ACCOUNT_INDICES = (1, *range(ACCOUNTS - _EXTRA_CREATORS, ACCOUNTS))
_GAS = hex(6_000_000)
_DEPLOY_GAS = hex(12_000_000)
# Maximum number of queued tasks of the commit/disclose network.
_QUEUE_LIMIT = 50
# Arguments of the QOS contract. The first is the score of a missing task. The second is the sum of
# three scores at which a node is kicked out.
_VSS_QOS_NUMBERS = (10, 10)
_COMMIT_QOS_NUMBERS = (20, 20)


@dataclass(frozen=True, slots=True)
class CrynuxNetwork:
    """The deployed network and its accounts.

    `contracts` and `artifacts` are keyed by the profile's contract names, plus `QOS`. `nodes` maps
    the name of a demo node to its account. `creators` order tasks; their accounts are at the
    indices CREATOR_ACCOUNT_INDICES.
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
    def profile_contracts(self) -> dict[str, Address]:
        """The contracts that the profile reads, by name."""
        return {name: address for name, address in self.contracts.items() if name != "QOS"}

    def get_node_name(self, node: Address) -> str:
        """Return the name of a demo node, or the address of any other node."""
        return next((name for name, address in self.nodes.items() if address == node), node)

    def build_transaction(
        self, sender: str, contract: str, function_name: str, *arguments: object, value: int = 0
    ) -> dict[str, str]:
        """Build a transaction from `sender` that calls a function of a contract."""
        calldata = encode_call(self.artifacts[contract], function_name, *arguments)
        contract_address = self.contracts[contract]
        return {
            "from": sender,
            "to": contract_address,
            "data": calldata,
            "value": hex(value),
            "gas": _GAS,
        }

    def mine_transactions(self, clock: ChainClock, transactions: Sequence[dict[str, str]]) -> None:
        """Mine a block with transactions that must succeed."""
        self.chain.mine_and_check_receipts(clock.advance(), transactions)


def deploy_crynux_network(chain: LocalChain, clock: ChainClock, profile: str) -> CrynuxNetwork:
    """Deploy the stand-in contracts of a profile, and let the demo nodes join.

    Raises:
        InputError: the profile has no stand-in contracts.
    """
    accounts = [Address(account.lower()) for account in chain.make_request("eth_accounts")]
    if profile == VSS:
        network = _deploy_vss_network(chain, clock, accounts)
    elif profile == COMMIT:
        network = _deploy_commit_network(chain, clock, accounts)
    else:
        raise InputError(
            f"{profile}: there are no stand-in contracts for this profile; expected one of: "
            f"{VSS}, {COMMIT}, crynux-relay"
        )
    network.mine_transactions(
        clock,
        [_build_join_transaction(network, node_index) for node_index in range(len(DEMO_NODES))],
    )
    return network


def _deploy_vss_network(
    chain: LocalChain, clock: ChainClock, accounts: Sequence[Address]
) -> CrynuxNetwork:
    artifacts = {"Node": "testing/VssNode", "VSSTask": "testing/VssTask"}
    network = _deploy_contracts(chain, clock, accounts, (VSS, artifacts, _VSS_QOS_NUMBERS, ()))
    network.mine_transactions(
        clock,
        [network.build_transaction(network.owner, "VSSTask", "setRelayAddress", network.relay)],
    )
    return network


def _deploy_commit_network(
    chain: LocalChain, clock: ChainClock, accounts: Sequence[Address]
) -> CrynuxNetwork:
    artifacts = {"Node": "testing/CommitNode", "Task": "testing/CommitTask"}
    return _deploy_contracts(
        chain, clock, accounts, (COMMIT, artifacts, _COMMIT_QOS_NUMBERS, (_QUEUE_LIMIT,))
    )


def _deploy_contracts(
    chain: LocalChain,
    clock: ChainClock,
    accounts: Sequence[Address],
    generation: tuple[str, dict[str, str], tuple[int, int], tuple[int, ...]],
) -> CrynuxNetwork:
    """Deploy and link the QOS, node and task contracts, in this order."""
    profile, artifacts, qos_numbers, task_numbers = generation
    owner, _, relay = accounts[:_FIXED_ACCOUNTS]
    (node_name, node), (task_name, task) = artifacts.items()

    def deploy_contract(artifact: str, *arguments: object) -> Address:
        code = build_creation_code(artifact, *arguments)
        transaction = {"from": owner, "data": code, "gas": _DEPLOY_GAS}
        (receipt,) = chain.mine_and_check_receipts(clock.advance(), [transaction])
        return Address(str(receipt["contractAddress"]).lower())

    qos_address = deploy_contract("testing/CrynuxQos", *qos_numbers)
    node_address = deploy_contract(node, qos_address)
    task_address = deploy_contract(task, node_address, qos_address, *task_numbers)
    node_names = [node_role.name for node_role in DEMO_NODES]
    network = CrynuxNetwork(
        chain=chain,
        profile=profile,
        contracts={node_name: node_address, task_name: task_address, "QOS": qos_address},
        artifacts={**artifacts, "QOS": "testing/CrynuxQos"},
        owner=owner,
        creators=tuple(accounts[account_index] for account_index in CREATOR_ACCOUNT_INDICES),
        relay=relay,
        nodes=dict(zip(node_names, accounts[_FIXED_ACCOUNTS:-_EXTRA_CREATORS], strict=True)),
    )
    network.mine_transactions(
        clock,
        [
            network.build_transaction(owner, "QOS", "updateNodeContractAddress", node_address),
            network.build_transaction(owner, "QOS", "updateTaskContractAddress", task_address),
            network.build_transaction(owner, node_name, "updateTaskContractAddress", task_address),
        ],
    )
    return network


def _build_join_transaction(network: CrynuxNetwork, node_index: int) -> dict[str, str]:
    node = DEMO_NODES[node_index]
    gpu_arguments: tuple[object, ...] = (node.gpu_name, node.gpu_vram)
    if network.profile == VSS:
        gpu_arguments = (
            *gpu_arguments,
            VERSION,
            derive_public_key(_FIXED_ACCOUNTS + node_index),
            [MODEL],
        )
    return network.build_transaction(
        network.nodes[node.name], "Node", "join", *gpu_arguments, value=STAKE
    )
