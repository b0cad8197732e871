"""Checks with simulated calls whether a kick target has the role and the contracts it needs.

Two of the three supported networks have no view for the holder of a role or for their linked
contracts. A call is simulated from the holder's address, and its revert message shows which check
failed (docs/explanation/kickouts.md#adapters).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from eth_utils.crypto import keccak

from oracle.bindings.codec import call_input, call_output, contract_artifact, decoded
from oracle.bindings.inspection import ContractMismatch
from oracle.bindings.kick_targets import (
    COMMIT_TASK,
    KICK_TARGETS,
    NODE_STAKING,
    VSS_TASK,
    KickTarget,
    plain_call,
)
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.rpc.client import Json
from oracle.rpc.fanout import understood
from oracle.rpc.rpc_errors import RevertError

# Solidity's Error(string).
_ERROR = "0x08c379a0"
_SELECTOR_DIGITS = 10
_NOTHING = "0x"

# Revert messages of the networks' contracts, verbatim (crynux-contracts 0c10b81, a317516).
NOT_THE_TASK_CONTRACT = "Not called by the task contract"
NOT_BUSY = "Illegal node status"
NOT_THE_NODE_CONTRACT = "Not called by the node contract"
NOT_THE_ADMIN = "Not called by the admin"
NOT_STAKED = "Node not staked"


class Caller(Protocol):
    """An endpoint or a pool of endpoints."""

    def ask(self, method: str, *parameters: object) -> Json:
        """Return the result of one request.

        Raises:
            RevertError: a call reverts.
            TransientError: no response.
        """


@dataclass(frozen=True, slots=True)
class WiredTarget:
    """An adapter as it should be deployed: its address, its oracle and its linked contracts.

    `contract_by_name` has addresses by name; a contract that is missing there (the network's QOS,
    for example) is not compared.
    """

    target: KickTarget
    address: Address
    oracle: Address
    given: Mapping[str, str]


def kick_target_mismatches(lines: Caller, wired: WiredTarget) -> list[ContractMismatch]:
    """Return everything that would make the adapter fail or do harm when kicking a node.

    Raises:
        TransientError: an endpoint does not respond.
    """
    target, at = wired.target, wired.address
    if target.artifact is None:
        return _of_network(lines, wired)
    code = lines.ask("eth_getCode", at, "latest")
    if not isinstance(code, str) or code == _NOTHING:
        return [ContractMismatch("kick target", f"a {target.name} at {at}", "no contract")]
    shipped = adapter_code_hash(target.artifact, None)
    found = adapter_code_hash(target.artifact, code)
    if shipped != found:
        return [ContractMismatch("kick target's code hash", shipped, found)]
    return [*_wrong_addresses(lines, wired), *_PROBES[target.name](lines, target, at)]


def shipped_target_at(lines: Caller, at: Address) -> KickTarget | None:
    """Return the shipped adapter that is deployed at this address, or None.

    Raises:
        TransientError: an endpoint does not respond.
    """
    code = str(lines.ask("eth_getCode", at, "latest"))
    for target in KICK_TARGETS:
        artifact = target.artifact
        if artifact and adapter_code_hash(artifact, None) == adapter_code_hash(artifact, code):
            return target
    return None


def plain_account_owner(lines: Caller, wired: WiredTarget) -> list[ContractMismatch]:
    """Return a mismatch if the adapter's owner is an account with a single key.

    The holder of that key would control the network's role as well.

    Raises:
        TransientError: an endpoint does not respond.
    """
    if wired.target.artifact is None:
        return []
    owner = _address(lines, wired.target, wired.address, "owner")
    if lines.ask("eth_getCode", owner, "latest") != _NOTHING:
        return []
    wanted = "a contract that wants several keys (a multisig, a timelock)"
    return [ContractMismatch("kick target's owner", wanted, f"{owner}, an account of one key")]


def adapter_code_hash(artifact: str, code: str | None) -> Hash:
    """Return keccak256 of the code, deployed or shipped, with its immutables set to zero."""
    compiled = contract_artifact(artifact)
    masked = bytearray(bytes.fromhex((code or compiled["deployedBytecode"]).removeprefix("0x")))
    for places in compiled["immutableReferences"].values():
        for place in places:
            start, length = place["start"], place["length"]
            if start + length <= len(masked):
                masked[start : start + length] = bytes(length)
    return Hash("0x" + keccak(bytes(masked)).hex())


# --- Probes: each returns what is wrong, or None. ---


def owner_mismatch(lines: Caller, node: Address, adapter: Address) -> str | None:
    """Return the owner of the Node contract if it is not the adapter, else None."""
    answer = lines.ask("eth_call", {"to": node, "data": plain_call("owner()")}, "latest")
    owner = _word_as_address(answer, f"the owner of {node}")
    return None if owner == adapter.lower() else owner


def task_contract_mismatch(lines: Caller, node: Address, task: Address) -> str | None:
    """Return the Node contract's revert message if this is not its task contract.

    The task of a node that does not exist is finished in the name of the task contract; the right
    contract gets past the sender check and fails at the node's status.
    """
    said = _refusal(lines, task, node, plain_call("finishTask(address)", ZERO_ADDRESS))
    return None if said == NOT_BUSY else said


def qos_contract_mismatch(lines: Caller, node: Address, qos: Address) -> str | None:
    """Return the QOS contract's revert message if this is not its Node contract."""
    said = _refusal(lines, node, qos, plain_call("kickout(address)", ZERO_ADDRESS))
    return None if said == "" else said


def staking_admin_mismatch(lines: Caller, staking: Address, adapter: Address) -> str | None:
    """Return NodeStaking's revert message if the adapter is not its admin."""
    said = _refusal(lines, adapter, staking, plain_call("unstake(address)", ZERO_ADDRESS))
    return None if said == NOT_STAKED else said


def _of_network(lines: Caller, wired: WiredTarget) -> list[ContractMismatch]:
    """Return a mismatch if a network that is its own target obeys another oracle."""
    found = _view(lines, wired.target.itself or "", wired.address, "oracle")
    if found == wired.oracle.lower():
        return []
    return [ContractMismatch(f"oracle of {wired.target.name}", wired.oracle, found)]


def _of_nodes(lines: Caller, target: KickTarget, at: Address) -> list[ContractMismatch]:
    node, qos, task = (
        _address(lines, target, at, name) for name in ("NODE", "QOS", "taskContract")
    )
    told = [
        ("owner of Node", f"the kick target, {at}", owner_mismatch(lines, node, at)),
        ("task contract of Node", task, task_contract_mismatch(lines, node, task)),
        ("QOS of Node", qos, qos_contract_mismatch(lines, node, qos)),
    ]
    return [ContractMismatch(what, want, found) for what, want, found in told if found is not None]


def _of_staking(lines: Caller, target: KickTarget, at: Address) -> list[ContractMismatch]:
    staking = _address(lines, target, at, "STAKING")
    found = staking_admin_mismatch(lines, staking, at)
    if found is None:
        return []
    return [ContractMismatch("admin of NodeStaking", f"the kick target, {at}", found)]


_PROBES: Mapping[str, Callable[[Caller, KickTarget, Address], list[ContractMismatch]]] = {
    VSS_TASK.name: _of_nodes,
    COMMIT_TASK.name: _of_nodes,
    NODE_STAKING.name: _of_staking,
}
# The adapter's view for each address of its constructor.
_VIEWS = {
    "Node": "NODE",
    "QOS": "QOS",
    "VSSTask": "taskContract",
    "Task": "taskContract",
    "NodeStaking": "STAKING",
    "operator": "operator",
}


def _wrong_addresses(lines: Caller, wired: WiredTarget) -> list[ContractMismatch]:
    wanted = {"ORACLE": ("oracle", wired.oracle)}
    for name in wired.target.needs:
        if name in wired.given:
            wanted[_VIEWS[name]] = (name, Address(wired.given[name].lower()))
    different = []
    for view, (name, address) in wanted.items():
        found = _address(lines, wired.target, wired.address, view)
        if found != address.lower():
            different.append(ContractMismatch(f"{name} of the kick target", address, found))
    return different


def _address(lines: Caller, target: KickTarget, at: Address, view: str) -> Address:
    return _view(lines, target.artifact or "", at, view)


def _view(lines: Caller, artifact: str, at: Address, view: str) -> Address:
    """Return the address that a view of a shipped contract returns."""
    answer = lines.ask("eth_call", {"to": at, "data": call_input(artifact, view)}, "latest")
    with understood(f"{view} of {at}"):
        return Address(str(call_output(artifact, view, answer)[0]).lower())


def _refusal(lines: Caller, sender: Address, to: Address, calldata: str) -> str:
    """Return the revert message of a call as far as it is known; empty if it succeeds."""
    call = {"from": sender, "to": to, "data": calldata}
    try:
        lines.ask("eth_call", call, "latest")
    except RevertError as error:
        return _words_of(error)
    return ""


def _words_of(error: RevertError) -> str:
    data = error.data or ""
    if data.startswith(_ERROR):
        try:
            return str(decoded(["string"], bytes.fromhex(data[_SELECTOR_DIGITS:]))[0])
        except ValueError:
            pass
    # Some endpoints return only the message.
    known = (NOT_THE_TASK_CONTRACT, NOT_BUSY, NOT_THE_NODE_CONTRACT, NOT_THE_ADMIN, NOT_STAKED)
    return next((words for words in known if words in error.message), data or error.message)


def _word_as_address(answer: Json, what: str) -> Address:
    with understood(what):
        (found,) = decoded(["address"], bytes.fromhex(str(answer).removeprefix("0x")))
        return Address(str(found).lower())
