"""The reference network on a test's chain: its accounts, and one short call for each step."""

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
GWEI = 10**9
# For every kind of task: gwei, gwei per unit of size, seconds, seconds per unit of size.
FLOOR = (1_000_000, 1_000, 60, 0)
# The amount that a creator of a task of size 1 loses at a timeout.
TOLL = 1_001_000 * GWEI
NOTHING = bytes(32)
NOBODY = "0x" + "00" * 20
GPU = "NVIDIA GeForce RTX 4090"
VRAM = 24
VERSION = (2, 5, 0)


class LastStatusCode(IntEnum):
    """Values of `lastStatus` in the events."""

    CREATED = 0
    QUEUED = 1
    STARTED = 2
    SUBMITTED = 3
    ERROR_REPORTED = 4
    VALIDATED = 5


class AbortReasonCode(IntEnum):
    """Values of `reason` in the events."""

    TIMEOUT = 1
    INCORRECT_RESULT = 3
    FEE_TOO_LOW = 4
    CANCELLED = 5
    GROUP_TIMEOUT = 6
    ERROR_REPORTED = 7
    CREATOR_VALIDATION_TIMEOUT = 8


class Status(IntEnum):
    """A task's state in the contract's storage."""

    UNKNOWN = 0
    CREATED = 1
    QUEUED = 2
    STARTED = 3
    COMMITTED = 4
    SUBMITTED = 5
    ERROR_REPORTED = 6
    VALIDATED = 7
    SUCCEEDED = 8
    REFUNDED = 9
    INVALIDATED = 10
    ABORTED = 11
    TIMED_OUT = 12


class Standing(IntEnum):
    """A node's state in the contract's storage."""

    UNKNOWN = 0
    ACTIVE = 1
    PAUSED = 2
    QUIT = 3
    SLASHED = 4
    KICKED_OUT = 5


class Order(NamedTuple):
    """The arguments of createTask, in order."""

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


def encode_word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def pad_address(address: str) -> bytes:
    return encode_word(int(address, 16))


SALT = encode_word(0x5A17)


def compute_answer(group: bytes, result: int) -> bytes:
    """Return the answer of a group's node for this result, as the contract defines it."""
    return bytes(Web3.keccak(group + encode_word(result))) if result else NOTHING


def compute_commitment(task: bytes, node: str, answer: bytes, salt: bytes = SALT) -> bytes:
    """Return a node's commitment, as the contract defines it."""
    return bytes(Web3.keccak(task + pad_address(node) + answer + salt))


class Settings(NamedTuple):
    """The settings that the admin can change, with the values of a new contract."""

    min_stake: int = MIN_STAKE
    validation: int = 600
    group: int = 3600
    reveal: int = 120
    window: int = 86_400
    rejoin: int = 1800
    cool_down: int = 2**32 - 1


class Network:
    """The network; admin, dispatcher and treasury are the chain's first three accounts."""

    def __init__(self, chain: Chain, contract: Contract) -> None:
        self.chain = chain
        self.contract = contract
        self.does = contract.functions
        self.admin, self.dispatcher, self.treasury, self.creator, *self.nodes = chain.accounts
        self._ids = 0
        self._hidden: dict[bytes, tuple[str, bytes]] = {}

    @classmethod
    def deployed(cls, chain: Chain, min_stake: int = MIN_STAKE) -> "Network":
        return cls(chain, chain.deploy("TaskNetwork", *chain.accounts[:3], min_stake, FLOOR))

    # --- nodes ---

    def join(self, node: str, *, stake: int = MIN_STAKE, **node_fields: Any) -> Receipt:
        version = node_fields.get("version", VERSION)
        gpu = node_fields.get("gpu", GPU)
        vram = node_fields.get("vram", VRAM)
        call = self.does.join(gpu, vram, *version, node_fields.get("models", []))
        return self.chain.send(call, sender=node, value=stake)

    def by(self, sender: str, call: Any, value: int = 0) -> Receipt:
        return self.chain.send(call, sender=sender, value=value)

    # --- tasks ---

    def order(self, **order_fields: Any) -> tuple[Any, ...]:
        """Return an order, by default with an unused id."""
        self._ids += 1
        # web3 only encodes a plain tuple.
        return tuple(Order(**{"id": encode_word(self._ids), **order_fields}))

    def create(self, *, creator: str = "", fee: int = FEE, **order_fields: Any) -> bytes:
        """Create a task and return its key."""
        call = self.does.createTask(self.order(**order_fields))
        receipt = self.chain.send(call, sender=creator or self.creator, value=fee)
        return bytes(receipt.only("TaskCreated")["task"])

    def start(self, task: bytes, node: str) -> Receipt:
        return self.by(self.dispatcher, self.does.startTask(task, node))

    def create_started_task(self, node: str, **order_fields: Any) -> bytes:
        """Create a task, start it on a node, and return its key."""
        task = self.create(**order_fields)
        self.start(task, node)
        return task

    def submit(self, task: bytes, node: str, result: int = 1) -> Receipt:
        return self.by(node, self.does.submitResult(task, encode_word(result)))

    def submitted(self, node: str, result: int = 1, **order_fields: Any) -> bytes:
        """Create a task, run it on a node to its submission, and return its key."""
        task = self.create_started_task(node, **order_fields)
        self.submit(task, node, result)
        return task

    def report_error(self, task: bytes, node: str) -> Receipt:
        return self.by(node, self.does.reportError(task))

    def commit(self, task: bytes, node: str, answer: bytes = NOTHING) -> Receipt:
        """Commit to the answer of a group's task; `reveal` follows later.

        The answer `NOTHING` reports an error.
        """
        self._hidden[task] = (node, answer)
        return self.by(node, self.does.commitAnswer(task, compute_commitment(task, node, answer)))

    def reveal(self, task: bytes) -> Receipt:
        node, answer = self._hidden[task]
        return self.by(node, self.does.revealAnswer(task, answer, SALT))

    def time_out(self, task: bytes, sender: str = "") -> Receipt:
        return self.by(sender or self.admin, self.does.timeOutTask(task))

    def time_limit(self, task: bytes) -> int:
        """Return the last block time at which the node's answer counts."""
        task_fields = self.read_task(task)
        return int(task_fields["startedAt"] + task_fields["timeout"])

    # --- books ---

    def read_task(self, task: bytes) -> dict[str, Any]:
        """Return the contract's record of a task, by field name."""
        return self._named("taskOf", task)

    def node(self, account: str) -> dict[str, Any]:
        """Return the contract's record of an address, by field name."""
        return self._named("nodeOf", account)

    def _named(self, function: str, key: Any) -> dict[str, Any]:
        contract_function = self.contract.get_function_by_name(function)
        fields = contract_function.abi["outputs"][0]["components"]
        return dict(
            zip((field["name"] for field in fields), contract_function(key).call(), strict=True)
        )

    def change(self, **changes: int) -> Receipt:
        """Set the network's settings to those of a new contract, with these changes."""
        return self.by(self.admin, self.does.setSettings(tuple(Settings(**changes))))

    @staticmethod
    def key(creator: str, number: bytes) -> bytes:
        """Return the key, as in events, of a creator's task or group."""
        return bytes(Web3.solidity_keccak(["bytes32", "bytes32"], [pad_address(creator), number]))

    def owed(self, account: str) -> int:
        return int(self.does.withdrawable(account).call())

    def balance(self, account: str = "") -> int:
        """Return an account's balance, by default that of the network contract."""
        at = account or self.contract.address
        return int(self.chain.rpc("eth_getBalance", at, "latest"), 16)

    def status(self, task: bytes) -> Status:
        return Status(self.read_task(task)["status"])

    def standing(self, node: str) -> Standing:
        return Standing(self.node(node)["standing"])
