"""The raw input from the chain: logs, and the calls that some events need.

Everything else in the database is folded from these and can be rebuilt.
"""

from dataclasses import dataclass
from typing import ClassVar

from oracle.domain.ids import Address, Hash


@dataclass(slots=True)
class Log:
    """One entry of an `eth_getLogs` response; all hex values are in lower case."""

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
    """One transaction whose input holds data that its logs lack; `value` is in wei."""

    block: int
    block_hash: Hash
    time: int
    tx: int
    tx_hash: Hash
    sender: Address
    to: Address
    value: int
    input: str
    # Whether the call succeeded; a reverted call has no effect.
    succeeded: bool

    # The event of a call precedes the logs of its transaction
    # (docs/reference/events-and-jsonl.md).
    index: ClassVar[int] = -1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A log, or a call (`index` -1), of a known kind that could not be decoded.

    The raw row is stored as well, but nothing of it is folded. `name` is the event or function.
    """

    block: int
    block_hash: Hash
    time: int
    tx: int
    index: int
    address: Address
    name: str
    # The reason in one line; never the bytes themselves.
    error: str
