"""Events of the oracle contract: rounds, indexes, kickouts, roles and limits.

The on-chain state is folded from these events, never assumed from what was sent. See
docs/reference/report-format.md#records, docs/explanation/reports.md#fold-what-is-on-chain.
"""

from dataclasses import dataclass

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, Hash
from oracle.domain.registrations import Registrations


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    at: Position
    time: int
    node: Address
    # Lane number of the node, 0 to 2^24 - 2.
    index: int


@dataclass(frozen=True, slots=True)
class RoundAccepted:
    at: Position
    time: int
    round: int
    as_of: int
    as_of_hash: Hash
    # keccak256 of the call's `data`, as the contract computed it.
    data_hash: Hash
    digest: Hash
    # Digest of the chain, contract, signers, quorum and rules under which it was signed.
    config: Hash
    transmitter: Address
    # From the input of the `push` call: the registrations, and (word index, word), ascending. The
    # reader has checked both against `data_hash`.
    registrations: Registrations
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class KickProposed:
    at: Position
    time: int
    node: Address
    # The round that was accepted last when it was proposed.
    round: int
    evidence: Hash
    # Unix times between which it may be executed.
    ready_at: int
    dies_at: int


@dataclass(frozen=True, slots=True)
class KickCancelled:
    at: Position
    time: int
    node: Address
    by: Address
    why: Hash


@dataclass(frozen=True, slots=True)
class KickExecuted:
    at: Position
    time: int
    node: Address
    evidence: Hash
    # The contract asked to end the membership; zero: none.
    target: Address


@dataclass(frozen=True, slots=True)
class KickRefused:
    at: Position
    time: int
    node: Address
    target: Address
    # The first 32 bytes of the target's revert data.
    reason: Hash


@dataclass(frozen=True, slots=True)
class NodeExpelled:
    """An expulsion at deployment: the previous oracle contract had expelled the node."""

    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeReadmitted:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class RoleSet:
    at: Position
    time: int
    # The role's name in ASCII, zeros after it; see VETOER.
    role: Hash
    who: Address


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """The limits of a round's content; shares in 1/10,000, falls in lane steps."""

    at: Position
    time: int
    max_new_nodes: int
    fall_share: int
    big_fall: int


@dataclass(frozen=True, slots=True)
class KickLimitsSet:
    at: Position
    time: int
    # Duration in seconds of expulsions executed from then on.
    kick_cooldown: int


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """Signers, quorum or rules were set: `count` is the configuration's number."""

    at: Position
    time: int
    count: int
    digest: Hash


# Settings of the contract's administrators, valid until they are set again.
SettingEvent = RoleSet | LimitsSet | KickLimitsSet | ConfigSet

# The only role that may cancel a kickout that can still be executed (Kickouts.sol).
VETOER = Hash("0x" + b"vetoer".ljust(32, b"\0").hex())

ContractEvent = (
    NodeRegistered
    | RoundAccepted
    | KickProposed
    | KickCancelled
    | KickExecuted
    | KickRefused
    | NodeExpelled
    | NodeReadmitted
    | RoleSet
    | LimitsSet
    | KickLimitsSet
    | ConfigSet
)
