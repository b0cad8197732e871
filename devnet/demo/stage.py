"""Deploys the demo's contracts, assigns roles, lets nodes join, and funds the senders."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from devnet.anvil import LocalChain
from devnet.demo.demo_nodes import BLOCK_SECONDS, DEMO_NODES, DemoNode
from devnet.demo.demo_system import CRYNUX_SYSTEM, DemoSystem
from oracle.bindings.codec import build_creation_code, encode_call
from oracle.bindings.deployment import (
    DEFAULT_KICK_LIMITS,
    DEFAULT_LIMITS,
    NO_FLOORS,
    NO_KICK_FLOORS,
    OracleSetup,
    WordsSetup,
)
from oracle.bindings.objections import build_objections_creation_code
from oracle.bindings.timelock import CANCELLER_ROLE, TIMELOCK
from oracle.domain.ids import ZERO_ADDRESS, Address

ETHER = 10**18
STAKE = 400 * ETHER
GAS = hex(3_000_000)
# A deployment needs more gas than a call.
_DEPLOY_GAS = hex(12_000_000)

# The accounts are, in order: admin, task creator, treasury, one per node, more creators, the
# creator of the application that fails, a stranger, and the creator of the application that needs
# much memory. A kickout is held for a manual decision if its scores come mostly from the tasks of
# one creator. There are five creators, so that by chance none has more than half of 50 scores.
_FIXED_ACCOUNTS, _EXTRA_CREATORS = 3, 4
_FIRST_EXTRA_CREATOR = _FIXED_ACCOUNTS + len(DEMO_NODES)
ACCOUNTS = _FIRST_EXTRA_CREATOR + _EXTRA_CREATORS + 3

VERSION = (1, 2, 0)
MODEL = "crynux-network/sdxl-turbo"

# A local chain may be faster than the contract's default limits allow on a real chain
# (docs/explanation/kickouts.md#limits-in-the-contract).
LIMITS = replace(DEFAULT_LIMITS, min_interval=0, veto_delay=120, kick_rounds=2)
# Seconds from scheduling to executing a change of the oracle's settings.
TIMELOCK_DELAY = 600

# Minimum fee and timeout of every kind of task: gwei, gwei per unit of size, seconds, and seconds
# per unit of size. The fee is a tenth of what the demo's creators pay, and the timeout is shorter
# than theirs.
TASK_FLOOR = (10_000_000, 0, 60, 0)


@dataclass(frozen=True, slots=True)
class Stage:
    """The deployed network of the demo.

    `nodes` maps the name of a demo node to its account. The network reads scores from the contract
    `hot_set`, and nodes object to kickouts through the contract `objections`. `failing_creator`
    owns the application whose tasks all time out, and `large_creator` the application that needs
    much memory. `stranger` is an account without any role.
    """

    chain: LocalChain
    network: Address
    oracle: Address
    hot_set: Address
    objections: Address
    timelock: Address
    dispatcher: Address
    creators: tuple[Address, ...]
    nodes: Mapping[str, Address]
    failing_creator: Address
    stranger: Address
    large_creator: Address

    @property
    def creator(self) -> Address:
        """The first of the accounts that order tasks."""
        return self.creators[0]

    def get_node_name(self, node: Address) -> str:
        """Return the name of a demo node, or the address of any other node."""
        return next((name for name, address in self.nodes.items() if address == node), node)

    @property
    def contracts(self) -> dict[str, Address]:
        """The addresses of all contracts, by name."""
        return {
            "TaskNetwork": self.network,
            "QoSRoots": self.oracle,
            "QoSWords": self.hot_set,
            "Objections": self.objections,
            TIMELOCK: self.timelock,
        }

    def build_transaction(
        self, sender: str, contract: str, function_name: str, *arguments: object, value: int = 0
    ) -> dict[str, str]:
        """Build a transaction from `sender` that calls a function of a contract."""
        return {
            "from": sender,
            "to": self.contracts[contract.rpartition("/")[2]],
            "data": encode_call(contract, function_name, *arguments),
            "value": hex(value),
            "gas": GAS,
        }


class ChainClock:
    """The time of the chain, which advances by twelve seconds per block.

    The wall clock has no influence.
    """

    def __init__(self, start: int) -> None:
        self.start = self.now = start

    def advance(self) -> int:
        """Advance by one block, and return the time of this block."""
        self.now += BLOCK_SECONDS
        return self.now


@dataclass(frozen=True, slots=True)
class DaemonRoles:
    """The accounts of the daemon.

    Transmitter and dispatcher pay for gas.
    """

    signer: Address
    transmitter: Address
    dispatcher: Address


def deploy_demo_network(
    chain: LocalChain, clock: ChainClock, roles: DaemonRoles, system: DemoSystem = CRYNUX_SYSTEM
) -> Stage:
    """Deploy all contracts, let the demo nodes join, and fund the sending accounts."""
    accounts = [Address(account.lower()) for account in chain.make_request("eth_accounts")]
    admin, creator, treasury = accounts[:_FIXED_ACCOUNTS]
    network = _deploy_contract(
        chain,
        clock,
        admin,
        build_creation_code("TaskNetwork", admin, roles.dispatcher, treasury, STAKE, TASK_FLOOR),
    )
    timelock, oracle, hot_set = _deploy_oracle(chain, clock, admin, roles, (network, system))
    objections = _deploy_contract(chain, clock, admin, build_objections_creation_code(oracle))
    node_names = [node.name for node in DEMO_NODES]
    stage = Stage(
        chain,
        network,
        oracle,
        hot_set,
        objections,
        timelock,
        roles.dispatcher,
        (creator, *accounts[_FIRST_EXTRA_CREATOR:-3]),
        dict(zip(node_names, accounts[_FIXED_ACCOUNTS:_FIRST_EXTRA_CREATOR], strict=True)),
        failing_creator=accounts[-3],
        stranger=accounts[-2],
        large_creator=accounts[-1],
    )
    funding_transactions = [
        {"from": admin, "to": sender, "value": hex(10 * ETHER), "gas": GAS}
        for sender in (roles.transmitter, roles.dispatcher)
    ]
    setup_transactions = [
        stage.build_transaction(admin, "TaskNetwork", "setOracle", oracle),
        stage.build_transaction(admin, "TaskNetwork", "setScores", hot_set),
    ]
    if system.pays_by_points:
        setup_transactions.append(
            stage.build_transaction(admin, "TaskNetwork", "setPayment", True)
        )
    setup_transactions.append(
        stage.build_transaction(
            admin, "TaskNetwork", "fund", roles.dispatcher, value=system.dispatcher_balance
        )
    )
    chain.mine_and_check_receipts(clock.advance(), [*setup_transactions, *funding_transactions])
    chain.mine_and_check_receipts(
        clock.advance(), [_build_join_transaction(stage, node) for node in system.nodes]
    )
    return stage


def _deploy_oracle(
    chain: LocalChain,
    clock: ChainClock,
    admin: Address,
    roles: DaemonRoles,
    network_and_system: tuple[Address, DemoSystem],
) -> tuple[Address, Address, Address]:
    """Deploy the timelock, the oracle that it controls, and the oracle's hot set.

    The vetoer can cancel operations of the timelock only through the oracle, which is the
    timelock's only canceller.
    """
    network, system = network_and_system
    timelock = _deploy_contract(
        chain,
        clock,
        admin,
        build_creation_code(TIMELOCK, TIMELOCK_DELAY, [admin], [ZERO_ADDRESS], admin),
    )
    setup = _build_oracle_setup(network, admin, roles.signer, system)
    oracle = _deploy_contract(chain, clock, admin, replace(setup, admin=timelock).creation_code)
    hot_set = _deploy_contract(chain, clock, admin, WordsSetup().build_creation_code(oracle))
    role_changes = [
        encode_call(TIMELOCK, "grantRole", CANCELLER_ROLE, oracle),
        encode_call(TIMELOCK, "revokeRole", CANCELLER_ROLE, admin),
        encode_call(TIMELOCK, "renounceRole", bytes(32), admin),
    ]
    chain.mine_and_check_receipts(
        clock.advance(),
        [{"from": admin, "to": timelock, "data": data, "gas": GAS} for data in role_changes],
    )
    return timelock, oracle, hot_set


def _build_oracle_setup(
    network: Address, admin: Address, signer: Address, system: DemoSystem
) -> OracleSetup:
    """Build an oracle setup with one signer.

    At most three kickouts in a row are allowed. One more kickout is allowed every minute.
    """
    return OracleSetup(
        admin=admin,
        pauser=admin,
        vetoer=admin,
        target=network,
        signers=(signer,),
        rules_hash=system.rules_hash,
        limits=replace(LIMITS, kick_below=system.kick_below),
        floors=NO_FLOORS,
        kick_limits=replace(DEFAULT_KICK_LIMITS, bucket_frame=60),
        kick_floors=NO_KICK_FLOORS,
    )


def _build_join_transaction(stage: Stage, node: DemoNode) -> dict[str, str]:
    models = [MODEL] if node.has_model else []
    gpu_and_models = (node.gpu_name, node.gpu_vram, *VERSION, models)
    node_address = stage.nodes[node.name]
    return stage.build_transaction(
        node_address, "TaskNetwork", "join", *gpu_and_models, value=STAKE
    )


def _deploy_contract(chain: LocalChain, clock: ChainClock, sender: Address, code: str) -> Address:
    (receipt,) = chain.mine_and_check_receipts(
        clock.advance(), [{"from": sender, "data": code, "gas": _DEPLOY_GAS}]
    )
    return Address(str(receipt["contractAddress"]).lower())
