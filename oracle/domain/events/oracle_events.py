"""What the oracle contract itself said: rounds, indexes, kickouts.

They close the loop: what is on chain is folded from these, never assumed from what we sent.
See docs/reference/report-format.md#records, docs/explanation/reports.md#fold-what-is-on-chain.
"""

from dataclasses import dataclass

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, Hash


@dataclass(frozen=True, slots=True)
class IndexAssigned:
    at: Position
    time: int
    node: Address
    # Lane number of the node, 0 to 2^24 - 1.
    index: int


@dataclass(frozen=True, slots=True)
class IndexRetired:
    at: Position
    time: int
    node: Address
    index: int


@dataclass(frozen=True, slots=True)
class RoundAccepted:
    at: Position
    time: int
    round: int
    as_of: int
    as_of_hash: Hash
    # keccak256 of `records`, as the contract computed it.
    data_hash: Hash
    digest: Hash
    rules: int
    transmitter: Address
    # From the input of the `push` call: (word index, word), ascending. The reader has checked
    # them against `data_hash`.
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class KickProposed:
    at: Position
    time: int
    index: int
    node: Address
    round: int
    evidence: Hash
    # Unix time from which it may be executed.
    ready_at: int


@dataclass(frozen=True, slots=True)
class KickCancelled:
    at: Position
    time: int
    index: int
    by: Address
    why: Hash


@dataclass(frozen=True, slots=True)
class KickExecuted:
    at: Position
    time: int
    index: int
    node: Address
    round: int
    evidence: Hash


@dataclass(frozen=True, slots=True)
class RoleSet:
    at: Position
    time: int
    # The role's name in ASCII, zeros after it; see VETOER.
    role: Hash
    who: Address


# May cancel a kickout that could still be executed; nobody else may (Kickouts.sol).
VETOER = Hash("0x" + b"vetoer".ljust(32, b"\0").hex())

ContractEvent = (
    IndexAssigned
    | IndexRetired
    | RoundAccepted
    | KickProposed
    | KickCancelled
    | KickExecuted
    | RoleSet
)
