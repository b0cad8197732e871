"""A tree of consistent blocks, in which mining on an older block creates a fork.

The same calls produce the same hashes in every process.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.mining import MinedBlock

GENESIS_TIME = 1_700_000_000
# The sender in `mine_block_with_logs`; no test checks this address.
SENDER = "0x" + "5e" * 20


class TxPlacement(NamedTuple):
    """The position of a transaction in a block.

    The transaction may also be in orphaned blocks.
    """

    block: Block
    tx_index: int


@dataclass(slots=True)
class BlockIndex:
    """All blocks of all forks, with the positions of every transaction."""

    chain_id: int
    block_by_hash: dict[str, Block] = field(default_factory=dict)
    placements_by_tx: dict[str, list[TxPlacement]] = field(default_factory=dict)

    def add_block(self, block: Block, tx_hashes: Iterable[str]) -> None:
        """Add a block and the positions of its transactions."""
        self.block_by_hash[block.hash] = block
        for index, tx_hash in enumerate(tx_hashes):
            self.placements_by_tx.setdefault(tx_hash, []).append(TxPlacement(block, index))


class BlockTree:
    """Blocks on top of a genesis block.

    `start` is the time of the genesis block in unix seconds. One thread may mine while any number
    of threads read.
    """

    def __init__(self, chain_id: int = 31337, start: int = GENESIS_TIME) -> None:
        self.chain_id = chain_id
        self.blocks = BlockIndex(chain_id)
        self._child_counts: dict[str, int] = {}
        self._nonce = 0
        self.genesis = self._add_block(None, (0, start), ())
        # The block that was mined last, on any fork.
        self.last_mined: Block = self.genesis

    def mine(
        self,
        txs: Iterable[Tx] = (),
        parent_block: Block | None = None,
        seconds: int = 12,
        *,
        number: int | None = None,
    ) -> MinedBlock:
        """Mine a block `seconds` after its parent, which is the last mined block by default.

        If `number` is given, the heights below it are skipped, as on some chains. `seconds` may be
        0 or negative.
        """
        parent_or_last = parent_block or self.last_mined
        block_number = parent_or_last.number + 1 if number is None else number
        self.last_mined = block = self._add_block(
            parent_or_last, (block_number, parent_or_last.time + seconds), txs
        )
        return block

    def mine_block_with_logs(
        self,
        *logs: FakeLog,
        parent_block: Block | None = None,
        seconds: int = 12,
        calldata: str = "0x",
    ) -> MinedBlock:
        """Mine a block whose only transaction emits these logs.

        The transaction is sent to the contract of the first log.
        """
        contract = logs[0].address if logs else None
        return self.mine([Tx(SENDER, contract, calldata, logs=logs)], parent_block, seconds)

    def mine_empty_blocks(
        self, count: int, parent_block: Block | None = None, seconds: int = 12
    ) -> Block:
        """Mine `count` empty blocks, and return the last one."""
        last_block = parent_block or self.last_mined
        for _ in range(count):
            last_block = self.mine((), last_block, seconds)
        return last_block

    def _add_block(
        self, parent: Block | None, position: tuple[int, int], txs: Iterable[Tx]
    ) -> MinedBlock:
        parent_hash = parent.hash if parent else ""
        child_index = self._child_counts.get(parent_hash, 0)
        self._child_counts[parent_hash] = child_index + 1
        block = MinedBlock(
            parent, (*position, child_index), tuple(self._assign_nonces(txs)), self.chain_id
        )
        self.blocks.add_block(block, block.tx_hashes)
        return block

    def _assign_nonces(self, txs: Iterable[Tx]) -> Iterator[Tx]:
        for tx in txs:
            yield tx.with_nonce(self._nonce)
            self._nonce += 1


def get_branch(block: Block) -> list[Block]:
    """Return the chain from the first block to `block`."""
    branch_blocks: list[Block] = []
    current_block: Block | None = block
    while current_block is not None:
        branch_blocks.append(current_block)
        current_block = current_block.parent
    return branch_blocks[::-1]


class BranchView:
    """The branch that an endpoint shows.

    A height without a block maps to None.
    """

    def __init__(self, head: Block) -> None:
        self._branch: list[Block | None] = []
        for block in get_branch(head):
            self._append_block(block)
        self._shown_hashes = {block.hash for block in get_branch(head)}
        self.head = head

    def switch_to(self, head: Block) -> list[Block]:
        """Switch to the branch of another head, and return its new blocks in ascending order."""
        new_blocks: list[Block] = []
        current_block: Block | None = head
        while current_block is not None and not self.contains(current_block):
            new_blocks.append(current_block)
            current_block = current_block.parent
        new_blocks.reverse()
        # The list is replaced instead of changed, because other threads may be reading it.
        common_branch = (
            self._branch[: current_block.number + 1] if current_block is not None else []
        )
        if len(common_branch) < len(self._branch):
            self._branch = common_branch
        for block in new_blocks:
            self._append_block(block)
            self._shown_hashes.add(block.hash)
        self.head = head
        return new_blocks

    def _append_block(self, block: Block) -> None:
        self._branch += [None] * (block.number - len(self._branch))
        self._branch.append(block)

    def find_block(self, number: int) -> Block | None:
        """Return the block at a height, or None if there is none."""
        return self._branch[number] if 0 <= number <= self.head.number else None

    def get_blocks(self, first_number: int, last_number: int) -> list[Block]:
        """Return the existing blocks of a range."""
        last_number = min(last_number, self.head.number)
        return [
            block
            for block in islice(self._branch, max(0, first_number), last_number + 1)
            if block is not None
        ]

    def get_block_below_head(self, depth: int) -> Block | None:
        """Return the block `depth` below the head, or the first block of a shorter chain."""
        number = max(0, self.head.number - depth)
        while number and self._branch[number] is None:
            number -= 1
        return self._branch[number]

    def contains(self, block: Block) -> bool:
        shown_block = self._branch[block.number] if block.number < len(self._branch) else None
        return shown_block is not None and shown_block.hash == block.hash

    def has_ever_contained(self, block: Block) -> bool:
        """Return whether a block is or was on the branch."""
        return block.hash in self._shown_hashes
