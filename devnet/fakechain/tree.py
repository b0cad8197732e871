"""A tree of consistent blocks; mining on an older block creates a fork.

The same calls produce the same hashes in every process.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from devnet.fakechain.block_json import Block, Said, Tx
from devnet.fakechain.mining import MinedBlock

START = 1_700_000_000
# The sender of `mine_logs`; tests do not check this address.
SENDER = "0x" + "5e" * 20


class TxPlacement(NamedTuple):
    """The position of a transaction in a block; a transaction may also be in orphaned blocks."""

    block: Block
    place: int


@dataclass(slots=True)
class Blocks:
    """All blocks of all forks, and the positions of each transaction in them."""

    chain_id: int
    by_hash: dict[str, Block] = field(default_factory=dict)
    places: dict[str, list[TxPlacement]] = field(default_factory=dict)

    def add(self, block: Block, tx_hashes: Iterable[str]) -> None:
        """Add one block and the positions of its transactions."""
        self.by_hash[block.hash] = block
        for index, tx_hash in enumerate(tx_hashes):
            self.places.setdefault(tx_hash, []).append(TxPlacement(block, index))


class Tree:
    """Blocks on top of a genesis block; `start` is its time.

    One thread may mine while any number of threads read.
    """

    def __init__(self, chain_id: int = 31337, start: int = START) -> None:
        self.chain_id = chain_id
        self.blocks = Blocks(chain_id)
        self._children: dict[str, int] = {}
        self._nonce = 0
        self.genesis = self._grown(None, (0, start), ())
        # The last mined block, on any fork.
        self.last: Block = self.genesis

    def mine(
        self,
        txs: Iterable[Tx] = (),
        on: Block | None = None,
        seconds: int = 12,
        *,
        number: int | None = None,
    ) -> MinedBlock:
        """Mine a block `seconds` after its parent `parent_block`, by default the last block mined.

        `number` skips heights, as some chains do. `seconds` may be 0 or negative.
        """
        parent = on or self.last
        height = parent.number + 1 if number is None else number
        self.last = block = self._grown(parent, (height, parent.time + seconds), txs)
        return block

    def say(
        self, *said: Said, on: Block | None = None, seconds: int = 12, calldata: str = "0x"
    ) -> MinedBlock:
        """Mine a block with one transaction that emits these logs.

        The transaction is sent to the contract of the first log.
        """
        to = said[0].address if said else None
        return self.mine([Tx(SENDER, to, calldata, logs=said)], on, seconds)

    def mine_many(self, blocks: int, on: Block | None = None, seconds: int = 12) -> Block:
        """Mine so many empty blocks and return the last one."""
        last = on or self.last
        for _ in range(blocks):
            last = self.mine((), last, seconds)
        return last

    def _grown(
        self, parent: Block | None, place: tuple[int, int], txs: Iterable[Tx]
    ) -> MinedBlock:
        over = parent.hash if parent else ""
        salt = self._children.get(over, 0)
        self._children[over] = salt + 1
        block = MinedBlock(parent, (*place, salt), tuple(self._numbered(txs)), self.chain_id)
        self.blocks.add(block, block.tx_hashes)
        return block

    def _numbered(self, txs: Iterable[Tx]) -> Iterator[Tx]:
        for tx in txs:
            yield tx.numbered(self._nonce)
            self._nonce += 1


def branch(block: Block) -> list[Block]:
    """Return the chain from the first block up to this one."""
    found: list[Block] = []
    at: Block | None = block
    while at is not None:
        found.append(at)
        at = at.parent
    return found[::-1]


class View:
    """One branch at a time; heights that the chain skipped are None."""

    def __init__(self, head: Block) -> None:
        self._branch: list[Block | None] = []
        for block in branch(head):
            self._put(block)
        self._shown = {block.hash for block in branch(head)}
        self.head = head

    def show(self, head: Block) -> list[Block]:
        """Switch to the branch of another head, and return its new blocks, lowest first."""
        came: list[Block] = []
        at: Block | None = head
        while at is not None and not self.shows(at):
            came.append(at)
            at = at.parent
        came.reverse()
        # Other threads may be reading the list, so it is replaced rather than changed.
        kept = self._branch[: at.number + 1] if at is not None else []
        if len(kept) < len(self._branch):
            self._branch = kept
        for block in came:
            self._put(block)
            self._shown.add(block.hash)
        self.head = head
        return came

    def _put(self, block: Block) -> None:
        self._branch += [None] * (block.number - len(self._branch))
        self._branch.append(block)

    def at(self, number: int) -> Block | None:
        """Return the block at this height, or None."""
        return self._branch[number] if 0 <= number <= self.head.number else None

    def between(self, first: int, last: int) -> list[Block]:
        """Return the existing blocks of a range."""
        last = min(last, self.head.number)
        return [one for one in islice(self._branch, max(0, first), last + 1) if one is not None]

    def below_head(self, blocks: int) -> Block | None:
        """Return the block at a distance below the head, or the first one."""
        number = max(0, self.head.number - blocks)
        while number and self._branch[number] is None:
            number -= 1
        return self._branch[number]

    def shows(self, block: Block) -> bool:
        """Return whether a block is on the branch."""
        found = self._branch[block.number] if block.number < len(self._branch) else None
        return found is not None and found.hash == block.hash

    def has_shown(self, block: Block) -> bool:
        """Return whether a block is or once was on the branch."""
        return block.hash in self._shown
