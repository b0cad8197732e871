"""Endpoints that serve forged blocks, from one wrong result to a whole forged chain.

A `ForgeryPlan` defines the lie, which is how the time and the transactions of a block are changed.
`Depth` defines how much else is forged to be consistent with the lie. `create_forged_provider`
returns an endpoint that serves the forged blocks. `block_faults.build_forwarding_fault` makes an
honest endpoint serve them at times.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from typing_extensions import override

from devnet.fakechain.block_json import Block, Json, Tx
from devnet.fakechain.mining import MinedBlock
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockIndex, BlockTree, get_branch

# Fields of a transaction that are forged while its true hash and signature are kept.
_FORGED_CALL_FIELDS = ("from", "value", "input")


class Depth(IntEnum):
    """The extent to which blocks are consistent with a lie.

    Each depth includes the lower ones. With `ANSWERS`, only the requested logs, transactions or
    status are forged. `RECEIPTS` forges whole receipts, and `HEADERS` also roots, bloom and time,
    under the true hash. `BLOCKS` forges whole linked blocks with their own hashes, but the first
    true block above them does not link to them. With `CHAIN`, all blocks above them are mined
    again.
    """

    ANSWERS = 1
    RECEIPTS = 2
    HEADERS = 3
    BLOCKS = 4
    CHAIN = 5


class BlockContent(NamedTuple):
    """The content of a block: its time in unix seconds, and its transactions."""

    time: int
    txs: tuple[Tx, ...]


def get_true_content(block: Block) -> BlockContent:
    return BlockContent(block.time, block.txs)


class ForgeryPlan(NamedTuple):
    """A way to forge a block.

    `forge_content` returns the forged content of a block, with the same number of transactions.
    `change_log` changes the JSON of a log. `change_tx_hash` changes a transaction hash in logs and
    receipts, which no header proves there.
    """

    name: str
    forge_content: Callable[[Block], BlockContent] = get_true_content
    change_log: Callable[[Json], Json] = dict
    change_tx_hash: Callable[[str], str] = str


def create_forged_provider(
    tree: BlockTree, forgery_plan: ForgeryPlan, depth: Depth, block_range: tuple[int, int]
) -> Provider:
    """Create an endpoint that serves a tree's newest branch with some blocks forged.

    `block_range` is the first and last forged block. The endpoint shows the whole branch at once.
    Tags, code and faults can be set as for any other endpoint.
    """
    forger = _Forger(BlockIndex(tree.chain_id), forgery_plan, depth, block_range)
    parent_block: Block = tree.genesis
    for true_block in get_branch(tree.last_mined):
        parent_block = forger.forge_block(true_block, parent_block)
        forger.known_blocks.add_block(parent_block, parent_block.tx_hashes)
    return Provider(forger.known_blocks, parent_block)


class _Forger(NamedTuple):
    known_blocks: BlockIndex
    forgery_plan: ForgeryPlan
    depth: Depth
    block_range: tuple[int, int]

    def forge_block(self, true_block: Block, parent: Block) -> Block:
        """Forge the block that replaces a true block on top of the given parent."""
        first_block, last_block = self.block_range
        if true_block.number < first_block or true_block.parent is None:
            return true_block
        if true_block.number > last_block:
            is_above_forgery = self.depth is Depth.CHAIN and parent.hash != true_block.parent_hash
            if is_above_forgery:
                return self._mine_block(true_block, parent, get_true_content(true_block))
            return _RelinkedBlock(true_block, parent)
        content = self.forgery_plan.forge_content(true_block)
        if self.depth < Depth.BLOCKS:
            is_unchanged = content == get_true_content(true_block)
            forged_sibling = (
                true_block
                if is_unchanged
                else self._mine_block(true_block, true_block.parent, content)
            )
            return _ForgedBlock(true_block, parent, forged_sibling, self)
        if content == get_true_content(true_block) and parent.hash == true_block.parent_hash:
            return _ForgedBlock(true_block, parent, true_block, self)
        return _ForgedBlock(
            true_block, parent, self._mine_block(true_block, parent, content), self
        )

    def _mine_block(self, true_block: Block, parent: Block, content: BlockContent) -> Block:
        return MinedBlock(
            parent, (true_block.number, content.time, 0), content.txs, self.known_blocks.chain_id
        )


class _RelinkedBlock(Block):
    """A copy of a true block on a new parent.

    Its header still names the true parent.
    """

    def __init__(self, true_block: Block, parent: Block, block_hash: str | None = None) -> None:
        super().__init__(
            true_block.number,
            true_block.hash if block_hash is None else block_hash,
            parent,
            true_block.time,
        )
        self._true_block = true_block

    @property
    @override
    def parent_hash(self) -> str:
        return self._true_block.parent_hash

    @property
    @override
    def txs(self) -> tuple[Tx, ...]:
        return self._true_block.txs

    @cached_property
    @override
    def header(self) -> Json:
        return self._true_block.header

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        return self._true_block.transactions

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        return self._true_block.receipts


class _ForgedBlock(_RelinkedBlock):
    """A block that combines parts of a true block with parts of a forged sibling."""

    def __init__(self, true_block: Block, parent: Block, sibling: Block, forger: _Forger) -> None:
        has_own_hash = forger.depth >= Depth.BLOCKS
        super().__init__(true_block, parent, sibling.hash if has_own_hash else None)
        self._sibling, self._depth, self._forgery_plan = sibling, forger.depth, forger.forgery_plan

    @property
    @override
    def parent_hash(self) -> str:
        return self._sibling.parent_hash

    @property
    @override
    def txs(self) -> tuple[Tx, ...]:
        return self._sibling.txs

    @cached_property
    @override
    def header(self) -> Json:
        if self._depth < Depth.HEADERS:
            return self._true_block.header
        return {**self._sibling.header, "hash": self.hash}

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        if self._depth >= Depth.HEADERS:
            forged_transactions = [self._with_block_hash(tx) for tx in self._sibling.transactions]
        else:
            true_and_sibling_txs = zip(
                self._true_block.transactions, self._sibling.transactions, strict=True
            )
            forged_transactions = [
                {**true_tx, **_pick_fields(forged_tx, _FORGED_CALL_FIELDS)}
                for true_tx, forged_tx in true_and_sibling_txs
            ]
        if self._depth is Depth.ANSWERS:
            return forged_transactions
        return [
            {**tx, "hash": self._forgery_plan.change_tx_hash(tx["hash"])}
            for tx in forged_transactions
        ]

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        if self._depth is Depth.ANSWERS:
            true_and_sibling_receipts = zip(
                self._true_block.receipts, self._sibling.receipts, strict=True
            )
            return [
                {**true_receipt, "status": forged_receipt["status"]}
                for true_receipt, forged_receipt in true_and_sibling_receipts
            ]
        return self._forged_receipts

    @cached_property
    @override
    def logs(self) -> list[Json]:
        return [log for receipt in self._forged_receipts for log in receipt["logs"]]

    @cached_property
    def _forged_receipts(self) -> list[Json]:
        """The forged receipts, with the hash of this block."""
        uses_sibling = self._depth >= Depth.HEADERS
        tx_hashes = self._sibling.tx_hashes if uses_sibling else self._true_block.tx_hashes
        forged_tx_hashes = map(self._forgery_plan.change_tx_hash, tx_hashes)
        return list(map(self._forge_receipt, self._sibling.receipts, forged_tx_hashes))

    def _forge_receipt(self, receipt: Json, tx_hash: str) -> Json:
        logs = [
            {**self._with_block_hash(log), "transactionHash": tx_hash} for log in receipt["logs"]
        ]
        changed_logs = [self._forgery_plan.change_log(log) for log in logs]
        return {**self._with_block_hash(receipt), "transactionHash": tx_hash, "logs": changed_logs}

    def _with_block_hash(self, entry: Json) -> Json:
        return {**entry, "blockHash": self.hash}


def _pick_fields(entry: Json, names: Sequence[str]) -> Json:
    return {name: entry[name] for name in names}
