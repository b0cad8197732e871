"""A chain in memory for one account: blocks by hash, forks, a base fee that moves (EIP-1559).

It executes every payload that a transaction carries, as often as one carries it.
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
    """A signed transaction as the chain reads it; `effect` is its calldata."""

    hash: str
    nonce: int
    effect: str
    gas_limit: int
    max_fee: int
    tip: int

    @classmethod
    def read(cls, raw: str) -> "Tx":
        """Read what `PaperSigner` wrote, 0x-prefixed hex."""
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
    """Return the hash that bytes are known by, 0x-prefixed."""
    return "0x" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`nonce`: how many transactions of the account are mined up to here; `spent`: their wei."""

    number: int
    hash: str
    parent: "Block | None"
    time: int
    base_fee: int
    txs: tuple[Tx, ...]
    nonce: int
    spent: int

    def price(self, tx: Tx) -> int:
        """Return what a unit of gas cost a transaction of this block, in wei."""
        return min(tx.max_fee, self.base_fee + tx.tip)

    def worked(self, tx: Tx, failing: int) -> bool:
        """Tell whether it did not revert, which in another block may be otherwise.

        `failing`: of a hundred, so many revert.
        """
        dice = hashlib.sha256(f"{self.hash}{tx.hash}".encode()).digest()
        return dice[0] * 100 // 256 >= failing


class Branch:
    """The blocks from the first to a head, and where each transaction is."""

    def __init__(self, genesis: Block) -> None:
        self.blocks = [genesis]
        self.place: dict[str, Block] = {}

    @property
    def head(self) -> Block:
        return self.blocks[-1]

    def has(self, block: Block) -> bool:
        return block.number < len(self.blocks) and self.blocks[block.number] is block

    def move_to(self, head: Block) -> list[Tx]:
        """Follow to this head; return the transactions of blocks that were left."""
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
    """What is so; endpoints show it late, or show what was so.

    `attic`: every transaction that any pool ever took: some builder may still have it.
    `calm_fee`: where the base fee tends to, in wei; a spike moves it. `asked_tip`: what is left
    for builders of a unit of gas at least, in wei; they take nothing else.
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
        """Return every payload as often as the canonical chain executed it."""
        return [
            tx.effect
            for block in self.branch.blocks
            for tx in block.txs
            if block.worked(tx, self.failing)
        ]

    def mine(self, offered: dict[int, list[Tx]]) -> Block:
        """Put one block on the head, of what pools offer by nonce."""
        block = self._built(self.head, offered)
        self.branch.move_to(block)
        return block

    def fork(self, depth: int, offered: dict[int, list[Tx]]) -> list[Tx]:
        """Replace the last `depth` blocks by one more; return what they had in them."""
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
        """Pick one for a nonce; now and then one that every pool forgot long ago."""
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
        """Step towards where it tends to, by an eighth at most."""
        step = parent.base_fee // 8
        target_fee = self.calm_fee * self.dice.randint(80, 120) // 100
        return max(min(target_fee, parent.base_fee + step), parent.base_fee - step, 7)
