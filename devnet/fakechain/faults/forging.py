"""A liar that thinks: lies that fit each other, from one answer alone up to a whole chain.

A lie says what it makes of a block's time and transactions. How much else the liar makes fit is
the `Depth`. `forged` returns an endpoint that says so; `block_faults.switched` lets an honest one
speak like it now and then.
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

# What is said of a transaction under the hash and signature of the true one.
_SAID_OF_CALLS = ("from", "value", "input")


class Depth(IntEnum):
    """How much fits the lie; each has what is before it.

    `ANSWERS`: logs, transactions or status, as they are asked for. `RECEIPTS`: whole receipts.
    `HEADERS`: roots, bloom and time, under the true hash. `BLOCKS`: whole blocks with hashes of
    their own, linked, but the first true one above them does not follow. `CHAIN`: all above them
    are mined again.
    """

    ANSWERS = 1
    RECEIPTS = 2
    HEADERS = 3
    BLOCKS = 4
    CHAIN = 5


class Told(NamedTuple):
    """What is said of a block: its time in unix seconds, and its transactions."""

    time: int
    txs: tuple[Tx, ...]


def true_of(block: Block) -> Told:
    """Return what is so."""
    return Told(block.time, block.txs)


class Lie(NamedTuple):
    """One way to lie: `tell` makes other transactions of a block, as many as there are.

    `mark` changes logs as they are written, and `rename` the hashes of transactions, of which no
    header tells.
    """

    name: str
    tell: Callable[[Block], Told] = true_of
    mark: Callable[[Json], Json] = dict
    rename: Callable[[str], str] = str


def forged(tree: Tree, lie: Lie, depth: Depth, blocks: tuple[int, int]) -> Provider:
    """Return an endpoint of the newest chain of a tree that lies about blocks first to last.

    It shows all of its chain at once; tags, code and faults are set as any other endpoint's.
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
        """Return what stands in the place of a block, above what stands below it."""
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
    """A block word for word, on top of another than it names."""

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
    """A block as the liar tells it: parts of the true one, parts of a twin that holds the lie."""

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
        """The receipts that hold the lie, under this block's name."""
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
