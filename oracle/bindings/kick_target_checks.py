"""Checks by simulated calls whether a kick target has the role and contracts it needs.

Two of the three supported networks have no views that return role holders and linked contracts. A
call is therefore simulated with the holder as sender, and its revert message shows which check
failed (docs/explanation/kickouts.md#adapters).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from oracle.bindings.codec import (
    compute_code_hash,
    decode_result,
    decode_values,
    encode_call,
)
from oracle.bindings.inspection import ContractMismatch
from oracle.bindings.kick_targets import (
    COMMIT_TASK,
    KICK_TARGETS,
    NODE_STAKING,
    VSS_TASK,
    KickTarget,
    encode_call_with_addresses,
)
from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.rpc.client import Json
from oracle.rpc.fanout import expect_response_format
from oracle.rpc.rpc_errors import RevertError

# The selector of Solidity's Error(string).
_ERROR_SELECTOR = "0x08c379a0"
_NO_CODE = "0x"

# The revert messages of the networks' contracts, verbatim (crynux-contracts at commits 0c10b81 and
# a317516).
NOT_TASK_CONTRACT_ERROR = "Not called by the task contract"
NOT_BUSY_ERROR = "Illegal node status"
NOT_NODE_CONTRACT_ERROR = "Not called by the node contract"
NOT_ADMIN_ERROR = "Not called by the admin"
NOT_STAKED_ERROR = "Node not staked"

# The probed calls name an account that does not exist, so the right contract rejects them.
_NO_REVERT = "no revert, although the call is for a node that does not exist"


class RpcCaller(Protocol):
    """An object that sends requests to one endpoint or to a pool of endpoints."""

    def request(self, method: str, *parameters: object) -> Json:
        """Send one request and return its result.

        Raises:
            RevertError: the requested call reverts.
            TransientError: no endpoint responds.
        """


def find_kick_target_mismatches(
    rpc_caller: RpcCaller,
    target: KickTarget,
    address: Address,
    oracle: Address,
    contract_by_name: Mapping[str, str],
) -> list[ContractMismatch]:
    """Return all reasons why the kick target at an address would fail or do harm.

    `oracle` is the oracle that the kick target should accept. `contract_by_name` has the addresses
    of the contracts that an adapter should be linked with. A contract without an address in this
    mapping (for example the network's QOS) is not compared.

    Raises:
        TransientError: an endpoint does not respond.
    """
    if target.artifact is None:
        actual_oracle = _fetch_view_address(rpc_caller, target, address, "oracle")
        if actual_oracle == oracle.lower():
            return []
        return [ContractMismatch(f"oracle of {target.name}", oracle, actual_oracle)]
    code = rpc_caller.request("eth_getCode", address, "latest")
    if not isinstance(code, str) or code == _NO_CODE:
        return [ContractMismatch("kick target", f"a {target.name} at {address}", "no contract")]
    shipped_hash = compute_code_hash(target.artifact)
    deployed_hash = compute_code_hash(target.artifact, code)
    if shipped_hash != deployed_hash:
        return [ContractMismatch("kick target's code hash", shipped_hash, deployed_hash)]
    return [
        *_find_address_mismatches(rpc_caller, target, address, oracle, contract_by_name),
        *_PROBES[target.name](rpc_caller, target, address),
    ]


def find_shipped_kick_target(rpc_caller: RpcCaller, address: Address) -> KickTarget | None:
    """Return the shipped kick target deployed at this address, or None if there is none.

    Raises:
        TransientError: an endpoint does not respond.
    """
    code = str(rpc_caller.request("eth_getCode", address, "latest"))
    for target in KICK_TARGETS:
        artifact = target.artifact
        if artifact and compute_code_hash(artifact) == compute_code_hash(artifact, code):
            return target
    return None


def find_single_key_owner_mismatches(
    rpc_caller: RpcCaller, target: KickTarget, address: Address
) -> list[ContractMismatch]:
    """Return a mismatch if the adapter is owned by an account with a single key.

    The holder of that key would also control the network's role.

    Raises:
        TransientError: an endpoint does not respond.
    """
    if target.artifact is None:
        return []
    owner = _fetch_view_address(rpc_caller, target, address, "owner")
    if rpc_caller.request("eth_getCode", owner, "latest") != _NO_CODE:
        return []
    expected_owner = "a contract that requires several keys (a multisig, a timelock)"
    return [
        ContractMismatch(
            "kick target's owner", expected_owner, f"{owner}, an account with a single key"
        )
    ]


# --- Probes: each returns the fault that it finds, or None. ---


def find_node_owner_mismatch(rpc_caller: RpcCaller, node: Address, adapter: Address) -> str | None:
    """Return the owner of the Node contract if it is not the adapter, otherwise None."""
    owner_hex = rpc_caller.request(
        "eth_call", {"to": node, "data": encode_call_with_addresses("owner()")}, "latest"
    )
    with expect_response_format(f"the owner of {node}"):
        (address,) = decode_values(["address"], bytes.fromhex(str(owner_hex).removeprefix("0x")))
    owner = Address(str(address).lower())
    return None if owner == adapter.lower() else owner


def find_task_contract_mismatch(rpc_caller: RpcCaller, node: Address, task: Address) -> str | None:
    """Return the result of a probe if `task` is not the Node's task contract, otherwise None.

    The result is a revert message, or says that the call does not revert.

    The probe simulates that `task` calls `finishTask` for a node that does not exist. The linked
    task contract passes the check of the sender, and its call fails at the node's status.
    """
    revert_reason = _fetch_revert_reason(
        rpc_caller, task, node, encode_call_with_addresses("finishTask(address)", ZERO_ADDRESS)
    )
    return None if revert_reason == NOT_BUSY_ERROR else revert_reason or _NO_REVERT


def find_qos_contract_mismatch(
    rpc_caller: RpcCaller, node_contract: Address, qos: Address
) -> str | None:
    """Check that the QOS contract uses this Node contract.

    The result is the revert message of the QOS contract if its Node contract differs, otherwise
    None.
    """
    revert_reason = _fetch_revert_reason(
        rpc_caller,
        node_contract,
        qos,
        encode_call_with_addresses("kickout(address)", ZERO_ADDRESS),
    )
    return None if revert_reason == "" else revert_reason


def find_staking_admin_mismatch(
    rpc_caller: RpcCaller, staking: Address, adapter: Address
) -> str | None:
    """Return the result of a probe if the adapter does not administer NodeStaking.

    It is a revert message, or states that the call does not revert. If the adapter administers
    NodeStaking, the result is None.
    """
    revert_reason = _fetch_revert_reason(
        rpc_caller, adapter, staking, encode_call_with_addresses("unstake(address)", ZERO_ADDRESS)
    )
    return None if revert_reason == NOT_STAKED_ERROR else revert_reason or _NO_REVERT


def _find_node_mismatches(
    rpc_caller: RpcCaller, target: KickTarget, address: Address
) -> list[ContractMismatch]:
    node, qos, task = (
        _fetch_view_address(rpc_caller, target, address, name)
        for name in ("NODE", "QOS", "taskContract")
    )
    checks = [
        (
            "owner of Node",
            f"the kick target, {address}",
            find_node_owner_mismatch(rpc_caller, node, address),
        ),
        ("task contract of Node", task, find_task_contract_mismatch(rpc_caller, node, task)),
        ("QOS of Node", qos, find_qos_contract_mismatch(rpc_caller, node, qos)),
    ]
    return [
        ContractMismatch(subject, expected_value, actual)
        for subject, expected_value, actual in checks
        if actual is not None
    ]


def _find_staking_mismatches(
    rpc_caller: RpcCaller, target: KickTarget, address: Address
) -> list[ContractMismatch]:
    staking = _fetch_view_address(rpc_caller, target, address, "STAKING")
    revert_reason = find_staking_admin_mismatch(rpc_caller, staking, address)
    if revert_reason is None:
        return []
    return [ContractMismatch("admin of NodeStaking", f"the kick target, {address}", revert_reason)]


_PROBES: Mapping[str, Callable[[RpcCaller, KickTarget, Address], list[ContractMismatch]]] = {
    VSS_TASK.name: _find_node_mismatches,
    COMMIT_TASK.name: _find_node_mismatches,
    NODE_STAKING.name: _find_staking_mismatches,
}
# For each address that the adapter's constructor takes, the getter that returns it.
_VIEWS = {
    "Node": "NODE",
    "QOS": "QOS",
    "VSSTask": "taskContract",
    "Task": "taskContract",
    "NodeStaking": "STAKING",
    "operator": "operator",
}


def _find_address_mismatches(
    rpc_caller: RpcCaller,
    target: KickTarget,
    adapter: Address,
    oracle: Address,
    contract_by_name: Mapping[str, str],
) -> list[ContractMismatch]:
    expected_by_view = {"ORACLE": ("oracle", oracle)}
    for name in target.required_addresses:
        if name in contract_by_name:
            expected_by_view[_VIEWS[name]] = (name, Address(contract_by_name[name].lower()))
    mismatches = []
    for view, (name, address) in expected_by_view.items():
        actual_address = _fetch_view_address(rpc_caller, target, adapter, view)
        if actual_address != address.lower():
            mismatches.append(
                ContractMismatch(f"{name} of the kick target", address, actual_address)
            )
    return mismatches


def _fetch_view_address(
    rpc_caller: RpcCaller, target: KickTarget, address: Address, view: str
) -> Address:
    """Fetch the address that a view of the kick target returns."""
    artifact = target.artifact or target.network_artifact or ""
    result_hex = rpc_caller.request(
        "eth_call", {"to": address, "data": encode_call(artifact, view)}, "latest"
    )
    with expect_response_format(f"{view} of {address}"):
        return Address(str(decode_result(artifact, view, result_hex)[0]).lower())


def _fetch_revert_reason(
    rpc_caller: RpcCaller, sender: Address, recipient: Address, calldata: str
) -> str:
    """Simulate a call, and return its revert message or data, or "" if it succeeds."""
    call = {"from": sender, "to": recipient, "data": calldata}
    try:
        rpc_caller.request("eth_call", call, "latest")
    except RevertError as error:
        return _decode_revert_reason(error)
    return ""


def _decode_revert_reason(error: RevertError) -> str:
    data = error.data or ""
    if data.startswith(_ERROR_SELECTOR):
        try:
            return str(decode_values(["string"], bytes.fromhex(data[SELECTOR_DIGITS:]))[0])
        except ValueError:
            pass
    # Some endpoints return only an error message, so the message is searched for a known reason.
    known_reasons = (
        NOT_TASK_CONTRACT_ERROR,
        NOT_BUSY_ERROR,
        NOT_NODE_CONTRACT_ERROR,
        NOT_ADMIN_ERROR,
        NOT_STAKED_ERROR,
    )
    return next(
        (reason for reason in known_reasons if reason in error.message), data or error.message
    )
