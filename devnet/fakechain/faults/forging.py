"""Forged endpoints: consistent lies, from a single wrong result up to a whole forged chain.

A `ForgeryPlan` defines what it makes of a block's time and transactions; `Depth` defines how much
else is forged to be consistent with the lie. `create_forged_provider` returns an endpoint that
serves the forged blocks; `block_faults.switched` lets an honest endpoint serve them now and then.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from typing_extensions import override

from devnet.fakechain.block_json import Block, Json, Tx
from devnet.fakechain.mining import MinedBlock
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import Blocks, Tree, branch

# Fields of a transaction that are forged under the true hash and signature.
_SAID_OF_CALLS = ("from", "value", "input")


class Depth(IntEnum):
    """How much of a block is consistent with the lie; each depth includes the ones before it.

    `ANSWERS`: logs, transactions or status, as they are requested. `RECEIPTS`: whole receipts.
    `HEADERS`: roots, bloom and time, under the true hash. `BLOCKS`: whole linked blocks with
    hashes of their own, but the first true block above them does not link. `CHAIN`: all blocks
    above them are mined again.
    """

    ANSWERS = 1
    RECEIPTS = 2
    HEADERS = 3
    BLOCKS = 4
    CHAIN = 5


class Told(NamedTuple):
    """The content of a block: its time in unix seconds, and its transactions."""

    time: int
    txs: tuple[Tx, ...]


def true_of(block: Block) -> Told:
    """Return the true content of a block."""
    return Told(block.time, block.txs)


class Lie(NamedTuple):
    """One way to forge a block.

    `forge_content` returns other transactions of a block, the same number of them. `change_log`
    changes logs as they are written, and `change_tx_hash` the hashes of transactions, which no
    header proves.
    """

    name: str
    tell: Callable[[Block], Told] = true_of
    mark: Callable[[Json], Json] = dict
    rename: Callable[[str], str] = str


def forged(tree: Tree, lie: Lie, depth: Depth, blocks: tuple[int, int]) -> Provider:
    """Return an endpoint of a tree's newest branch with forged blocks first to last.

    The endpoint shows the whole branch at once; tags, code and faults are set as for any other
    endpoint.
    """
    forger = _Forger(Blocks(tree.chain_id), lie, depth, blocks)
    last: Block = tree.genesis
    for true in branch(tree.last):
        last = forger.said(true, last)
        forger.known.add(last, last.tx_hashes)
    return Provider(forger.known, last)


class _Forger(NamedTuple):
    known: Blocks
    lie: Lie
    depth: Depth
    blocks: tuple[int, int]

    def said(self, true: Block, below: Block) -> Block:
        """Return the block that replaces a true block, on top of the given parent."""
        first, last = self.blocks
        if true.number < first or true.parent is None:
            return true
        if true.number > last:
            above_a_lie = self.depth is Depth.CHAIN and below.hash != true.parent_hash
            return self._mined(true, below, true_of(true)) if above_a_lie else _Retold(true, below)
        told = self.lie.tell(true)
        if self.depth < Depth.BLOCKS:
            is_so = told == true_of(true)
            sibling = true if is_so else self._mined(true, true.parent, told)
            return _Forged(true, below, sibling, self)
        if told == true_of(true) and below.hash == true.parent_hash:
            return _Forged(true, below, true, self)
        return _Forged(true, below, self._mined(true, below, told), self)

    def _mined(self, true: Block, on: Block, told: Told) -> Block:
        return MinedBlock(on, (true.number, told.time, 0), told.txs, self.known.chain_id)


class _Retold(Block):
    """A copy of a true block on top of a parent other than the one it names."""

    def __init__(self, true: Block, below: Block, own: str | None = None) -> None:
        super().__init__(true.number, true.hash if own is None else own, below, true.time)
        self._true = true

    @property
    @override
    def parent_hash(self) -> str:
        return self._true.parent_hash

    @property
    @override
    def txs(self) -> tuple[Tx, ...]:
        return self._true.txs

    @cached_property
    @override
    def header(self) -> Json:
        return self._true.header

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        return self._true.transactions

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        return self._true.receipts


class _Forged(_Retold):
    """A block made of parts of the true block and parts of a sibling that holds the lie."""

    def __init__(self, true: Block, below: Block, sibling: Block, forger: _Forger) -> None:
        has_own = forger.depth >= Depth.BLOCKS
        super().__init__(true, below, sibling.hash if has_own else None)
        self._sibling, self._depth, self._lie = sibling, forger.depth, forger.lie

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
            return self._true.header
        return {**self._sibling.header, "hash": self.hash}

    @cached_property
    @override
    def transactions(self) -> list[Json]:
        if self._depth >= Depth.HEADERS:
            told = [self._named(tx) for tx in self._sibling.transactions]
        else:
            pairs = zip(self._true.transactions, self._sibling.transactions, strict=True)
            told = [{**true, **_only(said, _SAID_OF_CALLS)} for true, said in pairs]
        if self._depth is Depth.ANSWERS:
            return told
        return [{**tx, "hash": self._lie.rename(tx["hash"])} for tx in told]

    @cached_property
    @override
    def receipts(self) -> list[Json]:
        if self._depth is Depth.ANSWERS:
            pairs = zip(self._true.receipts, self._sibling.receipts, strict=True)
            return [{**true, "status": said["status"]} for true, said in pairs]
        return self._told

    @cached_property
    @override
    def logs(self) -> list[Json]:
        return [log for receipt in self._told for log in receipt["logs"]]

    @cached_property
    def _told(self) -> list[Json]:
        """The receipts that hold the lie, with this block's hash."""
        by_sibling = self._depth >= Depth.HEADERS
        names = self._sibling.tx_hashes if by_sibling else self._true.tx_hashes
        pairs = zip(self._sibling.receipts, map(self._lie.rename, names), strict=True)
        return [self._receipt(receipt, name) for receipt, name in pairs]

    def _receipt(self, said: Json, name: str) -> Json:
        logs = [{**self._named(log), "transactionHash": name} for log in said["logs"]]
        marked = [self._lie.mark(log) for log in logs]
        return {**self._named(said), "transactionHash": name, "logs": marked}

    def _named(self, said: Json) -> Json:
        return {**said, "blockHash": self.hash}


def _only(said: Json, names: Sequence[str]) -> Json:
    return {name: said[name] for name in names}
