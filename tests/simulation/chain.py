"""A chain in memory for one account: blocks by hash, forks, and a moving base fee (EIP-1559).

The chain executes the payload of every transaction, even if several have the same payload.
"""

import hashlib
import json
from dataclasses import dataclass, field
from random import Random

GWEI = 10**9
GAS_USED = 100_000
BLOCK_SECONDS = 12
_GENESIS_TIME = 1_700_000_000
_ROOM = 8


@dataclass(frozen=True, slots=True)
class Tx:
    """A signed transaction as the chain decodes it; `effect` is its calldata."""

    hash: str
    nonce: int
    effect: str
    gas_limit: int
    max_fee: int
    tip: int

    @classmethod
    def read(cls, raw: str) -> "Tx":
        """Decode the output of `PaperSigner`, which is 0x-prefixed hex."""
        tx_fields = json.loads(bytes.fromhex(raw[2:]))
        return cls(
            hash=hash_of(bytes.fromhex(raw[2:])),
            nonce=tx_fields["nonce"],
            effect=tx_fields["calldata"],
            gas_limit=tx_fields["gas_limit"],
            max_fee=tx_fields["max_fee"],
            tip=tx_fields["tip"],
        )


def hash_of(content: bytes) -> str:
    """Return the hash of these bytes, 0x-prefixed."""
    return "0x" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A block.

    `nonce`: the number of the account's transactions mined up to this block. `spent`: their cost
    in wei.
    """

    number: int
    hash: str
    parent: "Block | None"
    time: int
    base_fee: int
    txs: tuple[Tx, ...]
    nonce: int
    spent: int

    def price(self, tx: Tx) -> int:
        """Return the price per unit of gas that a transaction of this block paid, in wei."""
        return min(tx.max_fee, self.base_fee + tx.tip)

    def worked(self, tx: Tx, failing: int) -> bool:
        """Return whether the transaction succeeded; in another block, the result may differ.

        `failing` is the percentage of transactions that revert.
        """
        dice = hashlib.sha256(f"{self.hash}{tx.hash}".encode()).digest()
        return dice[0] * 100 // 256 >= failing


class Branch:
    """The blocks from the first one to a head, and the block of each transaction."""

    def __init__(self, genesis: Block) -> None:
        self.blocks = [genesis]
        self.place: dict[str, Block] = {}

    @property
    def head(self) -> Block:
        return self.blocks[-1]

    def has(self, block: Block) -> bool:
        return block.number < len(self.blocks) and self.blocks[block.number] is block

    def move_to(self, head: Block) -> list[Tx]:
        """Switch to a head, and return the transactions of the blocks that left the chain."""
        fresh = []
        block: Block | None = head
        while block is not None and not self.has(block):
            fresh.append(block)
            block = block.parent
        assert block is not None
        left = self.blocks[block.number + 1 :]
        del self.blocks[block.number + 1 :]
        gone = [tx for dropped_block in left for tx in dropped_block.txs]
        for tx in gone:
            del self.place[tx.hash]
        for added_block in reversed(fresh):
            self.blocks.append(added_block)
            self.place.update(dict.fromkeys((tx.hash for tx in added_block.txs), added_block))
        return gone


@dataclass
class Chain:
    """The true state of the chain; endpoints show it late, or show an older state.

    `attic`: every transaction that was ever in a pool, because a builder may still have it.
    `calm_fee`: the base fee that the chain tends to, in wei; a spike changes it. `asked_tip`: the
    minimum tip per unit of gas, in wei; builders include no transaction with less.
    """

    dice: Random
    failing: int = 0
    ether: int = 100 * 10**18
    calm_fee: int = 10 * GWEI
    asked_tip: int = 0
    attic_chance: float = 0.1
    attic: dict[int, list[Tx]] = field(default_factory=dict)
    _salt: int = 0

    def __post_init__(self) -> None:
        genesis = Block(0, hash_of(b"genesis"), None, _GENESIS_TIME, 10 * GWEI, (), 0, 0)
        self.branch = Branch(genesis)

    @property
    def head(self) -> Block:
        return self.branch.head

    def executed(self) -> list[str]:
        """Return every executed payload of the canonical chain.

        Repeated payloads appear repeatedly.
        """
        return [
            tx.effect
            for block in self.branch.blocks
            for tx in block.txs
            if block.worked(tx, self.failing)
        ]

    def mine(self, offered: dict[int, list[Tx]]) -> Block:
        """Mine one block on the head from the transactions in the pools, given by nonce."""
        block = self._built(self.head, offered)
        self.branch.move_to(block)
        return block

    def fork(self, depth: int, offered: dict[int, list[Tx]]) -> list[Tx]:
        """Replace the last `depth` blocks by one more.

        Return the transactions of the old blocks.
        """
        block = self.branch.blocks[-1 - depth]
        for _ in range(depth + 1):
            block = self._built(block, offered)
        return self.branch.move_to(block)

    def _built(self, parent: Block, offered: dict[int, list[Tx]]) -> Block:
        self._salt += 1
        base_fee = self._next_fee(parent)
        included_txs: list[Tx] = []
        nonce, spent = parent.nonce, parent.spent
        while len(included_txs) < _ROOM and self.dice.random() > 0.15:
            tx = self._choice(nonce, base_fee, self.ether - spent, offered)
            if tx is None:
                break
            included_txs.append(tx)
            nonce += 1
            spent += GAS_USED * min(tx.max_fee, base_fee + tx.tip)
        number = parent.number + 1
        digest = hash_of(f"{parent.hash}{number}{self._salt}".encode())
        time = parent.time + BLOCK_SECONDS
        return Block(number, digest, parent, time, base_fee, tuple(included_txs), nonce, spent)

    def _choice(
        self, nonce: int, base_fee: int, left: int, offered: dict[int, list[Tx]]
    ) -> Tx | None:
        """Choose a transaction for a nonce, occasionally one that every pool dropped long ago."""
        candidates = offered.get(nonce, [])
        if self.attic.get(nonce) and self.dice.random() < self.attic_chance:
            candidates = self.attic[nonce]
        payable = [
            tx
            for tx in candidates
            if min(tx.tip, tx.max_fee - base_fee) >= self.asked_tip
            and tx.max_fee * tx.gas_limit <= left
        ]
        return self.dice.choice(payable) if payable else None

    def _next_fee(self, parent: Block) -> int:
        """Return the next base fee, which moves towards `calm_fee` by at most an eighth."""
        step = parent.base_fee // 8
        target_fee = self.calm_fee * self.dice.randint(80, 120) // 100
        return max(min(target_fee, parent.base_fee + step), parent.base_fee - step, 7)
