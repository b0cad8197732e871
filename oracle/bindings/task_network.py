"""The network contract from the dispatcher's side: its dispatcher, and the calls that it gets."""

from collections.abc import Sequence
from functools import cache

from oracle.bindings.codec import call_input, call_output
from oracle.chain.decode.abi import load
from oracle.domain.ids import ZERO_HASH, Address, Hash, TaskKey
from oracle.errors import InputError, TransientError
from oracle.rpc.fanout import PoolView, understood
from oracle.rpc.rpc_errors import RevertError

CONTRACT = "TaskNetwork"

# Gas of a start, within a few percent: `startTaskAsOf` of a task of a group on the reference
# network, which reads its oracle.
START_GAS = 145_000
# The same for `startGroup` of three tasks.
START_GROUP_GAS = 375_000

# Hex digits of a selector with its 0x, and of a word.
_SELECTOR, _WORD = 10, 64

# TaskNetwork's Reason.FeeTooLow.
_FEE_TOO_LOW = 4


def start_as_of_call(task: TaskKey, node: Address, number: int, block_hash: Hash) -> str:
    """Return the calldata that starts a task only on a chain that has this block."""
    return call_input(CONTRACT, "startTaskAsOf", _raw(task), node, number, _raw(block_hash))


def start_group_call(
    tasks: Sequence[TaskKey],
    nodes: Sequence[Address],
    number: int = 0,
    block_hash: Hash = ZERO_HASH,
) -> str:
    """Return the calldata that starts a group on a chain that has this block.

    Block 0 means no block: the call then works on any chain.
    """
    names = [_raw(task) for task in tasks]
    return call_input(CONTRACT, "startGroup", names, nodes, number, _raw(block_hash))


def without_as_of(calldata: str) -> str:
    """Return the start call without its check of a block.

    A call that is simulated on the newest block runs in that block, which cannot see its own hash.
    """
    selector, arguments = calldata[:_SELECTOR], calldata[_SELECTOR:]
    if selector == _selector("startGroup"):
        # After the offsets of both lists come the block number and its hash.
        return selector + arguments[: 2 * _WORD] + 2 * _WORD * "0" + arguments[4 * _WORD :]
    if selector != _selector("startTaskAsOf"):
        return calldata
    return _selector("startTask") + arguments[: 2 * _WORD]


def start_call(task: TaskKey, node: Address) -> str:
    """Return the calldata that starts a task on any chain."""
    return call_input(CONTRACT, "startTask", _raw(task), node)


def queue_call(task: TaskKey) -> str:
    """Return the calldata that queues a task because no node is free."""
    return call_input(CONTRACT, "queueTask", _raw(task))


def drop_call(task: TaskKey) -> str:
    """Return the calldata that removes a task from the queue because its fee is too low."""
    return call_input(CONTRACT, "dropTask", _raw(task), _FEE_TOO_LOW)


def drop_group_call(tasks: Sequence[TaskKey]) -> str:
    """Return the calldata that removes all tasks of a group without nodes from the queue."""
    return call_input(CONTRACT, "dropGroup", [_raw(task) for task in tasks], _FEE_TOO_LOW)


def request_download_call(node: Address, model: str) -> str:
    """Return the calldata that requests a node to download a model."""
    return call_input(CONTRACT, "requestDownload", node, model)


def check_dispatcher(lines: PoolView, network: Address, dispatcher: Address) -> None:
    """Check that the network accepts starts from the configured dispatcher key.

    Raises:
        InputError: at all endpoints another account is the dispatcher.
        TransientError: no endpoint confirms the key, and at least one does not respond.
    """
    others: list[str] = []
    silences: list[TransientError] = []
    for line in lines.singly():
        try:
            found = _dispatcher(line, network)
        except TransientError as error:
            silences.append(error)
            continue
        if found == dispatcher.lower():
            return
        others.append(found)
    if silences:
        raise silences[0]
    raise InputError(
        f"the dispatcher of {network} is {others[0]}, keys.dispatcher_keystore holds "
        f"{dispatcher}: name it by setDispatcher, or use the other key"
    )


def _dispatcher(lines: PoolView, network: Address) -> str:
    asked = {"to": network, "data": call_input(CONTRACT, "dispatcher")}
    try:
        answer = lines.ask("eth_call", asked, "latest")
    except RevertError:
        raise TransientError(f"{network} does not answer as a TaskNetwork") from None
    with understood(f"a TaskNetwork at {network}"):
        (found,) = call_output(CONTRACT, "dispatcher", answer)
        return str(found).lower()


@cache
def _selector(function: str) -> str:
    return load(CONTRACT).functions[function].digest[:_SELECTOR]


def _raw(word: str) -> bytes:
    return bytes.fromhex(word[2:])
