"""Defines, for each network, the contract that kicks nodes, and its deployment.

A network of this project is its own kick target. Any other network needs an adapter, which is a
contract that has a role in the network (docs/explanation/kickouts.md#adapters).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oracle.bindings.codec import build_creation_code
from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.errors import InputError

# Gas that the network's contract may use for a kickout. It covers the call, the call's return, and
# the updates of the node's records.
KICK_GAS = 600_000
# In networks that keep a record for each model of a node, a model costs about 50,000 gas. This
# limit suffices for about fifty models.
KICK_GAS_WITH_MODELS = 3_000_000


@dataclass(frozen=True, slots=True)
class RoleChange:
    """The call by which `sender` grants the network's role to an adapter.

    `sender` is a description, because only the network's contracts have the address.
    """

    sender: str
    to: Address
    calldata: str
    description: str


@dataclass(frozen=True, slots=True)
class KickTarget:
    """How the nodes of one kind of network are kicked out.

    `artifact` is the adapter's artifact in abi/, or None if the network's own contract,
    `network_artifact`, is the target. `required_addresses` are the names of the contracts and
    accounts that the adapter's constructor takes after oracle and owner, in order.
    `grant_signature` is the function of the contract `grantor` that grants the role, and
    `granted_by` describes who may call it.
    """

    name: str
    artifact: str | None = None
    network_artifact: str | None = None
    required_addresses: tuple[str, ...] = ()
    grantor: str = ""
    granted_by: str = ""
    grant_signature: str = ""
    kick_gas: int = KICK_GAS

    @property
    def can_transfer_role(self) -> bool:
        """Return whether the adapter's owner can transfer the role, by calling `giveBack`."""
        return self.grant_signature == _TRANSFER_SIGNATURE


_NODE_OWNER = "the owner of Node"
_TRANSFER_SIGNATURE = "transferOwnership(address)"
TASK_NETWORK = KickTarget("TaskNetwork", network_artifact="TaskNetwork")
VSS_TASK = KickTarget(
    "VssTaskAdapter",
    artifact="adapters/VssTaskAdapter",
    required_addresses=("Node", "QOS", "VSSTask"),
    grantor="Node",
    granted_by=_NODE_OWNER,
    grant_signature=_TRANSFER_SIGNATURE,
    kick_gas=KICK_GAS_WITH_MODELS,
)
COMMIT_TASK = KickTarget(
    "CommitTaskAdapter",
    artifact="adapters/CommitTaskAdapter",
    required_addresses=("Node", "QOS", "Task"),
    grantor="Node",
    granted_by=_NODE_OWNER,
    grant_signature=_TRANSFER_SIGNATURE,
)
# This target is not a default, because the current relay does not notice nodes that are kicked
# on-chain.
NODE_STAKING = KickTarget(
    "NodeStakingAdapter",
    artifact="adapters/NodeStakingAdapter",
    required_addresses=("NodeStaking", "operator"),
    grantor="ParameterController",
    granted_by="the writer of ParameterController",
    grant_signature="setNodeStakingAdminAddress(address)",
)
KICK_TARGETS = (TASK_NETWORK, VSS_TASK, COMMIT_TASK, NODE_STAKING)
_BY_PROFILE: Mapping[str, KickTarget] = {
    "reference": TASK_NETWORK,
    "crynux-vss": VSS_TASK,
    "crynux-commit": COMMIT_TASK,
}


def find_default_kick_target(profile: str) -> KickTarget | None:
    """Return a profile's default kick target, or None if kickouts only emit an event."""
    return _BY_PROFILE.get(profile)


def get_kick_target(name: str) -> KickTarget:
    """Return the kick target with this name.

    Raises:
        InputError: no kick target has this name.
    """
    for target in KICK_TARGETS:
        if target.name == name:
            return target
    target_names = ", ".join(target.name for target in KICK_TARGETS)
    raise InputError(f"unknown kick target {name}; expected one of: {target_names}")


def build_adapter_creation_code(
    target: KickTarget, oracle: Address, owner: Address, address_by_name: Mapping[str, str]
) -> str:
    """Build the `0x` creation code of an adapter for this oracle, owned by `owner`.

    `address_by_name` has the addresses from [network] contracts and from --contract.

    Raises:
        InputError: a required address is missing, or the target is not an adapter.
    """
    if target.artifact is None:
        raise InputError(
            f"{target.name}: has no adapter, because the network itself executes kickouts"
        )
    missing_names = [name for name in target.required_addresses if name not in address_by_name]
    if missing_names:
        raise InputError(
            f"{target.name}: these contract addresses are missing: {', '.join(missing_names)}"
        )
    return build_creation_code(
        target.artifact,
        oracle,
        owner,
        *(address_by_name[name] for name in target.required_addresses),
    )


def build_role_change(
    target: KickTarget, adapter: Address, address_by_name: Mapping[str, str]
) -> RoleChange:
    """Build the call that grants an adapter the network role for kicking nodes.

    Raises:
        InputError: the network is its own kick target, or the address of the contract that grants
            the role is missing.
    """
    if not target.grantor:
        raise InputError(
            f"{target.name}: grants no role, because the network itself executes kickouts"
        )
    if target.grantor not in address_by_name:
        raise InputError(f"{target.name}: the address of {target.grantor} is missing")
    grantor_address = Address(address_by_name[target.grantor].lower())
    description = (
        f"{target.granted_by} calls {target.grantor}.{target.grant_signature} with {adapter}"
    )
    return RoleChange(
        target.granted_by,
        grantor_address,
        encode_call_with_addresses(target.grant_signature, adapter),
        description,
    )


def encode_call_with_addresses(signature: str, *addresses: str) -> str:
    """Encode a call of a function whose arguments are all addresses.

    The result is `0x` calldata.
    """
    encoded_arguments = "".join(
        address.lower().removeprefix("0x").rjust(64, "0") for address in addresses
    )
    return "0x" + keccak(signature.encode())[:4].hex() + encoded_arguments
