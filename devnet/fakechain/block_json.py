"""What an endpoint of ours tells of a block, and what is said in one.

JSON is made when it is first asked for, and then shared: whoever changes it copies it first.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from typing_extensions import override

Json = dict[str, Any]

ZERO_HASH = "0x" + "00" * 32
LEGACY, ACCESS_LIST, DYNAMIC = range(3)


@dataclass(frozen=True, slots=True)
class Said:
    """One log before it is in a block: who says it, topics and data in lower-case `0x` hex."""

    address: str
    topics: tuple[str, ...]
    data: str = "0x"


@dataclass(frozen=True, slots=True)
class Tx:
    """One transaction; `to` is None for a creation, `kind` its EIP-2718 type, 0 to 2.

    The tree gives it a nonce where it has none; with its nonce, as it stands in `Block.txs`, it
    has the same hash in whatever block it is mined again. A failed one has no logs.
    """

    sender: str
    to: str | None
    input: str = "0x"
    value: int = 0
    logs: tuple[Said, ...] = ()
    succeeded: bool = True
    kind: int = DYNAMIC
    nonce: int | None = None

    @property
    def said(self) -> tuple[Said, ...]:
        """The logs that the chain keeps of it."""
        return self.logs if self.succeeded else ()

    @property
    def gas(self) -> int:
        """The gas that it used, as we have it."""
        return 21_000 + 16 * (len(self.input) // 2 - 1) + 1_000 * len(self.said)

    def numbered(self, nonce: int) -> "Tx":
        """Return it with this nonce, unless it has one."""
        return self if self.nonce is not None else replace(self, nonce=nonce)


class Block:
    """What every block of ours answers, mined or recorded."""

    def __init__(self, number: int, own: str, parent: "Block | None", time: int) -> None:
        self.number = number
        self.hash = own
        self.parent = parent
        self.time = time

    @override
    def __repr__(self) -> str:
        return f"Block({self.number}, {self.hash[:10]})"

    @property
    def parent_hash(self) -> str:
        """The hash of the block before it; zeros for the first one."""
        return self.parent.hash if self.parent else ZERO_HASH

    def below(self, blocks: int = 1) -> "Block":
        """Return the block so many below this one, on its branch.

        Raises:
            ValueError: there are not so many.
        """
        at: Block | None = self
        for _ in range(blocks):
            at = at.parent if at else None
        if at is None:
            raise ValueError(f"there is no block {blocks} below block {self.number}")
        return at

    @property
    def txs(self) -> tuple[Tx, ...]:
        """What was mined; nothing where the block was not mined by us."""
        return ()

    @property
    def lacks_receipts(self) -> bool:
        """Whether nobody can tell its receipts, although there were some."""
        return False

    @cached_property
    def header(self) -> Json:
        """All of `eth_getBlockByNumber` but the transactions."""
        raise NotImplementedError

    @cached_property
    def transactions(self) -> list[Json]:
        """The entries of a full block."""
        raise NotImplementedError

    @cached_property
    def receipts(self) -> list[Json]:
        """What `eth_getBlockReceipts` answers."""
        raise NotImplementedError

    @cached_property
    def tx_hashes(self) -> list[str]:
        """The hashes of its transactions, in order."""
        return [one["hash"] for one in self.transactions]

    @cached_property
    def logs(self) -> list[Json]:
        """All logs, in order."""
        return [log for receipt in self.receipts for log in receipt["logs"]]

    @cached_property
    def short(self) -> Json:
        """The block with the hashes of its transactions."""
        return {**self.header, "transactions": self.tx_hashes}

    @cached_property
    def full(self) -> Json:
        """The block with its transactions."""
        return {**self.header, "transactions": self.transactions}
