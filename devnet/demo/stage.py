"""Sets up the demo network: deploys contracts, assigns roles, joins nodes, funds senders."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from devnet.anvil import LocalChain
from devnet.demo.cast import BLOCK_SECONDS, CAST, DemoNode
from devnet.demo.demo_system import CRYNUX_SYSTEM, DemoSystem
from oracle.bindings.codec import build_creation_code, encode_call
from oracle.bindings.deployment import (
    DEFAULT_KICK_LIMITS,
    DEFAULT_LIMITS,
    NO_FLOORS,
    OracleSetup,
)
from oracle.domain.ids import Address
from oracle.errors import FatalError

ETHER = 10**18
STAKE = 400 * ETHER
GAS = hex(3_000_000)
# Deployments need more gas than calls.
_DEPLOY_GAS = hex(12_000_000)

# Admin, task creator and treasury; then one account per node, then more creators. A kickout whose
# scores come mostly from one creator's tasks is held for a manual decision; with five creators, no
# creator has more than half of 50 scores by chance.
_FIXED_ACCOUNTS, _EXTRA_CREATORS = 3, 4
ACCOUNTS = _FIXED_ACCOUNTS + len(CAST) + _EXTRA_CREATORS

VERSION = (1, 2, 0)
MODEL = "crynux-network/sdxl-turbo"

# A local chain may be faster than the contract's minimum values allow a real one
# (docs/explanation/kickouts.md#limits-in-the-contract).
LIMITS = replace(
    DEFAULT_LIMITS, min_interval=0, veto_delay=120, kick_rounds=2, max_kicks_per_round=1
)

# Minimum fee and timeout of every kind of task: gwei, gwei per unit of size, seconds, seconds per
# unit of size. The fee is a tenth of what the demo's creators pay, and the timeout is shorter than
# the one they set.
TASK_FLOOR = (10_000_000, 0, 60, 0)


@dataclass(frozen=True, slots=True)
class Stage:
    """The deployed demo network; `nodes` maps the name of a cast member to its account."""

    chain: LocalChain
    network: Address
    oracle: Address
    dispatcher: Address
    creators: tuple[Address, ...]
    nodes: Mapping[str, Address]

    @property
    def creator(self) -> Address:
        """The first account that orders tasks."""
        return self.creators[0]

    def get_node_name(self, node: Address) -> str:
        """Return the name of a cast member, or the address if the node is not in the cast."""
        return next((name for name, address in self.nodes.items() if address == node), node)

    def build_call(
        self, sender: str, contract: str, function_name: str, *arguments: object, value: int = 0
    ) -> dict[str, str]:
        """Return the transaction in which `sender` calls a contract function."""
        contract_address = self.network if contract == "TaskNetwork" else self.oracle
        calldata = encode_call(contract, function_name, *arguments)
        return {
            "from": sender,
            "to": contract_address,
            "data": calldata,
            "value": hex(value),
            "gas": GAS,
        }


class ChainClock:
    """The chain's time: twelve seconds per block, independent of the wall clock."""

    def __init__(self, start: int) -> None:
        self.start = self.now = start

    def advance(self) -> int:
        """Advance by one block and return the timestamp of that block."""
        self.now += BLOCK_SECONDS
        return self.now


@dataclass(frozen=True, slots=True)
class DaemonRoles:
    """The daemon's accounts; transmitter and dispatcher pay for gas."""

    signer: Address
    transmitter: Address
    dispatcher: Address


def deploy_demo_network(
    chain: LocalChain, clock: ChainClock, roles: DaemonRoles, system: DemoSystem = CRYNUX_SYSTEM
) -> Stage:
    """Deploy both contracts, let the cast join, and fund the sending accounts."""
    accounts = [Address(account.lower()) for account in chain.make_request("eth_accounts")]
    admin, creator, treasury = accounts[:_FIXED_ACCOUNTS]
    network = _deploy_contract(
        chain,
        clock,
        admin,
        build_creation_code("TaskNetwork", admin, roles.dispatcher, treasury, STAKE, TASK_FLOOR),
    )
    setup = _build_oracle_setup(network, admin, roles.signer, system)
    oracle = _deploy_contract(chain, clock, admin, setup.creation_code)
    names = [node.name for node in CAST]
    nodes = dict(zip(names, accounts[_FIXED_ACCOUNTS:-_EXTRA_CREATORS], strict=True))
    creators = (creator, *accounts[-_EXTRA_CREATORS:])
    stage = Stage(chain, network, oracle, roles.dispatcher, creators, nodes)
    funding_transactions = [
        {"from": admin, "to": sender, "value": hex(10 * ETHER), "gas": GAS}
        for sender in (roles.transmitter, roles.dispatcher)
    ]
    setup_transactions = [stage.build_call(admin, "TaskNetwork", "setOracle", oracle)]
    if system.pays_by_points:
        setup_transactions.append(stage.build_call(admin, "TaskNetwork", "setPayment", True))
    setup_transactions.append(
        stage.build_call(
            admin, "TaskNetwork", "fund", roles.dispatcher, value=system.dispatcher_balance
        )
    )
    _fetch_successful_receipts(
        chain, chain.mine(clock.advance(), [*setup_transactions, *funding_transactions])
    )
    _fetch_successful_receipts(
        chain,
        chain.mine(clock.advance(), [_build_join_call(stage, node) for node in system.nodes]),
    )
    return stage


def _build_oracle_setup(
    network: Address, admin: Address, signer: Address, system: DemoSystem
) -> OracleSetup:
    """Return an oracle setup: one signer, no timelock, one kickout a minute, at most three."""
    return OracleSetup(
        admin=admin,
        vetoer=admin,
        target=network,
        signers=(signer,),
        rules_hash=system.rules_hash,
        limits=replace(LIMITS, kick_below=system.kick_below),
        floors=NO_FLOORS,
        kick_limits=replace(DEFAULT_KICK_LIMITS, bucket_frame=60),
    )


def _build_join_call(stage: Stage, node: DemoNode) -> dict[str, str]:
    models = [MODEL] if node.has_model else []
    hardware = (node.gpu_name, node.gpu_vram, *VERSION, models)
    account = stage.nodes[node.name]
    return stage.build_call(account, "TaskNetwork", "join", *hardware, value=STAKE)


def _deploy_contract(chain: LocalChain, clock: ChainClock, sender: Address, code: str) -> Address:
    transaction_hashes = chain.mine(
        clock.advance(), [{"from": sender, "data": code, "gas": _DEPLOY_GAS}]
    )
    (receipt,) = _fetch_successful_receipts(chain, transaction_hashes)
    return Address(str(receipt["contractAddress"]).lower())


def _fetch_successful_receipts(
    chain: LocalChain, transaction_hashes: list[str]
) -> list[dict[str, object]]:
    """Return the receipts of transactions that must have succeeded."""
    receipts = chain.make_batch_request(
        [
            ("eth_getTransactionReceipt", transaction_hash)
            for transaction_hash in transaction_hashes
        ]
    )
    for transaction_hash, receipt in zip(transaction_hashes, receipts, strict=True):
        if receipt is None or receipt["status"] != "0x1":
            raise FatalError(
                f"the demo's setup transaction {transaction_hash} failed; this is a bug"
            )
    return receipts
