"""The raw input, as the chain gave it: logs and the calls that some events need.

Everything else in the database is folded from these two and can be thrown away.
"""

from dataclasses import dataclass
from typing import ClassVar

from oracle.domain.ids import Address, Hash


@dataclass(slots=True)
class Log:
    """One entry of `eth_getLogs`; hex as the endpoint wrote it, lower case."""

    block: int
    block_hash: Hash
    time: int
    tx: int
    tx_hash: Hash
    index: int
    address: Address
    # 0 to 4 topics of 32 bytes.
    topics: tuple[str, ...]
    data: str


@dataclass(slots=True)
class Call:
    """One transaction whose input says what its logs do not; `value` in wei."""

    block: int
    block_hash: Hash
    time: int
    tx: int
    tx_hash: Hash
    sender: Address
    to: Address
    value: int
    input: str
    # Whether it succeeded; a reverted call defines nothing.
    succeeded: bool

    # What a call says comes before the logs of its transaction
    # (docs/reference/events-and-jsonl.md).
    index: ClassVar[int] = -1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A log, or a call (`index` -1), of a kind that we know and could not read.

    The raw row is kept as well; nothing of it was folded. `name` is the event or function.
    """

    block: int
    block_hash: Hash
    time: int
    tx: int
    index: int
    address: Address
    name: str
    # Why, in one line; never the bytes themselves.
    error: str
