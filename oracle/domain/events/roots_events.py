"""Events of the oracle contract that accepts one Merkle root a round (QoSRoots.sol).

The on-chain state is folded from these logs alone; no transaction's input is read.
"""

from dataclasses import dataclass

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    ConfigSet,
    KickCancelled,
    KickExecuted,
    KickRefused,
    NodeExpelled,
    NodeReadmitted,
)
from oracle.domain.ids import Address, Hash


@dataclass(frozen=True, slots=True)
class RootAccepted:
    """A round was accepted."""

    at: Position
    time: int
    round: int
    as_of: int
    as_of_hash: Hash
    # Root of the round's tree; the next report names it as `prev`.
    root: Hash
    # Digest of the chain, contract, signers, quorum and rules under which the round was signed.
    config: Hash
    # Bit i: the signer at index i of that configuration has signed.
    signer_bitmap: int


@dataclass(frozen=True, slots=True)
class RoundsStruck:
    """The roots of the rounds `first` to `last`, both included, prove nothing any more."""

    at: Position
    time: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class KickAccused:
    at: Position
    time: int
    node: Address
    # The last accepted round at the time of the accusation.
    round: int
    # The accused interval: the time since which the kickout is due.
    due_since: int
    # Hash of the scores behind the kickout, from the leaf.
    evidence: Hash
    # Unix time from which the kickout may be executed.
    ready_at: int


@dataclass(frozen=True, slots=True)
class KickAllowed:
    """The vetoer allowed the held kickout that is due since `due_since`; 0: none any more."""

    at: Position
    time: int
    node: Address
    due_since: int


@dataclass(frozen=True, slots=True)
class RoundLimitsSet:
    """The limits of reports and kickouts were set; see `Limits` in RoundLimits.sol for units."""

    at: Position
    time: int
    min_interval: int
    anchor_window: int
    max_age_seconds: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    min_open: int


@dataclass(frozen=True, slots=True)
class KickoutLimitsSet:
    """Gas, length and rate of kickouts were set; see `KickLimits` in KickoutLimits.sol for units.

    `kick_cooldown` is the duration, in seconds, of expulsions that are executed from then on.
    """

    at: Position
    time: int
    kick_gas: int
    kick_cooldown: int
    bucket_most: int
    bucket_per_frame: int
    bucket_frame: int


@dataclass(frozen=True, slots=True)
class SignersSet:
    """The signers and the quorum of the next configuration, which a ConfigSet names."""

    at: Position
    time: int
    signers: tuple[Address, ...]
    quorum: int


# Settings of the contract's administrators, valid until they are set again.
SettingEvent = RoundLimitsSet | KickoutLimitsSet | SignersSet | ConfigSet

# Events of one node's kickout.
KickEvent = (
    KickAccused
    | KickCancelled
    | KickAllowed
    | KickExecuted
    | KickRefused
    | NodeExpelled
    | NodeReadmitted
)

ContractEvent = RootAccepted | RoundsStruck | KickEvent | SettingEvent
