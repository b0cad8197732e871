"""Kick targets: through which contract nodes of a network are put out, and how one is deployed.

A network of ours is its own target. In front of one that knows nothing of us stands an adapter,
which holds one role of the network (docs/explanation/kickouts.md#adapters).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from eth_utils.crypto import keccak

from oracle.bindings.codec import creation_code
from oracle.domain.ids import Address
from oracle.errors import InputError

# What a kickout may take of gas in the network: there and back over the books of one node.
KICK_GAS = 600_000
# The same where the books have a line for each model of the node (some 50,000 each): about fifty.
KICK_GAS_WITH_MODELS = 3_000_000


@dataclass(frozen=True, slots=True)
class RoleChange:
    """The call by which `sender` hands the network's role to an adapter.

    `sender` is told in words: who it is, only the network knows.
    """

    sender: str
    to: Address
    calldata: str
    text: str


@dataclass(frozen=True, slots=True)
class KickTarget:
    """How the nodes of one kind of network are put out.

    `artifact` is the adapter's in abi/, None where the contract `itself` of the network is the
    target. `needs` are the contracts and accounts that the adapter's constructor is told after
    oracle and owner, in its order, `role` is the contract whose role it takes and `granted_by`
    the function of `grantor`, a contract as well, that gives it.
    """

    name: str
    artifact: str | None = None
    itself: str | None = None
    needs: tuple[str, ...] = ()
    grantor: str = ""
    granted_by: str = ""
    granting: str = ""
    kick_gas: int = KICK_GAS

    @property
    def gives_back(self) -> bool:
        """Whether the adapter itself hands the role on, by `giveBack`, at its owner's call."""
        return self.granting == _TRANSFER


_NODE_OWNER = "the owner of Node"
_TRANSFER = "transferOwnership(address)"
TASK_NETWORK = KickTarget("TaskNetwork", itself="TaskNetwork")
VSS_TASK = KickTarget(
    "VssTaskAdapter",
    artifact="adapters/VssTaskAdapter",
    needs=("Node", "QOS", "VSSTask"),
    grantor="Node",
    granted_by=_NODE_OWNER,
    granting=_TRANSFER,
    kick_gas=KICK_GAS_WITH_MODELS,
)
COMMIT_TASK = KickTarget(
    "CommitTaskAdapter",
    artifact="adapters/CommitTaskAdapter",
    needs=("Node", "QOS", "Task"),
    grantor="Node",
    granted_by=_NODE_OWNER,
    granting=_TRANSFER,
)
# Not by default: the relay of today does not hear of a node that is put out on chain.
NODE_STAKING = KickTarget(
    "NodeStakingAdapter",
    artifact="adapters/NodeStakingAdapter",
    needs=("NodeStaking", "operator"),
    grantor="ParameterController",
    granted_by="the writer of ParameterController",
    granting="setNodeStakingAdminAddress(address)",
)
KICK_TARGETS = (TASK_NETWORK, VSS_TASK, COMMIT_TASK, NODE_STAKING)
_BY_PROFILE: Mapping[str, KickTarget] = {
    "reference": TASK_NETWORK,
    "crynux-vss": VSS_TASK,
    "crynux-commit": COMMIT_TASK,
}


def kick_target_of(profile: str) -> KickTarget | None:
    """Return the target that a profile has by default; None: kickouts end in an event."""
    return _BY_PROFILE.get(profile)


def kick_target_named(name: str) -> KickTarget:
    """Return a target by its name.

    Raises:
        InputError: there is none.
    """
    for target in KICK_TARGETS:
        if target.name == name:
            return target
    known = ", ".join(target.name for target in KICK_TARGETS)
    raise InputError(f"no kick target is called {name}; there are: {known}")


def adapter_code(
    target: KickTarget, oracle: Address, owner: Address, given: Mapping[str, str]
) -> str:
    """Return the `0x` code that creates an adapter for this oracle, owned by `owner`.

    `given`: addresses by name, those of [network] contracts and what is named beside them.

    Raises:
        InputError: one that it needs is not among them, or the target is no adapter.
    """
    if target.artifact is None:
        raise InputError(f"{target.name} is a kick target itself: nothing is deployed for it")
    missing = [name for name in target.needs if name not in given]
    if missing:
        raise InputError(f"{target.name} must be told the address of: {', '.join(missing)}")
    return creation_code(target.artifact, oracle, owner, *(given[name] for name in target.needs))


def role_change(target: KickTarget, adapter: Address, given: Mapping[str, str]) -> RoleChange:
    """Return the call that makes the adapter the holder of the network's role.

    Raises:
        InputError: the contract that gives the role is not among those given.
    """
    if target.grantor not in given:
        raise InputError(f"{target.name}: the address of {target.grantor or 'nothing'} is missing")
    to = Address(given[target.grantor].lower())
    text = f"{target.granted_by} calls {target.grantor}.{target.granting} with {adapter}"
    return RoleChange(target.granted_by, to, plain_call(target.granting, adapter), text)


def plain_call(signature: str, *addresses: str) -> str:
    """Return the `0x` input of a function that takes addresses, of a contract that is not ours."""
    words = "".join(address.lower().removeprefix("0x").rjust(64, "0") for address in addresses)
    return "0x" + keccak(text=signature)[:4].hex() + words
