"""A chain on any of the nodes, driven as the demo drives Anvil: the same blocks at the same
times.

The nodes order a block by fee, so each transaction of a block pays slightly less than the
previous one. The nodes sign alike, so a transaction has the same hash on all of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from devnet.anvil import LocalChain

Transaction = dict[str, str]

_MOST_WEI = 100 * 10**9


class Mark(NamedTuple):
    """A block to which a chain can be reset; `snapshot`: the node's name for it, if it has one."""

    number: int
    time: int
    snapshot: Any


class NodeChain(LocalChain):
    """A chain on the node called `kind`."""

    def __init__(self, kind: str, url: str) -> None:
        super().__init__(url)
        self.kind = kind
        if kind == "ganache":
            self.make_request("miner_stop")

    @property
    def number(self) -> int:
        """The height of the newest block."""
        return int(self.make_request("eth_blockNumber"), 16)

    @override
    def mine(self, time: int, transactions: Sequence[Transaction] = ()) -> list[str]:
        hashes = [
            str(self.make_request("eth_sendTransaction", sent))
            for sent in price_transactions(transactions)
        ]
        self.make_request("evm_mine", time)
        mined = self.transactions_at("latest")
        if hashes:
            assert mined == hashes, f"{self.kind} mined {mined} where {hashes} were sent"
        return hashes

    def transactions_at(self, block: int | str) -> list[str]:
        """Return the hashes of a block's transactions, in order."""
        at = hex(block) if isinstance(block, int) else block
        return list(self.make_request("eth_getBlockByNumber", at, False)["transactions"])

    def mark(self) -> Mark:
        """Record the newest block, so that later blocks can be replaced."""
        newest = self.make_request("eth_getBlockByNumber", "latest", False)
        snapshot = None if self.kind == "anvil" else self.make_request("evm_snapshot")
        return Mark(int(newest["number"], 16), int(newest["timestamp"], 16), snapshot)

    def replace(self, mark: Mark, blocks: Sequence[Sequence[Transaction]]) -> None:
        """Replace the blocks above the mark by others, all at the time of the mark.

        On Anvil their number must be equal, because `anvil_reorg` gives them no other times.
        """
        before = self.number
        if self.kind == "anvil":
            assert mark.number + len(blocks) == before, "anvil_reorg keeps the height"
            pairs = [
                [sent, offset]
                for offset, block in enumerate(blocks)
                for sent in price_transactions(block)
            ]
            self.make_request("anvil_reorg", len(blocks), pairs)
        else:
            self.go_back(mark)
            for block in blocks:
                self.mine(mark.time, block)
        transaction_counts = [
            len(self.transactions_at(mark.number + 1 + n)) for n in range(len(blocks))
        ]
        assert transaction_counts == [len(block) for block in blocks], (
            f"{self.kind} mined {transaction_counts}"
        )

    def go_back(self, mark: Mark) -> None:
        """Make the mark the newest block again; not supported on Anvil."""
        assert self.make_request("evm_revert", mark.snapshot) is True, self.kind


def price_transactions(transactions: Sequence[Transaction]) -> list[Transaction]:
    """Let each transaction pay slightly less than the previous one."""
    return [
        {**sent, "gasPrice": hex(_MOST_WEI - place)} for place, sent in enumerate(transactions)
    ]
