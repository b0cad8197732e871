"""Represents blocks, transactions and logs as the JSON of a fake endpoint.

The JSON is built on first use and then shared, so callers must copy it before changing it.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from typing_extensions import override

Json = dict[str, Any]

ZERO_HASH = "0x" + "00" * 32
LEGACY, ACCESS_LIST, DYNAMIC = range(3)


@dataclass(frozen=True, slots=True)
class FakeLog:
    """A log that is not in a block yet.

    Address, topics and data are lower-case hex with `0x`.
    """

    address: str
    topics: tuple[str, ...]
    data: str = "0x"


@dataclass(frozen=True, slots=True)
class Tx:
    """A transaction.

    `to` is None for a contract creation, and `tx_type` is the EIP-2718 type, 0 to 2. `BlockTree`
    assigns a nonce to a transaction without one. A transaction with a nonce, such as those in
    `Block.txs`, has the same hash in every block that contains it. A failed transaction has no
    logs.
    """

    sender: str
    to: str | None
    input: str = "0x"
    value: int = 0
    logs: tuple[FakeLog, ...] = ()
    succeeded: bool = True
    tx_type: int = DYNAMIC
    nonce: int | None = None

    @property
    def emitted_logs(self) -> tuple[FakeLog, ...]:
        """The logs of the transaction.

        A failed transaction has none.
        """
        return self.logs if self.succeeded else ()

    @property
    def gas_used(self) -> int:
        """The gas that the transaction used, by an invented formula."""
        return 21_000 + 16 * (len(self.input) // 2 - 1) + 1_000 * len(self.emitted_logs)

    def with_nonce(self, nonce: int) -> "Tx":
        """Return the transaction with this nonce, unless it already has a nonce."""
        return self if self.nonce is not None else replace(self, nonce=nonce)


class Block:
    """The common interface of blocks that were mined or recorded."""

    def __init__(self, number: int, block_hash: str, parent: "Block | None", time: int) -> None:
        self.number = number
        self.hash = block_hash
        self.parent = parent
        self.time = time

    @override
    def __repr__(self) -> str:
        return f"Block({self.number}, {self.hash[:10]})"

    @property
    def parent_hash(self) -> str:
        """The hash of the parent block.

        It is zero for the first block.
        """
        return self.parent.hash if self.parent else ZERO_HASH

    def get_ancestor(self, depth: int = 1) -> "Block":
        """Return the ancestor that is `depth` blocks below this block.

        Raises:
            ValueError: the branch has too few blocks.
        """
        block: Block | None = self
        for _ in range(depth):
            block = block.parent if block else None
        if block is None:
            raise ValueError(f"block {self.number} has no ancestor {depth} blocks below it")
        return block

    @property
    def txs(self) -> tuple[Tx, ...]:
        """The transactions of a mined block.

        The list is empty for a recorded block.
        """
        return ()

    @property
    def is_missing_receipts(self) -> bool:
        """Whether the block had receipts that cannot be served."""
        return False

    @cached_property
    def header(self) -> Json:
        """All fields of `eth_getBlockByNumber` except the transactions."""
        raise NotImplementedError

    @cached_property
    def transactions(self) -> list[Json]:
        """The transaction objects of a full block."""
        raise NotImplementedError

    @cached_property
    def receipts(self) -> list[Json]:
        """The result of `eth_getBlockReceipts`."""
        raise NotImplementedError

    @cached_property
    def tx_hashes(self) -> list[str]:
        """The hashes of the block's transactions, in order."""
        return [transaction["hash"] for transaction in self.transactions]

    @cached_property
    def logs(self) -> list[Json]:
        """All logs of the block, in order."""
        return [log for receipt in self.receipts for log in receipt["logs"]]

    @cached_property
    def json_with_hashes(self) -> Json:
        """The block with the hashes of its transactions."""
        return {**self.header, "transactions": self.tx_hashes}

    @cached_property
    def json_with_transactions(self) -> Json:
        return {**self.header, "transactions": self.transactions}
