"""Drives CommitTask and CommitNode on Anvil, and keeps the ledger of the real actions.

A block contains any number of actions; each is recorded in the ledger when it is planned, with
the block, index and time that it will have.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eth_utils.crypto import keccak
from web3.contract import Contract

from tests.integration.profiles.commit_ledger import (
    KICKOUT_THRESHOLD,
    TIMEOUT,
    UNKNOWN_SCORE,
    At,
    Job,
    Ledger,
)
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil
from tests.support.evm.chain import Chain, Receipt

ACCOUNTS = 16
GPU, VRAM = "NVIDIA GeForce RTX 4090", 24
QUEUE_LIMIT = 2
STAKE = 400 * 10**18
CHAIN_ID = 31337


@dataclass
class CommitNetwork:
    """One creator, many nodes; `mine` ends the block that contains the planned actions."""

    chain: Chain
    node: Contract
    task: Contract
    ledger: Ledger = field(default_factory=lambda: Ledger(QUEUE_LIMIT))
    receipts: list[Receipt] = field(default_factory=list)
    _sent: list[tuple[dict[str, Any], bool]] = field(default_factory=list)
    _time: int = 0

    def __post_init__(self) -> None:
        self.creator, self.stranger, *self.nodes = self.chain.accounts
        self._time = self.chain.time + 12

    @property
    def contracts(self) -> dict[str, str]:
        return {"Task": str(self.task.address), "Node": str(self.node.address)}

    # --- blocks ---

    def mine(self, seconds: int = 12) -> list[Receipt]:
        """End the block, so that the next one follows `seconds` later;
        return the receipts of its actions.
        """
        self.chain.at(self._time)
        hashes = self.chain.together(*(transaction for transaction, _ in self._sent))
        self.receipts = [self._receipt(n, sent) for n, sent in enumerate(hashes)]
        self._sent.clear()
        self._time += seconds
        return self.receipts

    def _receipt(self, place: int, sent: str) -> Receipt:
        raw = self.chain.rpc("eth_getTransactionReceipt", sent)
        _, works = self._sent[place]
        assert int(raw["transactionIndex"], 16) == place
        assert (raw["status"] == "0x1") is works, f"deed {place} of block {raw['blockNumber']}"
        return self.chain.receipt(sent) if works else Receipt(raw, [])

    def later(self, seconds: int) -> None:
        """Delay the block that is being filled; it must be empty."""
        assert not self._sent
        self._time += seconds

    @property
    def now(self) -> int:
        """Return the time of the block that is being filled."""
        return self._time

    def _does(self, sender: str, call: Any, *, value: int = 0, works: bool = True) -> None:
        at = At(self.chain.block + 1, len(self._sent), self._time)
        self._sent.append((self.chain.request(call, sender=sender, value=value), works))
        self.ledger.begin(at)

    def fails(self, sender: str, call: Any) -> None:
        """Plan a call that the contract rejects; it is mined without an effect."""
        self._does(sender, call, works=False)

    # --- nodes ---

    def join(self, *nodes: str, gpu: str = GPU, vram: int = VRAM) -> None:
        for node in nodes:
            self._does(node, self.node.functions.join(gpu, vram), value=STAKE)
            self.ledger.join(node.lower(), gpu, vram)

    def pause(self, node: str) -> None:
        self._does(node, self.node.functions.pause())
        self.ledger.pause(node.lower())

    def resume(self, node: str) -> None:
        self._does(node, self.node.functions.resume())
        self.ledger.resume(node.lower())

    def quit(self, node: str) -> None:
        self._does(node, self.node.functions.quit())
        self.ledger.quit(node.lower())

    # --- tasks ---

    def create(self, fee: int = 1000) -> Job:
        number = len(self.ledger.jobs) + 1
        call = self.task.functions.createTask(0, bytes(32), bytes(32), 8, 1, "", 0)
        self._does(self.creator, call, value=fee)
        self.ledger.create(number, self.creator.lower(), fee)
        return self.ledger.jobs[number]

    def commit(self, job: Job, *places: int, result: bytes = b"right") -> None:
        for place in places:
            node = job.parts[place].node
            self._does(node, self.commitment(job, place, result))
            self.ledger.commit(job.number, place)

    def commitment(self, job: Job, place: int, result: bytes = b"right") -> Any:
        """Return the call, so that any account can send it."""
        nonce = place.to_bytes(32, "big")
        sealed = keccak(result + nonce)
        return self.task.functions.submitTaskResultCommitment(job.number, place, sealed, nonce)

    def disclose(self, job: Job, *places: int, result: bytes = b"right") -> None:
        for place in places:
            self._does(job.parts[place].node, self.disclosure(job, place, result))
            self.ledger.disclose(job.number, place, result)

    def disclosure(self, job: Job, place: int, result: bytes) -> Any:
        """Return the call, like `commitment`."""
        return self.task.functions.discloseTaskResult(job.number, place, result)

    def report_error(self, job: Job, *places: int) -> None:
        for place in places:
            call = self.task.functions.reportTaskError(job.number, place)
            self._does(job.parts[place].node, call)
            self.ledger.report_error(job.number, place)

    def upload(self, job: Job) -> None:
        part = job.winner
        assert part is not None
        call = self.task.functions.reportResultsUploaded(job.number, part.round)
        self._does(part.node, call)
        self.ledger.upload(job.number)

    def cancel(self, job: Job, *, sender: str = "") -> None:
        self._does(sender or self.creator, self.task.functions.cancelTask(job.number))
        self.ledger.cancel(job.number)

    def may_cancel(self, job: Job) -> bool:
        return not job.parts or self.now > job.parts[0].started.time + TIMEOUT

    def status_of(self, node: str) -> int:
        """Return the node's status in the contract's storage."""
        return int(
            self.node.functions.getNodeStatus(self.chain.web3.to_checksum_address(node)).call()
        )


@contextmanager
def a_commit_network() -> Iterator[CommitNetwork]:
    """Deploy both contracts on a new chain."""
    with run_anvil(*FREE_BY_HAND, "--accounts", str(ACCOUNTS)) as url:
        chain = Chain(url)
        try:
            qos = chain.deploy("testing/CrynuxQos", UNKNOWN_SCORE, KICKOUT_THRESHOLD)
            node = chain.deploy("testing/CommitNode", qos.address)
            task = chain.deploy("testing/CommitTask", node.address, qos.address, QUEUE_LIMIT)
            chain.send(qos.functions.updateNodeContractAddress(node.address))
            chain.send(qos.functions.updateTaskContractAddress(task.address))
            chain.send(node.functions.updateTaskContractAddress(task.address))
            yield CommitNetwork(chain, node, task)
        finally:
            chain.close()
