"""The reference network on a test's chain: who is who, and each step as one short call."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from web3 import Web3
from web3.contract import Contract

from tests.support.evm.chain import Chain, Receipt

ETHER = 10**18
MIN_STAKE = 400 * ETHER
FEE = 3 * ETHER
TIMEOUT = 300
NOTHING = bytes(32)
NOBODY = "0x" + "00" * 20
GPU = "NVIDIA GeForce RTX 4090"
VRAM = 24
VERSION = (2, 5, 0)


class Last(IntEnum):
    """`lastStatus` in the events."""

    CREATED = 0
    QUEUED = 1
    STARTED = 2
    SUBMITTED = 3
    ERROR_REPORTED = 4
    VALIDATED = 5


class Why(IntEnum):
    """`reason` in the events."""

    TIMEOUT = 1
    INCORRECT_RESULT = 3
    FEE_TOO_LOW = 4
    CANCELLED = 5
    GROUP_TIMEOUT = 6
    ERROR_REPORTED = 7
    CREATOR_VALIDATION_TIMEOUT = 8


class Status(IntEnum):
    """Where the contract's book says that a task stands."""

    UNKNOWN = 0
    CREATED = 1
    QUEUED = 2
    STARTED = 3
    SUBMITTED = 4
    ERROR_REPORTED = 5
    VALIDATED = 6
    SUCCEEDED = 7
    REFUNDED = 8
    INVALIDATED = 9
    ABORTED = 10
    TIMED_OUT = 11


class Standing(IntEnum):
    """Where the contract's book says that a node stands."""

    UNKNOWN = 0
    ACTIVE = 1
    PAUSED = 2
    QUIT = 3
    SLASHED = 4
    KICKED_OUT = 5


class Order(NamedTuple):
    """What createTask takes, in its order."""

    id: bytes
    group: bytes = NOTHING
    group_size: int = 0
    kind: int = 0
    min_vram: int = 8
    required_gpu: str = ""
    required_gpu_vram: int = 0
    models: Sequence[str] = ("sdxl",)
    major: int = 2
    minor: int = 0
    patch: int = 0
    size: int = 1
    timeout: int = TIMEOUT


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def padded(address: str) -> bytes:
    return word(int(address, 16))


class Network:
    """Admin, dispatcher and treasury are the first three accounts; the rest are anybody."""

    def __init__(self, chain: Chain, contract: Contract) -> None:
        self.chain = chain
        self.contract = contract
        self.does = contract.functions
        self.admin, self.dispatcher, self.treasury, self.creator, *self.nodes = chain.accounts
        self._ids = 0

    @classmethod
    def deployed(cls, chain: Chain, min_stake: int = MIN_STAKE) -> "Network":
        return cls(chain, chain.deploy("TaskNetwork", *chain.accounts[:3], min_stake))

    # --- nodes ---

    def join(self, node: str, *, stake: int = MIN_STAKE, **told: Any) -> Receipt:
        version = told.get("version", VERSION)
        gpu, vram = told.get("gpu", GPU), told.get("vram", VRAM)
        call = self.does.join(gpu, vram, *version, told.get("models", []))
        return self.chain.send(call, sender=node, value=stake)

    def by(self, sender: str, call: Any, value: int = 0) -> Receipt:
        return self.chain.send(call, sender=sender, value=value)

    # --- tasks ---

    def order(self, **wanted: Any) -> tuple[Any, ...]:
        """An order with an id that was not used before, unless one is given."""
        self._ids += 1
        # web3 encodes a plain tuple only.
        return tuple(Order(**{"id": word(self._ids), **wanted}))

    def create(self, *, creator: str = "", fee: int = FEE, **wanted: Any) -> bytes:
        """The new task's key."""
        call = self.does.createTask(self.order(**wanted))
        receipt = self.chain.send(call, sender=creator or self.creator, value=fee)
        return bytes(receipt.only("TaskCreated")["task"])

    def start(self, task: bytes, node: str) -> Receipt:
        return self.by(self.dispatcher, self.does.startTask(task, node))

    def begun(self, node: str, **wanted: Any) -> bytes:
        """A new task that runs on this node."""
        task = self.create(**wanted)
        self.start(task, node)
        return task

    def submit(self, task: bytes, node: str, result: int = 1) -> Receipt:
        return self.by(node, self.does.submitResult(task, word(result)))

    def submitted(self, node: str, result: int = 1, **wanted: Any) -> bytes:
        """A new task that this node has run."""
        task = self.begun(node, **wanted)
        self.submit(task, node, result)
        return task

    def report_error(self, task: bytes, node: str) -> Receipt:
        return self.by(node, self.does.reportError(task))

    def time_out(self, task: bytes, sender: str = "") -> Receipt:
        return self.by(sender or self.admin, self.does.timeOutTask(task))

    def time_limit(self, task: bytes) -> int:
        """Last second in which the node's answer counts."""
        _, _, _, _, started, *_, timeout, _ = self.does.taskOf(task).call()
        return int(started + timeout)

    # --- books ---

    @staticmethod
    def key(creator: str, number: bytes) -> bytes:
        """The name in events of the task or group that a creator calls so."""
        return bytes(Web3.solidity_keccak(["bytes32", "bytes32"], [padded(creator), number]))

    def owed(self, account: str) -> int:
        return int(self.does.withdrawable(account).call())

    def balance(self, account: str = "") -> int:
        """Of an account, else of the network itself."""
        at = account or self.contract.address
        return int(self.chain.rpc("eth_getBalance", at, "latest"), 16)

    def status(self, task: bytes) -> Status:
        return Status(self.does.taskOf(task).call()[2])

    def standing(self, node: str) -> Standing:
        return Standing(self.does.nodeOf(node).call()[8])
