"""Drives the doubles of Crynux's contracts with an adapter in front of them.

The oracle is a KickCaller: it gives the adapter the gas of a kickout and reads one word of its
result.
"""

from dataclasses import dataclass, field
from typing import Any

from eth_utils.crypto import keccak
from web3.contract import Contract

from devnet.crynux.crynux_network import derive_public_key
from tests.support.evm.chain import Chain, Receipt

STAKE = 400 * 10**18
EVIDENCE = bytes.fromhex("e1" * 32)
QUIT, AVAILABLE, BUSY, PAUSED = 0, 1, 2, 5
GAS = {"VssTaskAdapter": 3_000_000, "CommitTaskAdapter": 600_000, "NodeStakingAdapter": 600_000}


@dataclass
class NodeNetwork:
    """A Node contract of one generation with its related contracts, and its adapter."""

    chain: Chain
    node: Contract
    qos: Contract
    task: Contract
    caller: Contract
    adapter: Contract
    members: list[str] = field(default_factory=list)
    made: int = 0

    @property
    def owner(self) -> str:
        """Return the account that owns the network until the adapter does, creates tasks, and is
        relay and deployer.
        """
        return self.chain.accounts[0]

    @property
    def first(self) -> str:
        return self.members[0]

    # --- the network ---

    def hardware(self, place: int, models: int) -> tuple[object, ...]:
        raise NotImplementedError

    def join_call(self, place: int, models: int = 1) -> Any:
        return self.node.functions.join(*self.hardware(place, models))

    def join(self, place: int, models: int = 1) -> str:
        account = self.chain.accounts[place]
        self.send(self.join_call(place, models), sender=account, value=STAKE)
        self.members.append(account)
        return account

    def work(self) -> Any:
        """Give every member a task; pass the result to `rest`."""
        raise NotImplementedError

    def rest(self, work: Any) -> None:
        """Let the members complete the tasks."""
        raise NotImplementedError

    def slash(self, work: Any) -> Receipt:
        """Let one member be caught with a wrong result."""
        raise NotImplementedError

    def status(self, account: str) -> int:
        return int(self.node.functions.getNodeStatus(account).call())

    def stake(self, account: str) -> int:
        return int(self.node.functions.getStakedAmount(account).call())

    # --- the adapter ---

    def kick(self, account: str, gas: int = 0) -> Receipt:
        gas_limit = gas or GAS[self.name]
        call = self.caller.functions.kick(self.adapter.address, account, EVIDENCE, gas_limit)
        return self.send(call)

    def reason(self, receipt: Receipt) -> bytes:
        """Return the selector of the adapter's error."""
        return bytes(receipt.only("Refused")["reason"])[:4]

    @property
    def name(self) -> str:
        raise NotImplementedError

    def send(self, call: Any, sender: str = "", value: int = 0) -> Receipt:
        return self.chain.send(call, sender=sender or self.owner, value=value)

    def by_node(self, account: str, name: str, *args: Any) -> Receipt:
        return self.send(getattr(self.node.functions, name)(*args), sender=account)


class VssNodes(NodeNetwork):
    """One node per task."""

    @property
    def name(self) -> str:
        return "VssTaskAdapter"

    def hardware(self, place: int, models: int) -> tuple[object, ...]:
        names = [f"model {number}" for number in range(models)]
        return "RTX 4090", 24, (1, 2, 0), derive_public_key(place), names

    def _tasks(self, count: int) -> list[bytes]:
        """Return tasks; up to three of them are in one group."""
        self.made += 1
        guid = keccak(text=f"group {self.made}")
        ids = []
        for member in range(count):
            nonce = keccak(text=f"nonce {self.made} {member}")
            ids.append(keccak(guid + nonce))
            order: tuple[Any, ...] = (0, ids[-1], nonce, [], 0, "", 0, (1, 2, 0), 1)
            self.send(self.task.functions.createTask(*order), value=1000)
            self._do("reportTaskParametersUploaded", ids[-1])
        return [guid, *ids]

    def work(self) -> list[bytes]:
        return self._tasks(len(self.members))

    def rest(self, work: list[bytes]) -> None:
        for id_ in work[1:]:
            self._answer(id_, b"right")
            self._do("validateSingleTask", id_, b"\1", derive_public_key(0))
            self._do("reportTaskResultUploaded", id_)

    def slash(self, work: list[bytes]) -> Receipt:
        guid, *ids = work
        for id_, result in zip(ids, (b"right", b"right", b"wrong"), strict=True):
            self._answer(id_, result)
        return self._do("validateTaskGroup", *ids, guid, b"\1", derive_public_key(0))

    def _answer(self, id_: bytes, result: bytes) -> None:
        (node,) = (member for member in self.members if self._task_of(member) == id_)
        self.send(self.task.functions.submitTaskScore(id_, result), sender=node)

    def _task_of(self, account: str) -> bytes:
        return bytes(self.task.functions.getNodeTask(account).call())

    def _do(self, name: str, *args: Any) -> Receipt:
        return self.send(getattr(self.task.functions, name)(*args))


class CommitNodes(NodeNetwork):
    """Three nodes per task."""

    @property
    def name(self) -> str:
        return "CommitTaskAdapter"

    def hardware(self, place: int, models: int) -> tuple[object, ...]:
        assert (place, models) >= (0, 1), "nobody asks for models here"
        return "RTX 4090", 24

    def work(self) -> tuple[int, list[str]]:
        self.made += 1
        call = self.task.functions.createTask(0, bytes(32), bytes(32), 8, 1, "", 0)
        receipt = self.send(call, value=1000)
        started = [event.args for event in receipt.events if event.event == "TaskStarted"]
        return started[0]["taskId"], [arguments["selectedNode"] for arguments in started]

    def rest(self, work: tuple[int, list[str]]) -> None:
        self._disclose(work, (b"right", b"right", b"right"))
        number, nodes = work
        self._do(nodes[0], "reportResultsUploaded", number, 0)

    def slash(self, work: tuple[int, list[str]]) -> Receipt:
        return self._disclose(work, (b"right", b"right", b"wrong"))

    def _disclose(
        self, work: tuple[int, list[str]], results: tuple[bytes, bytes, bytes]
    ) -> Receipt:
        number, nodes = work
        for place, (node, result) in enumerate(zip(nodes, results, strict=True)):
            sealed = (keccak(result + bytes(32)), bytes(32))
            self._do(node, "submitTaskResultCommitment", number, place, *sealed)
        receipts = [
            self._do(node, "discloseTaskResult", number, place, result)
            for place, (node, result) in enumerate(zip(nodes, results, strict=True))
        ]
        return receipts[-1]

    def _do(self, node: str, name: str, *args: Any) -> Receipt:
        return self.send(getattr(self.task.functions, name)(*args), sender=node)


def vss_nodes(chain: Chain) -> VssNodes:
    """Deploy the VSSTask generation; its relay is the owner."""
    network = VssNodes(chain, *_deploy_contracts(chain, "Vss", (10, 10), ()))
    network.send(network.task.functions.setRelayAddress(network.owner))
    _hand_over(network)
    return network


def commit_nodes(chain: Chain) -> CommitNodes:
    parts = _deploy_contracts(chain, "Commit", (20, 20), (50,))
    network = CommitNodes(chain, *parts)
    _hand_over(network)
    return network


def _deploy_contracts(
    chain: Chain, generation: str, numbers: tuple[int, int], more: tuple[int, ...]
) -> tuple[Contract, Contract, Contract, Contract, Contract]:
    qos = chain.deploy("testing/CrynuxQos", *numbers)
    node = chain.deploy(f"testing/{generation}Node", qos.address)
    task = chain.deploy(f"testing/{generation}Task", node.address, qos.address, *more)
    chain.send(qos.functions.updateNodeContractAddress(node.address))
    chain.send(qos.functions.updateTaskContractAddress(task.address))
    chain.send(node.functions.updateTaskContractAddress(task.address))
    caller = chain.deploy("testing/KickCaller")
    adapter_arguments = (
        caller.address,
        chain.accounts[0],
        node.address,
        qos.address,
        task.address,
    )
    adapter = chain.deploy(f"adapters/{generation}TaskAdapter", *adapter_arguments)
    return node, qos, task, caller, adapter


def _hand_over(network: NodeNetwork) -> None:
    network.send(network.node.functions.transferOwnership(network.adapter.address))
