"""Checks the dispatcher of the contract TaskNetwork, and encodes the dispatcher's calls."""

from collections.abc import Sequence
from functools import cache

from oracle.bindings.codec import decode_result, encode_call
from oracle.chain.decode.abi import SELECTOR_DIGITS, load_abi
from oracle.domain.ids import ZERO_HASH, Address, Hash, TaskKey
from oracle.errors import InputError, TransientError
from oracle.rpc.fanout import PoolView, expect_response_format
from oracle.rpc.rpc_errors import RevertError

CONTRACT = "TaskNetwork"

# Gas of `startTaskAsOf` for a task of a group, measured on the reference network to within a few
# percent. It includes reading the oracle contract.
START_GAS = 145_000
# Gas of `startGroup` for three tasks, measured to within a few percent.
START_GROUP_GAS = 375_000

# The number of hex digits of a 32-byte word.
_WORD_DIGITS = 64

# The value of Reason.FeeTooLow in TaskNetwork.
_FEE_TOO_LOW = 4


def encode_start_task_as_of_call(
    task: TaskKey, node: Address, block_number: int, block_hash: Hash
) -> str:
    """Encode the call that starts a task only on a chain with this block."""
    return encode_call(
        CONTRACT, "startTaskAsOf", _decode_hex(task), node, block_number, _decode_hex(block_hash)
    )


def encode_start_group_call(
    tasks: Sequence[TaskKey],
    nodes: Sequence[Address],
    block_number: int = 0,
    block_hash: Hash = ZERO_HASH,
) -> str:
    """Encode the call that starts a group only on a chain with this block.

    Block 0 means no block, so the call works on any chain.
    """
    task_ids = [_decode_hex(task) for task in tasks]
    return encode_call(
        CONTRACT, "startGroup", task_ids, nodes, block_number, _decode_hex(block_hash)
    )


def remove_as_of_block_check(calldata: str) -> str:
    """Remove the check for the as-of block from the calldata of a task start.

    The check is that the chain has this block. A call that is simulated on the newest block runs
    in that block, in which the block's own hash cannot be read.
    """
    selector = calldata[:SELECTOR_DIGITS]
    arguments = calldata[SELECTOR_DIGITS:]
    if selector == _get_selector("startGroup"):
        # The number and the hash of the block follow the offsets of the two lists.
        return (
            selector
            + arguments[: 2 * _WORD_DIGITS]
            + 2 * _WORD_DIGITS * "0"
            + arguments[4 * _WORD_DIGITS :]
        )
    if selector != _get_selector("startTaskAsOf"):
        return calldata
    return _get_selector("startTask") + arguments[: 2 * _WORD_DIGITS]


def encode_start_task_call(task: TaskKey, node: Address) -> str:
    """Encode the call that starts a task on any chain."""
    return encode_call(CONTRACT, "startTask", _decode_hex(task), node)


def encode_queue_task_call(task: TaskKey) -> str:
    """Encode the call that queues a task because no node is free."""
    return encode_call(CONTRACT, "queueTask", _decode_hex(task))


def encode_drop_task_call(task: TaskKey) -> str:
    """Encode the call that removes a task with too low a fee from the queue."""
    return encode_call(CONTRACT, "dropTask", _decode_hex(task), _FEE_TOO_LOW)


def encode_drop_group_call(tasks: Sequence[TaskKey]) -> str:
    """Encode the call that drops all tasks of a group.

    No task of the group was started.
    """
    return encode_call(CONTRACT, "dropGroup", [_decode_hex(task) for task in tasks], _FEE_TOO_LOW)


def encode_request_download_call(node: Address, model: str) -> str:
    """Encode the call that requests the download of a model by a node."""
    return encode_call(CONTRACT, "requestDownload", node, model)


def check_dispatcher_key(pool_view: PoolView, network: Address, dispatcher: Address) -> None:
    """Check that the network accepts task starts signed by the dispatcher key.

    The key is the configured one.

    Raises:
        InputError: all endpoints report another account as the dispatcher.
        TransientError: no endpoint confirms the key, and at least one does not respond.
    """
    other_dispatchers: list[str] = []
    errors: list[TransientError] = []
    for endpoint in pool_view.build_single_endpoint_views():
        try:
            actual_dispatcher = _fetch_dispatcher(endpoint, network)
        except TransientError as error:
            errors.append(error)
            continue
        if actual_dispatcher == dispatcher.lower():
            return
        other_dispatchers.append(actual_dispatcher)
    if errors:
        raise errors[0]
    raise InputError(
        f"the dispatcher of {network} is {other_dispatchers[0]}, but keys.dispatcher_keystore has "
        f"the key of {dispatcher}; call setDispatcher, or use the other key"
    )


def _fetch_dispatcher(pool_view: PoolView, network: Address) -> str:
    call = {"to": network, "data": encode_call(CONTRACT, "dispatcher")}
    try:
        result_hex = pool_view.request("eth_call", call, "latest")
    except RevertError:
        raise TransientError(
            f"the contract at {network} does not look like a TaskNetwork"
        ) from None
    with expect_response_format(f"a TaskNetwork at {network}"):
        (address,) = decode_result(CONTRACT, "dispatcher", result_hex)
        return str(address).lower()


@cache
def _get_selector(function: str) -> str:
    return load_abi(CONTRACT).functions[function].selector


def _decode_hex(hex_text: str) -> bytes:
    return bytes.fromhex(hex_text[2:])
