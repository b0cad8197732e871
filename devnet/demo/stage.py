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
_GAS_TO_CREATE = hex(12_000_000)

# Admin, task creator and treasury; then one account per node, then more creators. A kickout whose
# scores come mostly from one creator's tasks is held for a manual decision; with five creators, no
# creator has more than half of 50 scores by chance.
_CROWD, _MORE_CREATORS = 3, 4
ACCOUNTS = _CROWD + len(CAST) + _MORE_CREATORS

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
FLOOR = (10_000_000, 0, 60, 0)


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

    def name_of(self, node: Address) -> str:
        """Return the name of a cast member, or the address if it is none of the cast."""
        return next((name for name, at in self.nodes.items() if at == node), node)

    def call(
        self, sender: str, contract: str, function: str, *arguments: object, value: int = 0
    ) -> dict[str, str]:
        """Return the transaction in which `sender` calls a contract function."""
        to = self.network if contract == "TaskNetwork" else self.oracle
        written = encode_call(contract, function, *arguments)
        return {"from": sender, "to": to, "data": written, "value": hex(value), "gas": GAS}


class Clock:
    """The chain's time: twelve seconds per block, independent of the wall clock."""

    def __init__(self, start: int) -> None:
        self.start = self.now = start

    def next_block(self) -> int:
        """Advance by one block and return the timestamp of that block."""
        self.now += BLOCK_SECONDS
        return self.now


@dataclass(frozen=True, slots=True)
class Roles:
    """The daemon's accounts; transmitter and dispatcher pay for gas."""

    signer: Address
    transmitter: Address
    dispatcher: Address


def set_stage(
    chain: LocalChain, clock: Clock, roles: Roles, system: DemoSystem = CRYNUX_SYSTEM
) -> Stage:
    """Deploy both contracts, let the cast join, and fund the sending accounts."""
    accounts = [Address(account.lower()) for account in chain.ask("eth_accounts")]
    admin, creator, treasury = accounts[:_CROWD]
    network = _created(
        chain,
        clock,
        admin,
        build_creation_code("TaskNetwork", admin, roles.dispatcher, treasury, STAKE, FLOOR),
    )
    setup = _setup(network, admin, roles.signer, system)
    oracle = _created(chain, clock, admin, setup.code)
    names = [one.name for one in CAST]
    nodes = dict(zip(names, accounts[_CROWD:-_MORE_CREATORS], strict=True))
    creators = (creator, *accounts[-_MORE_CREATORS:])
    stage = Stage(chain, network, oracle, roles.dispatcher, creators, nodes)
    ether = [
        {"from": admin, "to": payer, "value": hex(10 * ETHER), "gas": GAS}
        for payer in (roles.transmitter, roles.dispatcher)
    ]
    chosen = [stage.call(admin, "TaskNetwork", "setOracle", oracle)]
    if system.pays_by_points:
        chosen.append(stage.call(admin, "TaskNetwork", "setPayment", True))
    chosen.append(stage.call(admin, "TaskNetwork", "fund", roles.dispatcher, value=system.purse))
    _succeed(chain, chain.mine(clock.next_block(), [*chosen, *ether]))
    _succeed(chain, chain.mine(clock.next_block(), [_join(stage, one) for one in system.cast]))
    return stage


def _setup(network: Address, admin: Address, signer: Address, system: DemoSystem) -> OracleSetup:
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


def _join(stage: Stage, one: DemoNode) -> dict[str, str]:
    models = [MODEL] if one.has_model else []
    hardware = (one.gpu_name, one.gpu_vram, *VERSION, models)
    account = stage.nodes[one.name]
    return stage.call(account, "TaskNetwork", "join", *hardware, value=STAKE)


def _created(chain: LocalChain, clock: Clock, sender: Address, code: str) -> Address:
    sent = chain.mine(clock.next_block(), [{"from": sender, "data": code, "gas": _GAS_TO_CREATE}])
    (receipt,) = _succeed(chain, sent)
    return Address(str(receipt["contractAddress"]).lower())


def _succeed(chain: LocalChain, sent: list[str]) -> list[dict[str, object]]:
    """Return the receipts of transactions that must have succeeded."""
    receipts = chain.ask_all([("eth_getTransactionReceipt", one) for one in sent])
    for one, receipt in zip(sent, receipts, strict=True):
        if receipt is None or receipt["status"] != "0x1":
            raise FatalError(f"the demo's own transaction {one} failed: this is a bug")
    return receipts
